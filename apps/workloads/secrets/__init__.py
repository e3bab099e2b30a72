"""Values that only a workload itself may read: set, replaced, removed, and put into its Secret."""
