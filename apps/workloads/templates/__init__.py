"""Templates: workloads that are asked for in a few typed fields."""
