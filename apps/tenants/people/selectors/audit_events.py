"""Which events of the audit record an actor sees. Reads only.

Rule: platform engineers and auditors all; leads and managers those of the tenants that they decide on;
everybody what they did themselves, in tenants that they still see and on the platform. A credential cut to
tenants sees only what those tenants' chains keep.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from apps.accounts.specs import Actor
from apps.audit.models import AuditEvent
from apps.audit.specs import PLATFORM_CHAIN, tenant_chain
from apps.tenants import policies, selectors
from apps.tenants.models import Tenant
from apps.web.requests.lookups import one, slug_or_id


@dataclass(frozen=True)
class Reach:
    """The chains that an actor reads whole, and those where it reads its own acts; None: all of them."""

    whole: frozenset[str] | None
    own: frozenset[str]


def reach_of(actor: Actor) -> Reach:
    """How far the actor sees now. Two statements, none for who sees everything."""
    if actor.sees_everything:
        return Reach(None, frozenset())
    whole = _chains(policies.kept_tenants(actor))
    seen = _chains(selectors.tenants_for(actor))
    platform = {PLATFORM_CHAIN} if actor.tenants is None else set()
    return Reach(whole, (seen | platform) - whole)


def events_for(actor: Actor, reach: Reach | None = None) -> QuerySet[AuditEvent]:
    """The events that the actor sees, in no order; `reach` is how far, for who has asked that already."""
    reach = reach or reach_of(actor)
    if reach.whole is None:
        return AuditEvent.objects.order_by()
    parts = [Q(chain__in=reach.whole)] if reach.whole else []
    parts += [Q(actor=actor.username, chain__in=reach.own)] if reach.own else []
    return AuditEvent.objects.filter(reduce(or_, parts)).order_by() if parts else AuditEvent.objects.none()


def chain_of(actor: Actor, tenant: str) -> str:
    """The chain of the tenant with that slug or id, if the actor sees it; for who sees everything also of one
    that was deleted. Raises NotFound.
    """
    return tenant_chain(one(selectors.tenants_ever_for(actor).filter(slug_or_id(tenant))).slug)


def _chains(tenants: QuerySet[Tenant]) -> frozenset[str]:
    return frozenset(map(tenant_chain, tenants.order_by().values_list("slug", flat=True)))
