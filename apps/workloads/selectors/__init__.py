"""Which workloads an actor sees, and rows in the shapes of the pure rooms. Reads only."""
