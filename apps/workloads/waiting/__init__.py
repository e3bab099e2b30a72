"""Why something waits, who is ahead of it, and when it will start."""
