"""Several workloads stopped at once: what stops and what does not is said before, each one's answer after."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.accounts.specs import Actor
from apps.errors import DomainError, NotAllowed, NotFound
from apps.quotas.catalogue.selectors.price_book import prices_at
from apps.tenants.models import Tenant
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import spec_of, workloads_for
from portal.pages.parts.figures import RUNNING
from portal.pages.team.workloads import workload_list

MOST = 100


@dataclass(frozen=True)
class Line:
    """One workload: what it costs an hour while it runs, and why it is not stopped or what it answered."""

    workload: Workload
    hourly: Decimal | None
    words: str = ""
    is_refused: bool = False


def chosen(actor: Actor, tenant: Tenant, keys: Iterable[str]) -> list[Workload]:
    """Those of the team with these ids that the actor sees; raises NotFound where none is."""
    ids = [found for key in keys if (found := _id(key))][:MOST]
    rows = list(workloads_for(actor).filter(tenant=tenant, pk__in=ids).order_by("name", "pk"))
    if not rows:
        raise NotFound
    return rows


def question(actor: Actor, tenant: Tenant, rows: Sequence[Workload], *, now: datetime) -> dict[str, Any]:
    """What stops, at what price per hour, and what does not and why."""
    hourly = _hourly(tenant, rows, now)
    lines = [Line(row, hourly[row.pk], words := _refusal(actor, row), bool(words)) for row in rows]
    stopping = [line for line in lines if not line.is_refused]
    return _shown(tenant) | {
        "stopping": stopping,
        "staying": [line for line in lines if line.is_refused],
        "hourly": sum((line.hourly for line in stopping if line.hourly), Decimal(0)),
        "nothing_runs": not any(line.workload.phase in RUNNING for line in stopping),
    }


def stop(
    actor: Actor, tenant: Tenant, rows: Sequence[Workload], *, reason: str, now: datetime
) -> dict[str, Any]:
    """Each is stopped alone, so that one refusal keeps no other back; where the actor may stop none of them,
    all of it is refused.
    """
    lines = [_stopped(actor, row, reason, now) for row in rows]
    if all(isinstance(refusal, NotAllowed) for _, refusal in lines):
        raise lines[0][1] or NotFound()
    return _shown(tenant) | {
        "answers": [_answer(row, refusal, now) for row, refusal in lines],
        "stopped": sum(refusal is None for _, refusal in lines),
    }


def _answer(row: Workload, refusal: DomainError | None, now: datetime) -> Line:
    words = f"{refusal.detail} {refusal.hint}" if refusal else f"Stopping, asked {now:%H:%M}."
    return Line(row, None, words, refusal is not None)


def _stopped(actor: Actor, row: Workload, reason: str, now: datetime) -> tuple[Workload, DomainError | None]:
    try:
        return verbs.stop_workload(actor=actor, workload=row, reason=reason, now=now), None
    except DomainError as refusal:
        return row, refusal


def _refusal(actor: Actor, row: Workload) -> str:
    """What the service would say; what is stopped stays as it is."""
    try:
        writing.require_stop(actor, row)
        writing.require_alive(row)
    except DomainError as refusal:
        return refusal.detail
    return "It is stopped already." if row.suspended else ""


def _hourly(tenant: Tenant, rows: Sequence[Workload], now: datetime) -> dict[UUID, Decimal | None]:
    prices = prices_at({row.offer_id: row.offer for row in rows}.values(), now, tenant)
    each = {row.pk: prices.get(row.offer_id) if row.phase in RUNNING else None for row in rows}
    return {row.pk: None if (price := each[row.pk]) is None else price * spec_of(row).devices for row in rows}


def _shown(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant, "back": workload_list.url(tenant.slug)}


def _id(key: str) -> UUID | None:
    try:
        return UUID(key)
    except ValueError:
        return None
