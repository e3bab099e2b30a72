"""Whose a GPU's time was and what was done in it, in buckets."""
