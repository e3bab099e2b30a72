"""The console's page of drift: what differs from what we apply, who wrote it, what a repair changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from apps.accounts.policies import require_platform
from apps.accounts.specs import Actor
from apps.cluster.models import Cluster, Drift
from apps.cluster.reconciling.rules.drift import DriftKind, FieldDrift
from apps.cluster.reconciling.selectors import drifts
from apps.cluster.reconciling.services import repairs
from apps.cluster.watching.services import drift_checks
from apps.errors import NotFound
from apps.tenants.models import Tenant
from portal.pages.console.fleet.capacity import TOPICS
from portal.pages.console.fleet.drift_forms import FilterForm
from portal.pages.parts.needs import Need

PARTS = frozenset({"drift"})
MOST = 50
LATE = 3 * drift_checks.EVERY
_LOOKS = {
    DriftKind.CHANGED: ("triangle-alert", "warn"),
    DriftKind.MISSING: ("octagon-alert", "bad"),
    DriftKind.LEAVING: ("hourglass", "warn"),
    DriftKind.UNREAD: ("loader", "warn"),
}
_NO_FIELDS = {
    DriftKind.MISSING: "It was deleted. Kubernetes keeps no word of who did it; the server's audit log may.",
    DriftKind.LEAVING: "Somebody deleted it and something holds it; it is made anew once it is gone.",
    DriftKind.UNREAD: "The watch saw a change. A reconcile compares the fields and puts it back.",
    DriftKind.CHANGED: "",
}


@dataclass(frozen=True)
class Line:
    """An object as the tables show it."""

    row: Drift
    word: str
    icon: str
    tone: str
    words: str

    @property
    def who(self) -> str:
        """The field managers that wrote what differs, as Kubernetes names them."""
        known = {field["manager"] for field in self.row.fields if field["manager"]}
        return ", ".join(sorted(known)) or "not recorded"

    @property
    def at(self) -> str | None:
        """When the last of them wrote."""
        return max((field["at"] for field in self.row.fields if field["at"]), default=None)

    @property
    def first(self) -> Sequence[FieldDrift]:
        """Fields that a line of a table has room for."""
        known: Sequence[FieldDrift] = self.row.fields
        return known[:2]

    @property
    def beyond(self) -> int:
        """How many more there are."""
        return len(self.row.fields) - len(self.first) + self.row.more_fields


def page(actor: Actor, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """What differs, what was put back, how far each cluster is known; for who sees everything."""
    if not actor.sees_everything:
        raise NotFound
    looks = drifts.looks_for(actor)
    filters = FilterForm(query, clusters=[(each.cluster.slug, each.cluster.name) for each in looks])
    rows = _narrowed(actor, filters)
    differing = drifts.open_of(rows).order_by("-found_at", "pk")
    past = rows.filter(healed_at__isnull=False).order_by("-healed_at", "pk")
    count = differing.count()
    whole = [each.check.ended_at for each in looks]
    last = min((at for at in whole if at), default=None)
    return {
        "filters": filters,
        "filtered": bool(filters.chosen),
        "tenant": filters.chosen.get("tenant", "") if count else "",
        "count": count,
        "rows": [line_of(row) for row in differing[:MOST]],
        "past": [line_of(row) for row in past[:MOST]],
        "most": MOST,
        "looks": looks,
        "last": last,
        "is_late": any(at is not None and now - at > LATE for at in whole),
        "running": [each for each in looks if each.check.begun_at or each.check.asked_at],
        "unknown": [each for each in looks if each.is_silent or (last and not each.check.ended_at)],
        "every": drift_checks.EVERY // timedelta(minutes=1),
        "may_repair": actor.is_platform,
        "now": now,
        "live_topics": TOPICS,
    }


def line_of(row: Drift) -> Line:
    """How an object is shown."""
    how = DriftKind(row.how)
    look = _LOOKS[how] if row.healed_at is None else ("circle-check", "muted")
    return Line(row, how.label, *look, "" if row.fields else _NO_FIELDS[how])


def preview(actor: Actor, row: Drift, *, now: datetime) -> dict[str, Any]:
    """One object, and what its repair changes."""
    return {"title": str(row), "lines": [line_of(row)], "may_repair": _may(actor, [row]), "now": now}


def preview_tenant(actor: Actor, tenant: Tenant, *, now: datetime) -> dict[str, Any]:
    """All that differs of a tenant. Raises NotFound for who sees not all."""
    if not actor.sees_everything:
        raise NotFound
    found = list(drifts.to_repair(drifts.drifts_for(actor), tenant.slug)[: repairs.MOST_AT_ONCE])
    lines = [line_of(row) for row in found]
    return {"title": f"All of {tenant.name}", "lines": lines, "may_repair": _may(actor, found), "now": now}


def check_all(actor: Actor, *, now: datetime) -> None:
    """Ask for a comparison of every cluster."""
    if not actor.sees_everything:
        raise NotFound
    require_platform(actor)
    for cluster in Cluster.objects.order_by("slug"):
        drift_checks.ask(actor=actor, cluster=cluster, now=now)


def needs(actor: Actor) -> list[Need]:
    """What the fleet page says of it; nothing where nothing differs."""
    count, since = drifts.standing(actor)
    if not count:
        return []
    what = f"{count} object{'s differ' if count != 1 else ' differs'}"
    why = "from what Allotment applies, and not put back by itself"
    return [Need(what, why, "triangle-alert", "warn", reverse("console-drift"), since)]


def _narrowed(actor: Actor, filters: FilterForm) -> Any:
    names = {"cluster": "cluster__slug", "tenant": "tenant", "kind": "kind"}
    return drifts.drifts_for(actor).filter(**{names[name]: value for name, value in filters.chosen.items()})


def _may(actor: Actor, rows: Sequence[Drift]) -> bool:
    return actor.is_platform and any(row.healed_at is None for row in rows)
