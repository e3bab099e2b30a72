"""What of a tenant's quota was used, lent and borrowed over time, for those who see the tenant. Reads only.

What was held is the intervals of devices (`Allocation`, by their newest correction). What was guaranteed at
the time is the quota now, walked back through the audit record, with the grants of the time on top. Before
the first word on a tenant's quota of an offer (it ran before it came here) nobody knows what was guaranteed:
unknown, neither guaranteed nor borrowed. Lending limits of the past are not kept apart: every idle guaranteed
device counts as one that could be lent.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from uuid import UUID

from apps.audit.models import AuditEvent
from apps.audit.selectors import events_in, events_until
from apps.audit.specs import tenant_chain
from apps.metering.allocations.selectors.allocations import corrected_between, uncorrected_between
from apps.metering.lending.rules.steps import Held, Promise, Step, steps
from apps.metering.models import Allocation
from apps.metering.specs import Origin
from apps.quotas.models import Grant, Offer, Quota
from apps.tenants.models import Tenant

SPANS = {
    "24h": ("24 h", timedelta(hours=1), 24),
    "7d": ("7 d", timedelta(hours=4), 42),
    "30d": ("30 d", timedelta(days=1), 30),
}
USUAL = "7d"
WRITES = ("quota.set", "quota.delete")
Level = tuple[datetime, int | None]


@dataclass(frozen=True)
class OfferHistory:
    """One offer over the time asked for; `peak` is the most devices that any step shows."""

    offer: Offer
    steps: tuple[Step, ...]

    @property
    def peak(self) -> float:
        """The height of its picture."""
        return max((each.devices for each in self.steps), default=0.0)


def history(tenant: Tenant, *, begins: datetime, step: timedelta, count: int) -> list[OfferHistory]:
    """Every offer of which the tenant had quota or devices in the time, by name.

    Whoever asks must already be allowed to see the tenant: of its neighbours only sums come out.
    """
    edges = [begins + step * number for number in range(count + 1)]
    team = {each.pk: each.slug for each in Tenant.objects.filter(department=tenant.department_id)}
    held = _held(tenant, edges[0], edges[-1])
    offers = {
        *(slug for slug, rows in held.items() if any(row.tenant == tenant.slug for row in rows)),
        *tenant.quotas.values_list("offer__slug", flat=True),
        *tenant.grants.filter(ends_at__gt=edges[0]).values_list("offer__slug", flat=True),
    }
    chosen = list(Offer.objects.filter(slug__in=offers).order_by("name"))
    promised = _promised(chosen, team, edges[0], edges[-1])
    found = []
    for offer in chosen:
        made = steps(tenant.slug, held.get(offer.slug, []), promised[offer.pk], edges=edges)
        if any(each.guaranteed or each.devices for each in made):
            found.append(OfferHistory(offer, tuple(made)))
    return found


def _held(tenant: Tenant, begins: datetime, ends: datetime) -> dict[str, list[Held]]:
    """By the offer's slug. By name and not by id: a week has thousands, and thousands of UUIDs are slow."""
    rows = Allocation.objects.filter(
        origin=Origin.ALLOTMENT, tenant__department=tenant.department_id, offer__isnull=False
    )
    # As values, for the same reason.
    plain = uncorrected_between(rows, begins, ends).values_list(*_WHAT, "started_at", "ended_at", "units")
    corrected = corrected_between(rows, begins, ends).values_list(*_WHAT, "began", "over", "units")
    by_offer = defaultdict[str, list[Held]](list)
    for offer, name, started, ended, units in chain(plain, corrected):
        by_offer[offer].append(Held(name, started, ended, units))
    return by_offer


_WHAT = ("offer__slug", "tenant__slug")


