"""The life of one workload: asked for, started, changed, stopped, ended."""
