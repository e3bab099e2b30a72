"""How much a source may send before it is refused. Pure."""

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer. An exporter of 16 GPUs in 7 instances each sends about 1 MiB."""
MOST_SERIES = 100_000
"""Of one exporter's text."""
MOST_SERIES_AT_ONCE = 200_000
"""Of one answer of Prometheus, which is of one field: 10,000 GPUs in 7 slices each are 70,000."""
MOST_DEVICES_PER_NODE = 1024
KEPT_ASIDE = 400
"""Characters of what could not be read that an operator gets to see."""
