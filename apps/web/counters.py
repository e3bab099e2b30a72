"""What HTTP counts about itself, for Prometheus."""

from prometheus_client import Counter

FAILED_OPEN = Counter(
    "allotment_redis_failed_open_total",
    "Times Redis did not answer and the request went on without it",
    ["purpose"],
)
PROBLEMS = Counter("allotment_problems_total", "Refusals and failures that were answered", ["code"])
