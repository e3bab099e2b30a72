"""The worker and the clock as processes: `python -m portal.run.worker`, `python -m portal.run.beat`."""
