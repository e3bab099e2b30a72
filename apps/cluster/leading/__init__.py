"""Which of several equal processes does what only one may do at a time."""
