"""Idle and oversized work: found, explained, counted down, stopped, answered."""
