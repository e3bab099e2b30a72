"""Gathers what advice is made from and asks for it: the fleet, prices and policies as one viewer may know
them. Reads only; stores nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django.conf import settings

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.mirror.rules import boards
from apps.cluster.mirror.selectors import inventory
from apps.quotas.allowances.rules import fit
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL, SPOT
from apps.quotas.catalogue.selectors import offers as catalogue
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism, SharingMode
from apps.tenants.models import Tenant
from apps.tenants.selectors import neighbours_of
from apps.workloads.advice.rules import advising
from apps.workloads.advice.rules.situations import BY_QUOTA, Advice, Facts, Fleet, Need, Policies, Prices
from apps.workloads.specs import Kind
from apps.workloads.waiting.rules import explain
from apps.workloads.waiting.selectors import foresight, places, waiting

MOST_ESTIMATES = 3
"""Offers whose start is foretold, the cheapest; each is a simulation of its queue."""


@dataclass(frozen=True)
class Asked:
    """Who asks, for which tenant, for what kind of work, when."""

    actor: Actor
    tenant: Tenant
    kind: Kind
    need: Need
    now: datetime


@request_cache.scope()
def advice_for(asked: Asked) -> Advice:
    """Which offers of the tenant's cluster suit a need now. RULE: holders are named only as the viewer may
    know them.
    """
    tenant, now = asked.tenant, asked.now
    known = {offer.slug: offer for offer in catalogue.offers_known(tenant) if not offer.is_cores}
    costs = standing.prices(tenant, now=now)
    hourly = {slug: costs[offer.pk] for slug, offer in known.items() if offer.pk in costs}
    policies = Policies(tenant.slug, standing.hold_words(tenant) or waiting.silence(tenant.cluster))
    facts = {slug: _facts(tenant, offer, now) for slug, offer in known.items()}
    for slug, offer in known.items():
        # Where devices lie is dear to look up in a large fleet: only where it decides.
        if _is_by_places(asked.need, facts[slug], policies):
            facts[slug] = _with_places(facts[slug], offer, tenant)
    for slug in _to_foretell(asked.need, facts, policies, hourly):
        facts[slug] = _with_start(asked, facts[slug], known[slug])
    fleet = Fleet(tuple(facts.values()), now)
    return advising.advise(asked.need, fleet, Prices(hourly, settings.CONFIG.currency), policies)


def _facts(tenant: Tenant, offer: Offer, now: datetime) -> Facts:
    stands = standing.standings(tenant, now=now).get(offer.pk)
    supply = stock.supply(tenant.cluster).get(offer.pk, stock.NOTHING)
    return Facts(
        slug=offer.slug,
        name=offer.name,
        mode=SharingMode(offer.sharing_mode),
        memory_bytes=offer.gpu_memory_bytes,
        capacity=supply.capacity,
        places=(),
        largest=0,
        reachable=fit.reachable(stands.own.quota, [use.quota for use in stands.others]) if stands else 0,
        available=stands.free if stands else 0,
        share=Fraction(offer.share_numerator, offer.share_denominator),
        is_spot=offer.flavor.node_labels.get(CAPACITY_LABEL) == SPOT,
        refused=catalogue.refusal_of(offer, tenant),
    )


def _is_by_places(need: Need, facts: Facts, policies: Policies) -> bool:
    """Whether only places can still speak against it, or show that more quota would not help."""
    out = advising.left_out(need, facts, policies)
    return out is None or (out.why in BY_QUOTA and advising.each_of(need, facts) > 1)


def _with_places(facts: Facts, offer: Offer, tenant: Tenant) -> Facts:
    if offer.mechanism == Mechanism.DEVICE_PLUGIN:
        largest = facts.capacity
    else:
        largest = stock.room_of(offer, tenant.cluster).largest
    own = next((d for d in inventory.devices(tenant.cluster) if stock.is_of(d, offer)), None)
    cut = boards.memory_share(own) if own else Fraction(0)
    free = stock.places_free(offer, tenant.cluster)
    return replace(facts, places=free, largest=largest, memory_share=cut)


def _to_foretell(
    need: Need, facts: Mapping[str, Facts], policies: Policies, hourly: Mapping[str, Decimal]
) -> list[str]:
    """Those that would do and wait, the cheapest first."""
    if policies.blocked:
        return []
    waits = [
        slug
        for slug, offer in facts.items()
        if not advising.left_out(need, offer, policies) and not advising.starts_now(need, offer, policies)
    ]
    waits.sort(key=lambda slug: (slug not in hourly, hourly.get(slug, 0), slug))
    return waits[:MOST_ESTIMATES]


def _with_start(asked: Asked, facts: Facts, offer: Offer) -> Facts:
    need, named = asked.need, neighbours_of(asked.actor)
    count = advising.each_of(need, facts) * need.at_once
    starts = None
    if not advising.is_apart(need, facts):
        starts = foresight.of_request(
            asked.tenant, offer, asked.kind, count=count, longest=need.seconds, now=asked.now
        )
    held = places.holdings_in(offer.cluster_id)
    return replace(facts, starts=starts, holders=explain.known(held.holders(offer), named))
