"""A workload in the browser: who may open it, by which code, and how its pod is reached."""
