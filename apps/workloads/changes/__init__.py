"""What every write of a workload shares: lock, audit, story, wake-up, news for open pages."""
