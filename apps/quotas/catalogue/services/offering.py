"""Flavors and offers made, changed and deleted by hand. Records intent only."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.mirror.rules import hardware
from apps.cluster.mirror.selectors import inventory as fleet
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.cluster.objects.queueing import QueueState
from apps.cluster.reconciling.services import wake
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed
from apps.quotas import policies
from apps.quotas.catalogue.rules import inventory_plan
from apps.quotas.catalogue.selectors import stock
from apps.quotas.catalogue.services import booking, core_offers
from apps.quotas.kueue import observation
from apps.quotas.models import Flavor, Grant, Offer, Price, Quota, QuotaRequest
from apps.quotas.specs import Mechanism, RequestStatus, SharingMode
from apps.quotas.wake.services import queue_hints
from apps.tenants.specs import TrustLevel

MOST_LABELS = 8
"""Kueue takes at most 8 node labels per flavor."""


@dataclass(frozen=True)
class FlavorWish:
    """A kind of node: the GPU's product name as its driver publishes it, empty where its nodes have none, and
    what marks the nodes.
    """

    slug: str
    name: str
    model: str
    node_labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class OfferWish:
    """A thing to sell: a MIG profile of the flavor's GPUs, or the whole GPU (empty profile); on nodes without
    a GPU their cores. None: as the devices or nodes that are there say.
    """

    flavor: Flavor
    slug: str
    name: str
    profile: str = ""
    description: str = ""
    gpu_memory_bytes: int | None = None
    cpu_millis: int | None = None
    memory_bytes: int | None = None
    min_trust_level: TrustLevel = TrustLevel.UNTRUSTED
    enabled: bool = True


@transaction.atomic
def create_flavor(*, actor: Actor, cluster: Cluster, wish: FlavorWish, now: datetime) -> Flavor:
    """A kind of node to sell GPUs of, or, without a model, cores. Rule: platform engineers only; at most 8
    node labels (Kueue); work without a GPU can be told from work with one.
    """
    require_keeper(actor)
    _check_marks(wish.node_labels, wish.tolerations)
    _refuse_taken(Flavor, wish.slug)
    # Two at once would not see each other, here or in an adoption.
    Cluster.objects.select_for_update().get(pk=cluster.pk)
    core_offers.refuse_mixing(Flavor(cluster=cluster, model=wish.model, node_labels=dict(wish.node_labels)))
    row_id = uuid4()
    flavor = Flavor.objects.create(
        id=row_id,
        cluster=cluster,
        slug=wish.slug,
        name=wish.name or wish.slug,
        object_name=names.object_name(wish.slug, row_id),
        model=wish.model,
        node_labels=dict(wish.node_labels),
        tolerations=[dict(each) for each in wish.tolerations],
        created_by=actor.username,
    )
    audit.record(actor, "flavor.create", flavor, now=now, changes={"model": [None, wish.model]})
    wake.hint("flavor", str(row_id))
    return flavor


@transaction.atomic
def update_flavor(*, actor: Actor, flavor: Flavor, changes: Mapping[str, Any], now: datetime) -> Flavor:
    """Changes name, node labels or tolerations: they count for what is admitted from then on.

    Rule: platform engineers only; model and cluster are fixed.
    """
    require_keeper(actor)
    locked = Flavor.objects.select_for_update().get(pk=flavor.pk)
    moved = {name: [getattr(locked, name), value] for name, value in changes.items()}
    moved = {name: pair for name, pair in moved.items() if pair[0] != pair[1]}
    if not moved:
        return locked
    for name, (_, value) in moved.items():
        setattr(locked, name, value)
    _check_marks(locked.node_labels, locked.tolerations)
    core_offers.refuse_mixing(locked)
    locked.generation += 1
    locked.save(update_fields=[*moved, "generation", "updated_at"])
    audit.record(actor, "flavor.update", locked, now=now, changes=moved)
    wake.hint("flavor", str(locked.pk))
    return locked


@transaction.atomic
def delete_flavor(*, actor: Actor, flavor: Flavor, now: datetime) -> Flavor:
    """Takes a flavor away once no offer is left on it (409 has_dependents). Rule: platform engineers only."""
    require_keeper(actor)
    locked = Flavor.objects.select_for_update().get(pk=flavor.pk)
    left = locked.offers.filter(deleted_at=None).count()
    _refuse_dependents(left, f"{locked.slug} still has {left} offers.", hint="Delete its offers first.")
    _begin_deleting(actor, locked, now)
    return locked


@transaction.atomic
def create_offer(*, actor: Actor, wish: OfferWish, now: datetime) -> Offer:
    """A new offer; the cluster gets its DeviceClass, and Kueue charges its resource name without a restart.

    Rule: platform engineers only; one offer per flavor and profile, as two would sell the same devices.
    """
    require_keeper(actor)
    flavor = Flavor.objects.select_for_update().get(pk=wish.flavor.pk)
    _refuse_taken(Offer, wish.slug)
    if flavor.offers.filter(profile=wish.profile, deleted_at=None).exists():
        what = f"{wish.profile} slices" if wish.profile else "whole GPUs" if flavor.model else "cores"
        raise AlreadyExists(
            f"{flavor.slug} already has an offer with this {what}.", hint="Change that offer."
        )
    row_id, share = uuid4(), hardware.compute_share(flavor.model, wish.profile) if flavor.model else (0, 1)
    offer = Offer.objects.create(
        id=row_id,
        cluster=flavor.cluster,
        flavor=flavor,
        slug=wish.slug,
        name=wish.name or wish.slug,
        object_name=names.object_name(wish.slug, row_id),
        resource_name=core_offers.resource_name_of(flavor, wish.slug),
        mechanism=Mechanism.DRA if flavor.model else Mechanism.NODE,
        sharing_mode=_mode(flavor, wish),
        profile=wish.profile,
        description=wish.description,
        share_numerator=share[0],
        share_denominator=share[1],
        min_trust_level=wish.min_trust_level,
        enabled=wish.enabled,
        created_by=actor.username,
        **_sizes(wish),
    )
    queue_hints.queues_follow(flavor.cluster)
    audit.record(actor, "offer.create", offer, now=now, changes={"flavor": [None, flavor.slug]})
    wake.hint("offer", str(row_id))
    return offer


@transaction.atomic
def delete_offer(*, actor: Actor, offer: Offer, now: datetime) -> Offer:
    """Takes an offer away once no living tenant has quota, a grant that has not ended or an open request of
    it, and nothing holds it (409 has_dependents).

    Rule: platform engineers only. Prices and allocations of the past stay.
    """
    require_keeper(actor)
    locked = Offer.objects.select_for_update().get(pk=offer.pk)
    _refuse_bound(locked, now)
    held = _in_use(locked) if locked.deleted_at is None else 0
    words = f"{held} {locked.units} of {locked.slug} are in use."
    _refuse_dependents(held, words, hint="Wait until they are free.")
    queue_hints.queues_follow(locked.cluster)
    _begin_deleting(actor, locked, now)
    return locked


def _refuse_bound(offer: Offer, now: datetime) -> None:
    of_it: tuple[tuple[QuerySet[Any], str, str], ...] = (
        (Quota.objects.all(), "quota", "Take the quota away first"),
        (Grant.objects.filter(ends_at__gt=now), "a grant", "End the grants first"),
        (QuotaRequest.objects.filter(status=RequestStatus.OPEN), "an open request", "Decline them first"),
    )
    for rows, what, first in of_it:
        living = rows.filter(offer=offer, tenant__deleted_at=None)
        slugs = sorted(set(living.values_list("tenant__slug", flat=True)))
        words = f"Tenants with {what} of {offer.slug}: {', '.join(slugs)}."
        _refuse_dependents(len(slugs), words, hint=f"{first}; {_SWITCH_OFF}")


_SWITCH_OFF = "to sell no more of it, switch it off (enabled: false)."


def _in_use(offer: Offer) -> int:
    # Every pod of a node takes of its cores, so they are never all free: what came through a queue counts.
    if not offer.is_cores:
        return stock.supply(offer.cluster)[offer.pk].allocated
    holding = fleet.objects(offer.cluster, "Workload").filter(queue_state=QueueState.HOLDS)
    return sum(observation.held(body, offer.resource_name) for body in holding.values_list("body", flat=True))


@transaction.atomic
def delete_price(*, actor: Actor, price: Price, now: datetime) -> None:
    """Takes a price back that is not in force yet. Rule: platform engineers only; the past never changes."""
    require_keeper(actor)
    if price.valid_from <= now:
        words = f"This price has been in force since {price.valid_from:%Y-%m-%d %H:%M} UTC."
        raise Conflict(words, hint="Set a new price from a later moment on.")
    booking.record(actor, "price.delete", price, now=now, is_new=False)
    Price.objects.filter(pk=price.pk).delete()


def require_keeper(actor: Actor) -> None:
    """Rule: platform engineers keep flavors, offers and prices; raises NotAllowed."""
    if not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer changes flavors, offers and prices.")


def _mode(flavor: Flavor, wish: OfferWish) -> SharingMode:
    if not flavor.model:
        return SharingMode.NO_DEVICE
    return SharingMode.MIG if wish.profile else SharingMode.EXCLUSIVE


def _sizes(wish: OfferWish) -> dict[str, int]:
    """Memory and CPU as asked, else as the devices that are there have them; refused where neither tells."""
    if not wish.flavor.model:
        return core_offers.sizes(asdict(wish), _found_sizes(wish.flavor, ""))
    asked = {key: value for key, value in asdict(wish).items() if key in _SIZES and value is not None}
    known = {key: value for key, value in _found_sizes(wish.flavor, wish.profile).items() if key not in asked}
    sizes = known | asked
    missing = [
        FieldProblem(
            f"/spec/{shown}", "required", "The fleet has no such device to read it from: fill it in."
        )
        for key, shown in _SIZES.items()
        if key not in sizes
    ]
    wrong = [
        FieldProblem(f"/spec/{_SIZES[key]}", "out_of_range", "It must be more than 0.")
        for key, value in asked.items()
        if value <= 0
    ]
    if missing or wrong:
        raise Invalid([*missing, *wrong])
    return sizes


_SIZES = {"gpu_memory_bytes": "gpu_memory", "cpu_millis": "cpu", "memory_bytes": "memory"}


def _found_sizes(flavor: Flavor, profile: str) -> dict[str, int]:
    for draft in inventory_plan.plan(fleet.devices(flavor.cluster), fleet.nodes(flavor.cluster)):
        if (draft.model, draft.node_labels) == (flavor.model, flavor.node_labels):
            for each in draft.offers:
                if each.profile == profile:
                    return {key: getattr(each, key) for key in _SIZES}
    return {}


def _check_marks(labels: Mapping[str, str], tolerations: Any) -> None:
    problems = []
    if len(labels) > MOST_LABELS:
        words = f"At most {MOST_LABELS} labels mark a flavor's nodes (Kueue)."
        problems.append(FieldProblem("/spec/node_labels", "out_of_range", words))
    if not all(names.is_label_value(value) for value in labels.values()):
        problems.append(FieldProblem("/spec/node_labels", "invalid_value", "Use valid label values."))
    if not all(each.get("key") and each.get("effect") for each in tolerations):
        words = "Each toleration needs a key and an effect."
        problems.append(FieldProblem("/spec/tolerations", "required", words))
    if problems:
        raise Invalid(problems)


def _refuse_taken(model: type[Flavor] | type[Offer], slug: str) -> None:
    if model._default_manager.filter(slug=slug).exists():
        raise AlreadyExists(f"The slug {slug} is taken; slugs are never reused.")


def _refuse_dependents(count: int, words: str, *, hint: str) -> None:
    if count:
        raise Conflict(words, hint=hint, code="has_dependents")


def _begin_deleting(actor: Actor, row: Flavor | Offer, now: datetime) -> None:
    row.deleting_at = row.deleting_at or now
    row.generation += 1
    row.save(update_fields=["deleting_at", "generation", "updated_at"])
    kind = row._meta.model_name or ""
    audit.record(actor, f"{kind}.delete", row, now=now, changes={"slug": [row.slug, None]})
    wake.hint(kind, str(row.pk))


@dataclass(frozen=True)
class OfferChange:
    """What to change of an offer; None leaves a field as it is."""

    name: str | None = None
    min_trust_level: TrustLevel | None = None
    enabled: bool | None = None
    description: str | None = None
    cpu_millis: int | None = None
    memory_bytes: int | None = None


@transaction.atomic
def update_offer(*, actor: Actor, offer: Offer, change: OfferChange, now: datetime) -> Offer:
    """Changes words, least trust level, whether it is offered, or what comes with a device; running work is
    left alone.

    Rule: platform engineers only; nothing changed is no new generation and no event. The tenants' queues
    follow: CPU and memory what comes with a device, and nothing new starts where it is closed to them.
    """
    if not policies.can_manage_catalogue(actor):
        raise NotAllowed("Only a platform engineer changes offers.")
    locked = Offer.objects.select_for_update().get(pk=offer.pk)
    wanted = {field: value for field, value in asdict(change).items() if value is not None}
    changes = {f: [getattr(locked, f), v] for f, v in wanted.items() if getattr(locked, f) != v}
    if not changes:
        return locked
    sizes = [field for field in ("cpu_millis", "memory_bytes") if field in changes]
    if locked.is_cores and "cpu_millis" in changes:
        raise Invalid([FieldProblem("/spec/cpu", "invalid_value", core_offers.BY_THE_CORE)])
    if any(changes[field][1] <= 0 for field in sizes):
        raise Invalid([FieldProblem("/spec/cpu", "out_of_range", "CPU and memory must be more than 0.")])
    for name, (_, value) in changes.items():
        setattr(locked, name, value)
    locked.generation += 1
    locked.save(update_fields=[*changes, "generation", "updated_at"])
    if {*sizes, "enabled", "min_trust_level"} & changes.keys():
        queue_hints.queues_follow(locked.cluster, queue_hints.having(locked))
    audit.record(actor, "offer.update", locked, now=now, changes=changes)
    wake.hint("offer", str(locked.pk))
    return locked
