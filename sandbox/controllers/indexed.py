"""Indexed Jobs: which indexes are done, failed, or may have a pod, and the tries of each. Pure.

After pkg/controller/job/indexed_job_utils.go of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from sandbox.api.meta.objects import Obj, dig, parse_time
from sandbox.controllers import pods

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""On a pod: how many pods of its index failed before it."""
_TEXT = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?){0,999}")
FIRST_BACKOFF = 10.0
LONGEST_BACKOFF = 600.0


def index_of(pod: Obj) -> int:
    """The index that the pod runs."""
    return int(pod["metadata"]["annotations"][INDEX])


def failed_indexes(job: Obj, ended: Iterable[Obj]) -> set[int]:
    """The indexes that failed for good: those of the status, and those whose last try is among `ended`."""
    limit = int(job["spec"]["backoffLimitPerIndex"])
    found = read_indexes(dig(job, "status", "failedIndexes", default="") or "")
    tried = (pod for pod in ended if pods.phase(pod) == "Failed")
    return found | {index_of(pod) for pod in tried if _failures_before(pod) >= limit}


def verdict(job: Obj, status: Obj) -> tuple[str, str] | None:
    """Reason and message of the end that failed indexes bring; None while there is none."""
    failed = read_indexes(status.get("failedIndexes") or "")
    most = dig(job, "spec", "maxFailedIndexes")
    if most is not None and len(failed) > int(most):
        words = "Job has exceeded the specified maximal number of failed indexes"
        return "MaxFailedIndexesExceeded", words
    done = read_indexes(status.get("completedIndexes") or "")
    if failed and len(failed) + len(done) >= int(job["spec"]["completions"]):
        return "FailedIndexes", "Job has failed indexes"
    return None


def over(status: Obj) -> set[int]:
    """The indexes that need no pod any more."""
    return read_indexes(status.get("completedIndexes") or "") | read_indexes(
        status.get("failedIndexes") or ""
    )


def tries_of(index: int, every: Iterable[Obj], now: datetime) -> tuple[int, float]:
    """How often this index failed, and the seconds to wait before its next pod: 10 s, doubling."""
    failed = [pod for pod in every if pods.phase(pod) == "Failed" and index_of(pod) == index]
    if not failed:
        return 0, 0.0
    count = max(_failures_before(pod) for pod in failed) + 1
    delay = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(count - 1, 8))
    return count, delay - (now - max(finish_time(pod) for pod in failed)).total_seconds()


def finish_time(pod: Obj) -> datetime:
    """When the last of its containers ended; of one that has none that did, when it was made."""
    ends = [
        dig(c, "state", "terminated", "finishedAt")
        for c in dig(pod, "status", "containerStatuses", default=[])
    ]
    return max((parse_time(e) for e in ends if e), default=parse_time(pod["metadata"]["creationTimestamp"]))


def _failures_before(pod: Obj) -> int:
    return int(pod["metadata"]["annotations"].get(FAILURES, 0))


def is_indexes(text: str) -> bool:
    """Whether `read_indexes` reads it: numbers and runs, none so long that it fills memory."""
    return bool(_TEXT.fullmatch(text))


def read_indexes(text: str) -> set[int]:
    """The set behind a completedIndexes text such as 0,2-4."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def write_indexes(indexes: set[int]) -> str:
    """The completedIndexes text as Kubernetes writes it: runs of three and more with a dash, pairs with a
    comma.
    """
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
