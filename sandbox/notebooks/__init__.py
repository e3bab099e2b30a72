"""What simulated notebooks serve."""