def _promised(
    offers: Sequence[Offer], team: Mapping[UUID, str], begins: datetime, ends: datetime
) -> dict[UUID, list[Promise]]:
    """What each tenant was promised of each offer: four statements, however many offers there are."""
    quotas = _quotas(offers, team, begins)
    grants: dict[UUID, dict[str, list[Grant]]] = defaultdict(lambda: defaultdict(list))
    for grant in Grant.objects.filter(offer__in=offers, tenant__in=list(team), ends_at__gt=begins):
        grants[grant.offer_id][team[grant.tenant_id]].append(grant)
    return {offer.pk: _promises(quotas[offer.pk], grants[offer.pk], begins, ends) for offer in offers}


def _promises(
    quotas: Mapping[str, list[Level]], grants: Mapping[str, list[Grant]], begins: datetime, ends: datetime
) -> list[Promise]:
    """Of each tenant at the beginning, and at each change of its quota or grants."""
    found = []
    for slug in {*quotas, *grants}:
        levels, own = quotas.get(slug, [(begins, None)]), grants.get(slug, [])
        turns = {at for grant in own for at in (grant.starts_at, grant.ends_at) if begins < at < ends}
        for at in sorted({begins, *(at for at, _ in levels if at > begins), *turns}):
            nominal = [count for since, count in levels if since <= at][-1]
            more = sum(grant.count for grant in own if grant.starts_at <= at < grant.ends_at)
            # Who was given more for a time without a quota has that and no more.
            is_known = nominal is not None or any(grant.starts_at <= at for grant in own)
            found.append(Promise(slug, at, (nominal or 0) + more if is_known else None))
    return found


def _quotas(
    offers: Sequence[Offer], team: Mapping[UUID, str], begins: datetime
) -> dict[UUID, dict[str, list[Level]]]:
    """Guarantees of each offer without grants as (from when, how many; None: unknown), from `begins` on."""
    rows = Quota.objects.filter(offer__in=offers, tenant__in=list(team))
    now = {
        (team[pk], which): count for pk, which, count in rows.values_list("tenant", "offer", "nominal_quota")
    }
    chains = [tenant_chain(slug) for slug in team.values()]
    # An offer that was deleted and made anew has the name of the one before.
    named: dict[str, list[tuple[str, UUID]]] = defaultdict(list)
    for slug, offer in product(team.values(), offers):
        named[f"{slug}/{offer.slug}"].append((slug, offer.pk))
    changes: dict[tuple[str, UUID], list[AuditEvent]] = defaultdict(list)
    for event in events_in(chains, WRITES, since=begins).filter(target_name__in=named):
        for each in named[event.target_name]:
            changes[each].append(event)
    before = events_until(chains, WRITES, until=begins).filter(target_name__in=named)
    known = {each for name in before.values_list("target_name", flat=True).distinct() for each in named[name]}
    found: dict[UUID, dict[str, list[Level]]] = {offer.pk: {} for offer in offers}
    for each in {*now, *changes, *known}:
        slug, which = each
        told = _levels(changes.get(each, []), now.get(each, 0), begins, is_known=each in known)
        found[which][slug] = told
    return found


def _levels(events: Iterable[AuditEvent], now: int, begins: datetime, *, is_known: bool) -> list[Level]:
    """RULE: what the first change of the time changed, else what is so now; where nothing was said before the
    time, and its first word makes a quota where there was none, it is unknown until then.
    """
    told = [
        (event.at, event.changes["nominal_quota"]) for event in events if "nominal_quota" in event.changes
    ]
    old = told[0][1][0] if told else now
    first = None if old is None and not is_known else int(old or 0)
    return [(begins, first), *((at, int(new or 0)) for at, (_, new) in told)]


def span_of(query: Mapping[str, str]) -> str:
    """`?lent=24h`; what is unknown is the usual one."""
    asked = query.get("lent", USUAL)
    return asked if asked in SPANS else USUAL


def read(tenant: Tenant, span: str, *, now: datetime) -> list[OfferHistory]:
    """The steps end at the last full one before `now`."""
    _, step, count = SPANS[span]
    epoch = datetime(2020, 1, 1, tzinfo=UTC)
    ends = epoch + ((now - epoch) // step) * step
    return history(tenant, begins=ends - step * count, step=step, count=count)
