"""Which values of the corpus go into which field of which write."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.hostile.corpus import (
    ENVIRONMENTS,
    IMAGES,
    INERT_ENVIRONMENTS,
    LABELS,
    MONTHS,
    NUMBERS,
    QUANTITIES,
    SECRETS,
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
    /spec/max_wait_seconds /spec/max_run_seconds /spec/idle_policy /spec/notebook /spec/job /spec/training
    /spec/service /spec/template"""
WORKLOAD = [
    *each("/slug /tenant /spec/offer", SLUGS),
    *each("/name", TEXTS, SLUGS, ["a\nb"]),
    *each("/labels", LABELS),
    *each("/spec/image", IMAGES),
    *each("/spec/env", ENVIRONMENTS, INERT_ENVIRONMENTS),
    *each("/spec/cpu /spec/memory", QUANTITIES),
    *each("/spec/volumes", VOLUMES),
    *each("/secrets", SECRETS, TYPES),
    *each("/spec/command /spec/args", [[text] for text in TEXTS]),
    *each("/spec/count /spec/max_wait_seconds /spec/max_run_seconds", NUMBERS),
    *each("/tenant /slug /name /labels /spec /surprise", TYPES),
    *each(SPEC_FIELDS, TYPES),
    *each("/spec/notebook", [{"ide": value} for value in TYPES]),
]
JOB_FIELDS = """/spec/job/completions /spec/job/parallelism /spec/job/backoff_limit /spec/job/items
    /spec/job/max_failed_indexes /spec/job/completion_mode /spec/job/x"""
JOB = each(JOB_FIELDS, NUMBERS, TYPES)
TRAINING_FIELDS = """/spec/training /spec/training/nodes /spec/training/processes_per_node
    /spec/training/restarts /spec/training/x"""
TRAINING = [
    *each(TRAINING_FIELDS, NUMBERS, TYPES),
    *each("/spec/env", ENVIRONMENTS, [{"RANK": "0"}, {"PET_NNODES": "9"}, {"MASTER_ADDR": "evil.example"}]),
]
SERVICE_FIELDS = """/spec/service /spec/service/port /spec/service/replicas /spec/service/health_port
    /spec/service/start_seconds /spec/service/open_to /spec/service/x"""
SERVICE = [
    *each(SERVICE_FIELDS, NUMBERS, TYPES),
    *each("/spec/service/health_path", TEXTS, TYPES, ["//evil.example/", "/a b", "/\r\nX: y", "/" * 201]),
]


PARAMETER = (
    "name", "title", "description", "type", "default", "unit", "format", "minimum", "maximum", "max_length",
    "choices", "x",
)  # fmt: skip


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
    "a template": Write(
        "POST",
        "templates",
        [
            *each("/slug", SLUGS),
            *each("/name /spec/description /version/notes", TEXTS, TYPES),
            *each("/spec/least_trust /spec/departments /spec/tenants", TYPES, [SLUGS]),
            *each("/version /version/workload /surprise", TYPES, [[kind] for kind in TYPES]),
            *each("/version/parameters", [value for value in TYPES if value != []]),
            *each("/version/workload/kind /version/workload/env", TYPES),
            *(
                ("/version/parameters", [{"name": "offer", name: value}])
                for name in PARAMETER
                for value in [*TYPES, *NUMBERS]
            ),
        ],
        {
            "slug": "hostile",
            "name": "Hostile",
            "spec": {},
            "version": {
                "parameters": [{"name": "offer"}],
                "workload": {"kind": "notebook", "offer": "{{offer}}"},
            },
        },
    ),
    "a template's file": Write("POST", "template-import", each("/source", TEXTS, TYPES), {"source": ""}),
    "a workload from a template": Write(
        "POST",
        "templates/optics-template/workloads",
        [
            *each("/tenant /slug", SLUGS),
            *each("/name", TEXTS),
            *each("/labels", LABELS),
            *each("/version /parameters/hours", NUMBERS, TYPES),
            *each("/parameters /parameters/offer /parameters/x", TYPES),
        ],
        {"tenant": "optics", "parameters": {"offer": "h100-slice"}},
    ),
    "a team's defaults": Write(
        "PUT",
        "tenants/optics/template-defaults",
        each("/spec /spec/optics-template /spec/optics-template/hours /spec/nowhere", NUMBERS, TYPES),
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
            *each("/spec/shell", TYPES),
        ],
        {"spec": {"department": "imaging"}},
    ),
    "a tenant's patch": Write(
        "PATCH",
        "tenants/optics",
        each("/spec/department /spec/clusters /spec/trust_level /spec/suspend /spec/shell /spec/x", TYPES),
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
    "a closed month": Write(
        "POST",
        "statements",
        each("/month", MONTHS, TYPES),
        {"tenant": "optics", "month": "2026-01"},
    ),
    "a rule on groups": Write(
        "POST",
        "group-rules",
        [
            *each("/provider /group /kind /target /role /surprise", TYPES),
            *each("/group", TEXTS, SLUGS),
            *each("/provider /target", SLUGS),
        ],
        {"provider": "acme", "group": "g", "kind": "tenant", "target": "optics", "role": "lead"},
    ),
    "a sign-in that is tried": Write(
        "POST",
        "group-rules/effect",
        [
            *each("/provider /groups /username /surprise", TYPES),
            *each("/groups", [[text] for text in TEXTS]),
            *each("/username", SLUGS),
        ],
        {"provider": "acme"},
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
