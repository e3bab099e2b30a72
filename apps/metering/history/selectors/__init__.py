"""What is known of a past that is coming in."""
