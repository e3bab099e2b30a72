"""What is asked of a cluster while somebody waits, and who may go on listening."""
