"""A tenant's own nodes as quota: what lies on them is guaranteed to it alone.

Who gets which node is `apps.tenants.nodes.services.assigning`; the nodes' marks are `services.dedication`.
"""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from apps.accounts.specs import Actor, system_actor
from apps.cluster.mirror.selectors import inventory
from apps.cluster.objects.quantities import whole_number
from apps.cluster.reconciling.services import wake
from apps.errors import DomainError
from apps.prepared import Prepared
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import stock
from apps.quotas.catalogue.services import adoption
from apps.quotas.models import Flavor, Offer, Quota
from apps.quotas.specs import Mechanism
from apps.tenants import selectors as tenancy
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.nodes.services import assigning
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.specs import Isolation, NodePhase
from apps.web.stores import outage

_log = logging.getLogger(__name__)


@transaction.atomic
def settle(*, actor: Actor, tenant: Tenant, now: datetime) -> list[Quota]:
    """Brings the quota of a tenant's own offers to what its nodes hold; answers the quotas that changed.

    Rule: only nodes that serve it already count, and none that is on its way back. Nothing of them is lent or
    borrowed: nobody else could start there. Offers that its trust level refuses get no quota, nor a second
    kind of share that a device plugin gives the same name: Kueue could not tell them apart.
    """
    if NodePhase.ASSIGNED in tenancy.nodes_of(tenant).values_list("phase", flat=True):
        adoption.adopt_inventory(actor=actor, cluster=tenant.cluster, now=now, with_cores=False)
    changed = []
    for offer in Offer.objects.filter(
        flavor__tenant=tenant, deleting_at=None, deleted_at=None
    ).select_related("flavor"):
        before = Quota.objects.filter(tenant=tenant, offer=offer).first()
        count = devices_of(tenant, offer)
        if before is None and (
            not count
            or catalogue_offers.refusal_of(offer, tenant)
            or entitlements.has_namesake(tenant, offer, now=now)
        ):
            continue
        if before is None or before.nominal_quota != count:
            amounts = Amounts(count, borrowing_limit=0, lending_limit=0)
            quota = quota_changes.set_quota(actor=actor, tenant=tenant, offer=offer, amounts=amounts, now=now)
            changed.append(quota)
    return changed


def devices_of(tenant: Tenant, offer: Offer) -> int:
    """How many devices of an offer lie on the nodes that serve the tenant."""
    serving = tenancy.nodes_of(tenant).filter(phase=NodePhase.ASSIGNED)
    names = set(serving.values_list("node", flat=True))
    if offer.mechanism == Mechanism.DRA:
        own = (device for device in inventory.devices(tenant.cluster) if device.node in names)
        return sum(1 for device in own if stock.is_of(device, offer))
    nodes = [node for node in inventory.nodes(tenant.cluster) if node.name in names]
    return sum(
        whole_number(node.resources[offer.resource_name]) for node in nodes if stock.carries(node, offer)
    )


@transaction.atomic
def assign(*, actor: Actor, tenant: Tenant, node: str, handover: Handover, now: datetime) -> NodeAssignment:
    """`assigning.assign_node`, with the quota of the tenant that loses the node cut at once.

    The one that gets it has its quota once the node is clear: until then nothing could start there.
    """
    before = Tenant.objects.filter(
        nodes__node=node, nodes__cluster=tenant.cluster_id, nodes__deleted_at=None
    ).first()
    row = assigning.assign_node(actor=actor, tenant=tenant, node=node, handover=handover, now=now)
    if before is not None and before.pk != tenant.pk:
        settle(actor=actor, tenant=before, now=now)
    return row


@transaction.atomic
def release(*, actor: Actor, assignment: NodeAssignment, handover: Handover, now: datetime) -> NodeAssignment:
    """`assigning.release_node`, with the tenant's quota cut at once: nothing new is admitted for it."""
    row = assigning.release_node(actor=actor, assignment=assignment, handover=handover, now=now)
    settle(actor=actor, tenant=row.tenant, now=now)
    return row


def retire(*, now: datetime) -> None:
    """Takes the flavors and offers of tenants that are gone out of their clusters."""
    for owner, model, left in (("offer", Offer, _LEFT_OFFERS), ("flavor", Flavor, _LEFT_FLAVORS)):
        pks = left()
        if not pks:
            continue
        model._default_manager.filter(pk__in=pks).update(deleting_at=now, generation=F("generation") + 1)
        for pk in pks:
            wake.hint(owner, pk)


def _left(model: type[Offer | Flavor], **of_gone: bool) -> QuerySet[Any, UUID]:
    rows = model._default_manager.filter(deleting_at=None, deleted_at=None, **of_gone)
    return rows.values_list("pk", flat=True)


_LEFT_OFFERS = Prepared(lambda: _left(Offer, flavor__tenant__deleted_at__isnull=False))
_LEFT_FLAVORS = Prepared(lambda: _left(Flavor, tenant__deleted_at__isnull=False))


def settle_all(*, now: datetime) -> int:
    """Settles every tenant that has, or had, nodes of its own; answers how many quotas changed.

    Rule: what is refused to one tenant, or fails at it, is logged and keeps no other from its own.
    """
    actor, changed = system_actor("pools"), 0
    retire(now=now)
    for tenant in _DEDICATED():
        try:
            changed += len(settle(actor=actor, tenant=tenant, now=now))
        except DomainError as refusal:
            _log.warning("the nodes of %s: %s %s", tenant.slug, refusal.detail, refusal.hint)
        except Exception as error:
            if outage.is_away(error):
                raise  # the whole task waits for it
            _log.exception("the nodes of %s", tenant.slug)
    return changed


def _dedicated() -> QuerySet[Tenant]:
    alive = Tenant.objects.filter(deleting_at=None, deleted_at=None, archived_at=None)
    return alive.filter(isolation=Isolation.DEDICATED_NODES).select_related("cluster")


_DEDICATED = Prepared(_dedicated)
