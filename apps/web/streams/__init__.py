"""What happens is told to open pages and REST streams at once."""
