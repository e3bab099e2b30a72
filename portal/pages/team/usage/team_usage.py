"""What a team held, what it did, who wasted what: `/t/<tenant>/usage/`. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering.allocations.selectors import allocations
from apps.metering.billing.selectors import costs
from apps.metering.billing.selectors.charged_intervals import WholeTenants
from apps.metering.billing.selectors.costs import CostLine, Group
from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.usage.selectors import account_sums, series
from apps.tenants.models import Tenant
from apps.web.requests.sheets import csv_file
from apps.workloads.models import Workload
from apps.workloads.specs import Kind
from portal.pages.parts.lazy import part, skip_of
from portal.pages.team.usage import heat, use, wasted, worst
from portal.pages.team.usage.use import Asked
from portal.pages.team.usage.wasted import Bill, Line, Money

PARTS = frozenset({"money", "use", "who", "heat", "findings"})
BACK = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
MOST_ROWS = 20
_KINDS = dict(Kind.choices())
FILES = ("use", "heat", "members", "workloads")
MADE_WITH_KUBECTL = ("Made with kubectl", "", "in the team's namespace, outside any workload")


class Person(NamedTuple):
    """Whose a workload is."""

    username: str
    display_name: str

    @property
    def shown_name(self) -> str:
        """As a user's."""
        return self.display_name or self.username


class Work(NamedTuple):
    """What a line tells of a workload: there are hundreds, and a page shows twenty."""

    pk: UUID
    name: str
    kind: str
    owner: Person


@dataclass(frozen=True)
class Spent:
    """Who spent the tenant's money over the time shown: by workload and by member."""

    slug: str
    works: Sequence[Line]
    members: Sequence[Line]

    @property
    def workloads(self) -> Sequence[Line]:
        """Those that a page has room for, with where each leads: they are the few of hundreds."""
        return [replace(each, url=self._url(each.key)) for each in self.works[:MOST_ROWS]]

    def _url(self, work: "Work | None") -> str:
        return reverse("workload", args=[self.slug, work.pk]) if work else ""


def page(actor: Actor, tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """Its parts, each made when the template comes to it."""
    wanted = use.asked(query)
    rows = series.held_for(actor).filter(tenant=tenant)
    of_all = account_sums.held_for(actor).filter(tenant=tenant)
    held = allocations.allocations_for(actor).filter(tenant=tenant)
    skip = skip_of(query)
    return {
        "tenant": tenant,
        "asked": wanted,
        **{f"{what}_file": reverse("usage-file", args=[tenant.slug, what]) for what in FILES},
        "bill_url": reverse("bill", args=[tenant.slug]),
        "findings_url": reverse("findings", args=[tenant.slug]),
        "charged": part(lambda: charged(tenant, wanted, now=now)),
        "spent": part(lambda: spent(tenant, wanted, now=now)),
        "use": part(lambda: use.shown(of_all, held, wanted, now=now)),
        "heat": part(lambda: heat.shown(rows, wanted, now=now, skip=skip)),
        "worst": part(lambda: worst.of_tenant(actor, tenant, since=now - BACK[wanted.span])),
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def charged(tenant: Tenant, wanted: Asked, *, now: datetime) -> Bill:
    """Charged, effective and wasted in the time shown, all of the tenant's workloads together."""
    lines, (begins, ends) = _costs(tenant, Group.TENANT, wanted, now)
    return Bill(begins, ends, Money.total([wasted.money_of(line) for line in lines]))


def spent(tenant: Tenant, wanted: Asked, *, now: datetime) -> Spent:
    """The same by workload and by member: there are hundreds of lines, each of them cut on its own, so that a
    page asks for them once it is there.
    """
    lines, _ = _costs(tenant, Group.WORKLOAD, wanted, now)
    found = Workload.objects.filter(pk__in=[line.key for line in lines if line.key])
    shown = found.values_list("pk", "name", "kind", "owner__username", "owner__display_name")
    works = {str(pk): Work(pk, name, kind, Person(*whose)) for pk, name, kind, *whose in shown}
    money = [(works.get(line.key), wasted.money_of(line)) for line in lines]
    by_member = wasted.folded([(row and row.owner, each) for row, each in money], _named_person)
    return Spent(tenant.slug, wasted.folded(money, _named_work), by_member)


def _costs(
    tenant: Tenant, group: Group, wanted: Asked, now: datetime
) -> tuple[Sequence[CostLine], tuple[datetime, datetime]]:
    """All that a tenant held in the time shown, and that time.

    RULE: it ends, as the pictures do, with the last whole bucket: a cut through one costs as much as all the
    rest. What began after that is told to the second while there is nothing else.
    """
    held, whole = WholeTenants([tenant.pk]), floor(now, LEVELS[0])
    span = whole - BACK[wanted.span], whole
    if not (lines := costs.costs(held, group, begins=span[0], ends=span[1], now=now)):
        span = whole, now
        lines = costs.costs(held, group, begins=span[0], ends=span[1], now=now)
    return lines, span


def csv_of(actor: Actor, tenant: Tenant, what: str, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The file behind one picture or table; raises NotFound for any other."""
    wanted = use.asked(query)
    name = f"{tenant.slug}-{what}"
    if what == "use":
        return use.csv_of(account_sums.held_for(actor).filter(tenant=tenant), wanted, name, now=now)
    if what == "heat":
        return heat.csv_of(series.held_for(actor).filter(tenant=tenant), wanted, name, now=now)
    if what not in FILES:
        raise NotFound
    found = spent(tenant, wanted, now=now)
    lines = found.members if what == "members" else found.works
    return csv_file(f"{name}-{wanted.span}", wasted.HEAD, wasted.cells(lines))


def _named_work(row: Work | None) -> tuple[str, str, str]:
    if row is None:
        return MADE_WITH_KUBECTL
    return row.name, "", f"{_KINDS.get(row.kind, row.kind)} by {row.owner.shown_name}"


def _named_person(person: Person | None) -> tuple[str, str, str]:
    if person is None:
        return MADE_WITH_KUBECTL
    return person.shown_name, "", person.username
