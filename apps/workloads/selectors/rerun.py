"""The request that runs again what failed of an array. Reads only."""

from dataclasses import replace

from apps.errors import Conflict
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadRequest

LONGEST_NAME = 120


def can_rerun(row: Workload) -> bool:
    """Whether there is anything to run again."""
    standing = reading.standing_of(row)
    return standing is not None and row.phase == Phase.FAILED and bool(standing.missing)


def request_of(row: Workload, *, slug: str = "", name: str = "") -> WorkloadRequest:
    """A new array of the items that did not end well, otherwise like this one.

    Rule: what failed and what never came to an end; each keeps its number. Raises Conflict unless the array
    failed, Invalid where its command cannot be started with other items.
    """
    spec, standing = reading.spec_of(row), reading.standing_of(row)
    if spec.job is None or standing is None:
        raise Conflict("It is no array: it has no items.", hint="Run the whole of it again.")
    if not can_rerun(row):
        raise Conflict("None of its items failed, or it has not ended.", hint="Wait until it has failed.")
    missing = standing.missing
    most = spec.job.max_failed_indexes
    block = replace(
        spec.job,
        completions=len(missing),
        parallelism=min(spec.job.parallelism, len(missing)),
        max_failed_indexes=None if most is None else min(most, len(missing)),
        # All of them is the array itself.
        items=spec.job.items if missing == standing.numbered else missing,
    )
    return WorkloadRequest(
        spec=parsing.parse(parsing.as_json(replace(spec, block=block, suspend=False))),
        slug=slug,
        name=name or f"{row.name} (failed items)"[:LONGEST_NAME],
        labels=dict(row.labels),
        like=str(row.pk),
    )
