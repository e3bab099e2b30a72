"""What a workload is, out of what its cluster shows. Pure."""
