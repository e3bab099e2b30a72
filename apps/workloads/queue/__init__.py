"""The order of what waits, changed by hand."""
