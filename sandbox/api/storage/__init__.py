"""Objects in memory and in one file; simulated time."""
