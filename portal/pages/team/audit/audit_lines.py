"""Events of the audit record as rows of a page, each thing with its page where it has one. Reads only."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.selectors import people_for
from apps.accounts.specs import Actor
from apps.audit.models import AuditEvent
from apps.audit.specs import tenant_of
from apps.quotas.models import Offer
from apps.tenants.models import Department
from apps.tenants.people.rules.audit_shown import shown
from apps.tenants.selectors import seen_among
from apps.workloads.models import Image
from apps.workloads.selectors.reading import workloads_for
from apps.workloads.template_models import Template

LONGEST = 2000
"""Of a value as a page shows it; REST has it whole."""
OF_TEAM = {
    "tenant": "tenant", "quota": "team-quota", "grant": "team-quota", "budget": "team-quota",
    "queue": "team-quota", "quota_request": "team-quota", "allocation": "tenant-allocations",
    "statement": "bill", "idle_policy": "idle-policy", "registry": "members",
    "service-account": "members", "node": "isolation",
}  # fmt: skip
"""Kinds of things that are shown on a page of their tenant."""


@dataclass(frozen=True)
class Change:
    """One field as it was and as it is; of what is no pair only what was told."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True)
class Line:
    """An event as a list shows it."""

    row: AuditEvent
    tenant: str
    url: str
    reason: str
    changes: list[Change]

    @property
    def way(self) -> str:
        """What it was asked with."""
        if self.row.token:
            return f"token {self.row.token}"
        return "the product itself" if self.row.actor.startswith("system:") else "browser or command"


def lines(actor: Actor, rows: Collection[AuditEvent]) -> list[Line]:
    """Rows in their order. A statement for the tenants, and one for each kind of thing that has pages."""
    urls = _urls(actor, rows)
    return [
        Line(
            row, tenant_of(row.chain), urls.get((row.target_kind, row.target_id), ""), shown(row.reason),
            _changes(row.changes),
        )
        for row in rows
    ]  # fmt: skip


def _changes(told: Mapping[str, Any]) -> list[Change]:
    return [_change(name, value) for name, value in shown(told).items()]


def _change(name: str, value: Any) -> Change:
    if isinstance(value, list) and len(value) == 2:
        return Change(name, _words(value[0]), _words(value[1]))
    return Change(name, None, _words(value))


def _words(value: Any) -> str:
    if value in (None, "", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _urls(actor: Actor, rows: Iterable[AuditEvent]) -> dict[tuple[str, str], str]:
    """The page of each thing that is there still and that the actor sees."""
    rows = list(rows)
    tenants = seen_among(actor, {tenant_of(row.chain) for row in rows} - {""})
    found = {
        (row.target_kind, row.target_id): reverse(OF_TEAM[row.target_kind], args=[tenant_of(row.chain)])
        for row in rows
        if row.target_kind in OF_TEAM and tenant_of(row.chain) in tenants
    }
    named: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        named[row.target_kind].add(row.target_id)
    for kind, keys in named.items():
        found |= {(kind, key): url for key, url in pages_of(actor, kind, keys).items()}
    return found


def pages_of(actor: Actor, kind: str, keys: Iterable[str]) -> dict[str, str]:
    """By key the page of each thing of a kind that has one of its own and that the actor sees."""
    makers = {"workload": _workloads, **(_OF_CONSOLE if actor.sees_everything else {})}
    return makers[kind](actor, _ids(keys)) if kind in makers else {}


def _ids(keys: Iterable[str]) -> list[UUID]:
    """Those that are ids, as all should be: what the record holds was never checked as a key."""
    found = []
    for key in keys:
        with suppress(ValueError):
            found.append(UUID(key))
    return found


Pages = Callable[[Actor, Collection[UUID]], dict[str, str]]


def _workloads(actor: Actor, keys: Collection[UUID]) -> dict[str, str]:
    rows = workloads_for(actor).filter(pk__in=keys).values_list("pk", "tenant__slug")
    return {str(key): reverse("workload", args=[tenant, key]) for key, tenant in rows}


def _of(rows: Callable[[Actor], QuerySet[Any]], field: str, page: str) -> Pages:
    def made(actor: Actor, keys: Collection[UUID]) -> dict[str, str]:
        found = rows(actor).filter(pk__in=keys).values_list("pk", field)
        return {str(key): reverse(page, args=[name]) for key, name in found}

    return made


def _all(model: type[Model]) -> Callable[[Actor], QuerySet[Any]]:
    return lambda _actor: model._default_manager.all()


def _people(actor: Actor) -> QuerySet[User]:
    return people_for(actor)


_OF_CONSOLE: Mapping[str, Pages] = {
    "user": _of(_people, "username", "console-sessions"),
    "offer": _of(_all(Offer), "slug", "console-offer"),
    "department": _of(_all(Department), "slug", "console-department"),
    "image": _of(_all(Image), "slug", "console-image"),
    "template": _of(_all(Template), "slug", "console-template"),
}
"""What only the console has pages of, and who sees everything may open."""
