"""Reads and writes by the generic rules, and what single kinds do differently."""
