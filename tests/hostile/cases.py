"""Which values of the corpus go into which field of which write."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.hostile.corpus import (
    ENVIRONMENTS,
    IMAGES,
    INERT_ENVIRONMENTS,
    LABELS,
    NUMBERS,
    QUANTITIES,
    SLUGS,
    TEXTS,
    TIMES,
    TYPES,
    VOLUMES,
)

Case = tuple[str, Any]


def each(pointers: str, *groups: Iterable[Any]) -> list[Case]:
    """Every value of the groups at every one of the pointers."""
    return [(pointer, value) for pointer in pointers.split() for group in groups for value in group]


SPEC_FIELDS = """/spec/kind /spec/offer /spec/offers /spec/count /spec/image /spec/command /spec/args
    /spec/env /spec/env_from_secrets /spec/cpu /spec/memory /spec/volumes /spec/priority /spec/suspend
    /spec/max_wait_seconds /spec/max_run_seconds /spec/idle_policy /spec/notebook /spec/job /spec/template"""
WORKLOAD = [
    *each("/slug /tenant /spec/offer", SLUGS),
    *each("/name", TEXTS, SLUGS, ["a\nb"]),
    *each("/labels", LABELS),
    *each("/spec/image", IMAGES),
    *each("/spec/env", ENVIRONMENTS, INERT_ENVIRONMENTS),
    *each("/spec/cpu /spec/memory", QUANTITIES),
    *each("/spec/volumes", VOLUMES),
    *each("/spec/command /spec/args", [[text] for text in TEXTS]),
    *each("/spec/count /spec/max_wait_seconds /spec/max_run_seconds", NUMBERS),
    *each("/tenant /slug /name /labels /spec /surprise", TYPES),
    *each(SPEC_FIELDS, TYPES),
    *each("/spec/notebook", [{"ide": value} for value in TYPES]),
]
JOB = each("/spec/job/completions /spec/job/parallelism /spec/job/backoff_limit /spec/job/x", NUMBERS, TYPES)


@dataclass(frozen=True)
class Write:
    """A write that succeeds as `body` has it, and what is put into it."""

    method: str
    path: str
    cases: list[Case]
    body: dict[str, Any] = field(default_factory=dict)


SAME = {
    "kind": "notebook",
    "offer": "h100-slice",
    "image": "jupyter/pytorch:1",
    "memory": "16Gi",
    "cpu": "2",
}
WRITES = {
    "a workload's replacement": Write(
        "PUT",
        "workloads/{own}",
        each("/name /labels /spec /status /generation /id", TYPES),
        {"spec": SAME},
    ),
    "a workload's patch": Write(
        "PATCH",
        "workloads/{own}",
        [
            *each("/name", TEXTS, TYPES),
            *each("/labels", LABELS),
            *each("/spec/cpu", QUANTITIES),
            *each("/spec/volumes", VOLUMES),
            *each("/spec/env", ENVIRONMENTS),
        ],
    ),
    "a reason": Write("POST", "workloads/{own}/stop", each("/reason", TEXTS, TYPES)),
    "an extension": Write("POST", "workloads/{own}/extend", each("/seconds", NUMBERS, TYPES)),
    "a copy": Write(
        "POST",
        "workloads/{own}/duplicate",
        [*each("/slug", SLUGS), *each("/name", TEXTS), *each("/spec", TYPES)],
    ),
    "a tenant": Write(
        "POST",
        "tenants",
        [
            *each("/slug /spec/department", SLUGS),
            *each("/name", TEXTS),
            *each("/slug /name /spec /surprise", TYPES),
            *each("/spec/department /spec/clusters /spec/isolation /spec/trust_level /spec/suspend", TYPES),
        ],
        {"spec": {"department": "imaging"}},
    ),
    "a tenant's patch": Write(
        "PATCH",
        "tenants/optics",
        each("/spec/department /spec/clusters /spec/trust_level /spec/suspend /spec/x", TYPES),
    ),
    "a member": Write("PUT", "tenants/optics/members/rosa", each("/role", TYPES, SLUGS)),
    "a quota": Write(
        "POST",
        "quotas",
        [
            *each("/spec/nominal_quota /spec/borrowing_limit /spec/lending_limit", NUMBERS, TYPES),
            *each("/tenant /spec /spec/offer", TYPES, SLUGS),
        ],
        {"tenant": "optics", "spec": {"offer": "h100-spare", "nominal_quota": 1}},
    ),
    "a token": Write(
        "POST",
        "tokens",
        [
            *each("/name", TEXTS, TYPES),
            *each("/expires_at", TIMES, TYPES),
            *each("/scopes /tenants", TYPES, [SLUGS, TEXTS]),
        ],
        {"name": "t"},
    ),
}
