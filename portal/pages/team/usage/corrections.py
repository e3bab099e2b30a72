"""A workload's allocations: as they count, as observed, and as corrected. Reads only."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering import policies
from apps.metering.allocations.selectors import allocations
from apps.metering.models import Allocation, Correction
from apps.metering.specs import Attribution, Confidence
from apps.workloads.selectors.reading import workload_for
from portal.pages.team.workloads import workload_detail

MOST = 200


@dataclass(frozen=True)
class Line:
    """An allocation: its interval, how often it was corrected, and the source and confidence of its
    attribution.
    """

    row: Allocation
    begins: datetime
    ends: datetime | None
    corrections: int
    url: str
    attribution: Attribution
    confidence: Confidence


def of_workload(actor: Actor, pk: UUID, *, now: datetime) -> dict[str, Any]:
    """Every allocation of a workload, newest first, of a deleted one too: its charge may be corrected as long
    as the ledger is open. Raises NotFound for anybody who does not see everything.
    """
    _only_console(actor)
    return _held(actor, allocations.allocations_for(actor), pk, now=now) | {"may_look_closer": True}


def of_team(actor: Actor, tenant: str, pk: UUID, *, now: datetime) -> dict[str, Any]:
    """The same for whoever pays: read only, and only if the workload is of this tenant; raises NotFound."""
    rows = allocations.allocations_for(actor).filter(tenant__slug=tenant)
    return _held(actor, rows, pk, tenant, now=now)


def _held(
    actor: Actor, rows: QuerySet[Allocation], pk: UUID, tenant: str | None = None, *, now: datetime
) -> dict[str, Any]:
    rows = rows.filter(workload=pk).prefetch_related("corrections")
    found = list(rows.order_by("-started_at", "device")[:MOST])
    workload = found[0].work if found else workload_for(actor, pk, tenant)
    return {
        "workload": workload,
        "workload_url": "" if workload.deleted_at else workload_detail.url(workload),
        "rows": [_line(each) for each in found],
        "most": MOST,
        "now": now,
    }


def of_allocation(actor: Actor, row: Allocation, *, now: datetime) -> dict[str, Any]:
    """One allocation with its history; raises NotFound for anybody who does not see everything."""
    _only_console(actor)
    if row.workload is None:
        raise NotFound
    made: list[Correction] = list(row.corrections.order_by("-pk"))
    return {
        "row": row,
        "line": _line(row),
        "made": made,
        "workload": row.workload,
        "list_url": reverse("console-allocations", args=[row.workload_id]),
        "may_correct": policies.can_correct(actor, row.tenant),
        "now": now,
    }


def typed_of(row: Allocation) -> dict[str, Any]:
    """The interval that counts, as the form shows it: to the second."""
    begins, ends = row.interval
    return {"begins": _second(begins), "ends": ends and _second(ends)}


def meant(row: Allocation, typed: dict[str, Any]) -> tuple[datetime, datetime | None]:
    """The interval that was typed. RULE: a time that was not edited keeps its microseconds."""
    shown, (begins, ends) = typed_of(row), row.interval
    return (
        begins if typed["begins"] == shown["begins"] else typed["begins"],
        ends if typed["ends"] == shown["ends"] else typed["ends"],
    )


def _second(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(microsecond=0)


def _line(row: Allocation) -> Line:
    begins, ends = row.interval
    count = len(row.corrections.all())
    url = reverse("console-allocation", args=[row.pk])
    return Line(row, begins, ends, count, url, allocations.attribution(row), allocations.confidence(row))


def _only_console(actor: Actor) -> None:
    if not actor.sees_everything:
        raise NotFound
