"""The frame of every reconcile: plan, run, lease, sweep, and who is woken."""
