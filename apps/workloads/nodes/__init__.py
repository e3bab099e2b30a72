"""Nodes that change hands, and the work on them."""
