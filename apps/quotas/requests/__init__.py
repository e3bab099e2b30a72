"""Quota requests: a lead asks, somebody else decides."""
