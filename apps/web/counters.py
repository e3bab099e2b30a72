"""What the product counts about itself, for Prometheus; what a domain counts is declared where it happens.

All processes together: see `apps.web.stores.telling`.
"""

from prometheus_client import Counter, Histogram

FAILED_OPEN = Counter(
    "allotment_redis_failed_open_total",
    "Times Redis did not answer and the request went on without it",
    ["purpose"],
)
PROBLEMS = Counter("allotment_problems_total", "Refusals and failures that were answered", ["code"])
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS = Counter("allotment_requests_total", "Requests that were answered.", ["route", "status"])
REQUEST_SECONDS = Histogram(
    "allotment_request_seconds",
    "From a request's arrival to the head of its answer; a stream's own length is not in it.",
    ["route"],
    buckets=SECONDS,
)
TASKS = Counter("allotment_tasks_total", "Tasks that workers ended, by Celery's state.", ["task", "state"])
TASK_WAIT_SECONDS = Histogram(
    "allotment_task_wait_seconds", "From sending a task to its start in a worker.", buckets=SECONDS
)
