"""A past that was written to files, brought into the installation."""
