"""The admission chain and its built-in hooks."""
