"""The checks of a tenant's isolation: asked for, run from inside, judged."""
