"""Brings flavors and offers into their cluster, and takes them out again."""

from datetime import datetime, timedelta
from uuid import UUID

from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Reconciled
from apps.cluster.objects.conditions import condition
from apps.cluster.reconciling.rules.plan import diff
from apps.cluster.reconciling.services.converge import Outcome, run
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.cluster.specs import Manifest, ObjectRef, Observed
from apps.quotas.catalogue.selectors import offers
from apps.quotas.kueue.manifests import render_flavor, render_offer
from apps.quotas.models import Flavor, Offer
from apps.quotas.specs import Mechanism

LOOK_AGAIN = timedelta(seconds=2)


def reconcile_flavor(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One flavor: its ResourceFlavor."""
    run_reconcile(Flavor, pk, _flavor, owner="flavor", gateway=gateway)


def reconcile_offer(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One offer: its DeviceClass."""
    run_reconcile(Offer, pk, _offer, owner="offer", gateway=gateway)


def _flavor(flavor: Flavor, gateway: Gateway, now: datetime) -> Result:
    return _single(
        flavor, gateway, [] if flavor.deleting_at else render_flavor(offers.flavor_spec(flavor)), now
    )


def _offer(offer: Offer, gateway: Gateway, now: datetime) -> Result:
    # Behind a device plugin the resource is the node's own: there is nothing to apply.
    wanted = offer.mechanism == Mechanism.DRA and not offer.deleting_at
    return _single(offer, gateway, render_offer(offers.offer_spec(offer)) if wanted else [], now)


def _single(row: Flavor | Offer, gateway: Gateway, desired: list[Manifest], now: datetime) -> Result:
    outcome, left = converged(row, gateway, desired, now)
    reason = "Applied" if outcome.is_complete else "NotApplied"
    due_at = now + LOOK_AGAIN if row.deleting_at and left else None
    return Result([condition("Ready", outcome.is_complete, reason)], outcome, due_at=due_at, done=not left)


def converged(
    row: Reconciled, gateway: Gateway, desired: list[Manifest], now: datetime
) -> tuple[Outcome, dict[ObjectRef, Observed]]:
    """Run the difference, and answer with what of the row the mirror holds afterwards."""
    plan = diff(desired, mirror_table.observed_for(row.pk), owner_id=str(row.pk))
    outcome = run(gateway, row.cluster, plan, now=now)
    return outcome, mirror_table.observed_for(row.pk)
