"""Structural schemas, and bringing an object into its stored form."""
