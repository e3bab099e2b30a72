"""One simulated cluster: its parts put together, without HTTP."""
