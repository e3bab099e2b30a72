"""How drift and the checks of clusters look in REST."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from apps.cluster.models import Drift
from apps.cluster.reconciling.rules.drift import DriftKind, FieldDrift, moment_of
from apps.cluster.reconciling.selectors.drifts import Look
from apps.web.shapes.bodies import Id


class DriftFieldBody(TypedDict):
    """A field that we apply and that reads otherwise; values as JSON, never those of secrets."""

    path: Annotated[str, "As the API server writes it: spec.ports[port=8888].targetPort."]
    ours: Annotated[str, "What a repair makes of it."]
    theirs: Annotated[str | None, "Null: the field is gone."]
    manager: Annotated[str | None, "The field manager that wrote it, such as kubectl-edit; null: not kept."]
    operation: Annotated[str | None, "Update or Apply."]
    at: Annotated[datetime | None, "When that manager wrote last."]


class DriftOwnerBody(TypedDict):
    """The row whose object it is."""

    kind: Annotated[str, "workload, tenant, queue, department, flavor, offer."]
    id: str


class DriftBody(TypedDict):
    """An object that somebody changed or removed by hand."""

    object: Literal["drift"]
    id: Id
    cluster: str
    kind: str
    namespace: Annotated[str | None, "Null: it lies in none."]
    name: str
    tenant: Annotated[str | None, "The tenant's slug; null: it is of none."]
    owner: DriftOwnerBody
    difference: Annotated[DriftKind, "unread: no reconcile has compared the fields yet."]
    fields: Annotated[list[DriftFieldBody], "What differs, and what a repair changes; empty: all of it."]
    more_fields: Annotated[int, "How many more differ than are listed."]
    message: Annotated[str | None, "Why it is not put back, in the cluster's words."]
    times: Annotated[int, "How often it was changed so, each within ten minutes of the one before."]
    found_at: datetime
    seen_at: Annotated[datetime, "When it was last compared."]
    healed_at: Annotated[datetime | None, "Null: it differs now."]
    repair_asked_by: Annotated[str | None, "Null: nobody asked; it is put back by itself."]
    repair_asked_at: datetime | None


class TenantRepairBody(TypedDict):
    """The repair of all that differs of a tenant."""

    object: Literal["drift_repair"]
    tenant: str
    items: Annotated[list[DriftBody], "What was asked for; at most 200, ask again for the next."]


class DriftCheckBody(TypedDict):
    """How far a cluster is known."""

    object: Literal["drift_check"]
    cluster: str
    answers: Annotated[bool, "False: what differs there now is not known."]
    silent_since: datetime | None
    differing: Annotated[int, "How many objects differ, as far as is known."]
    checked_at: Annotated[datetime | None, "The end of the last whole comparison; null before the first."]
    objects: Annotated[int, "How many it looked at, or the present one so far."]
    running: bool
    kinds_done: int
    kinds: int
    asked_at: Annotated[datetime | None, "Null: nobody waits for one that has not begun."]
    asked_by: str | None
    message: Annotated[str | None, "Why the last was not whole."]


def drift_body(row: Drift) -> DriftBody:
    """A line of the book."""
    return {
        "object": "drift", "id": str(row.pk), "cluster": row.cluster.slug, "kind": row.kind,
        "namespace": row.namespace or None, "name": row.name, "tenant": row.tenant or None,
        "owner": {"kind": row.owner_kind, "id": row.owner_id}, "difference": DriftKind(row.how),
        "fields": [_field(each) for each in row.fields], "more_fields": row.more_fields,
        "message": row.message or None, "times": row.times, "found_at": row.found_at,
        "seen_at": row.seen_at, "healed_at": row.healed_at, "repair_asked_by": row.asked_by or None,
        "repair_asked_at": row.asked_at,
    }  # fmt: skip


def _field(kept: FieldDrift) -> DriftFieldBody:
    return {
        "path": kept["path"], "ours": kept["ours"], "theirs": kept["theirs"], "manager": kept["manager"],
        "operation": kept["operation"], "at": moment_of(kept),
    }  # fmt: skip


def check_body(look: Look) -> DriftCheckBody:
    """One cluster."""
    check = look.check
    return {
        "object": "drift_check", "cluster": look.cluster.slug, "answers": not look.is_silent,
        "silent_since": look.cluster.silent_since, "differing": look.open, "checked_at": check.ended_at,
        "objects": check.objects_seen, "running": check.begun_at is not None, "kinds_done": check.done,
        "kinds": check.of, "asked_at": check.asked_at, "asked_by": check.asked_by or None,
        "message": check.message or None,
    }  # fmt: skip
