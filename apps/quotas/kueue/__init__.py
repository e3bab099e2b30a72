"""Kueue's objects, made and read, and what Kueue will do with them. Pure."""
