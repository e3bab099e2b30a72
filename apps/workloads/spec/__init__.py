"""What can be asked for, read from JSON and written back. Pure."""
