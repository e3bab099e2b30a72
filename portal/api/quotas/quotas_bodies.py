"""How flavors, offers, quotas and prices look in REST, and what a write of a quota takes. No rules on who or
when.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict, cast

from django.conf import settings
from rest_framework import serializers

from apps.cluster.models import Reconciled
from apps.cluster.objects.quantities import format_bytes, format_millis
from apps.quotas.allowances.selectors.effect import Effect, Moved, Moves
from apps.quotas.allowances.selectors.standing import QuotaBar
from apps.quotas.catalogue.selectors.stock import Supply
from apps.quotas.models import Flavor, Offer, Quota, TenantQueue
from apps.quotas.specs import Mechanism, SharingMode
from apps.ranges import DEVICES, MORE_DEVICES
from apps.tenants.specs import TrustLevel
from apps.web.shapes.amounts import money
from apps.web.shapes.bodies import Condition, Money, ObjectHead, Rehearsal, common
from portal.api.base.serializers import StrictSerializer

Body = Mapping[str, Any]


class QuotaSpecSerializer(StrictSerializer):
    """Devices of one offer; null is no limit. The offer is fixed once the quota is made."""

    offer = serializers.CharField(max_length=40, help_text="slug or id")
    nominal_quota = serializers.IntegerField(**DEVICES.bounds)
    borrowing_limit = serializers.IntegerField(**DEVICES.bounds, allow_null=True, default=None)
    lending_limit = serializers.IntegerField(**DEVICES.bounds, allow_null=True, default=None)


class QuotaDocumentSerializer(StrictSerializer):
    """The writable part of a quota: what PUT takes, and PATCH after merging."""

    spec = QuotaSpecSerializer()


class NewQuotaSerializer(QuotaDocumentSerializer):
    """What POST takes."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id")


class MoveSerializer(StrictSerializer):
    """What moving a guarantee takes: to which tenant of the department, and how many devices."""

    to = serializers.CharField(max_length=40, help_text="slug or id of a tenant")
    count = serializers.IntegerField(**MORE_DEVICES.bounds)
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class ObservedBody(TypedDict):
    """What the cluster has seen of it."""

    observed_generation: int
    conditions: list[Condition]


class QuotaSpecBody(TypedDict):
    """Devices of one offer; null is no limit."""

    offer: str
    flavor: Annotated[None, "Not in this version."]
    nominal_quota: int
    borrowing_limit: int | None
    lending_limit: int | None
    per_member_limit: Annotated[None, "Not in this version."]
    until: Annotated[None, "Not in this version."]


class QuotaStatusBody(ObservedBody):
    """What the cluster says."""

    used: Annotated[int, "What is borrowed included."]
    borrowed: int
    lent: int
    pending: int
    over: Annotated[int, "What runs above all limits after a cut."]
    free: Annotated[int, "What the tenant could take now."]
    free_on_one_node: Annotated[int | None, "Of these, what one pod could have; null: not known."]


class QuotaBody(ObjectHead):
    """A tenant's quota of one offer."""

    object: Literal["quota"]
    spec: QuotaSpecBody
    status: QuotaStatusBody


class MovedBody(TypedDict):
    """A workload that a change moves."""

    tenant: str
    name: str
    workload: Annotated[str | None, "Its id; null for what was made with kubectl."]
    offer: str
    count: int
    to: Annotated[str | None, "The tenant that gets its devices."]


class MovesBody(TypedDict):
    """Who gets and who loses devices."""

    over: Annotated[int, "What runs above the new limits."]
    message: str
    starts: list[MovedBody]
    loses: list[MovedBody]
    unknown: Annotated[str | None, "Why nobody can tell; null where it was predicted."]


class QuotaEffectBody(MovesBody):
    """What a change of a guarantee does."""

    owned: Annotated[int, "Devices that there are."]
    promised_before: int
    promised: int


class QuotaRehearsalBody(Rehearsal):
    """What a change of a guarantee would do; `result` is the object, null where none would be left."""

    effect: QuotaEffectBody


class FlavorSpecBody(TypedDict):
    """What marks its nodes."""

    cluster: str
    model: str
    node_labels: dict[str, str]
    node_taints: list[Mapping[str, Any]]
    tolerations: list[Mapping[str, str]]


class FlavorStatusBody(ObservedBody):
    """What there is of it."""

    model: str
    gpu_memory: Annotated[str | None, "Of its largest offer; null without one."]
    devices: int


class FlavorBody(ObjectHead):
    """A kind of node that the fleet has."""

    object: Literal["flavor"]
    spec: FlavorSpecBody
    status: FlavorStatusBody


class OfferSpecBody(TypedDict):
    """What the offer is."""

    flavor: str
    sharing_mode: SharingMode
    profile: Annotated[str | None, "The MIG profile; null for whole GPUs."]
    gpu_memory: str
    compute_share: Annotated[str, "Of one GPU, such as 1/7; 0 of an offer without a GPU."]
    min_trust_level: TrustLevel
    mechanism: Mechanism
    enabled: bool
    description: str
    cpu: Annotated[str, "Comes with one device; 1 of an offer of cores."]
    memory: Annotated[str, "Comes with one device, or one core."]


class IsolationBody(TypedDict):
    """What it keeps apart."""

    memory: bool
    faults: bool
    across_tenants: bool


class HourlyBody(TypedDict):
    """What one device costs."""

    hourly: Annotated[Money | None, "Null without a price."]


class ChoiceBody(TypedDict):
    """What a tenant may take of it."""

    free: Annotated[int, "With `?tenant=`: what that tenant could take now."]
    free_on_one_node: Annotated[int | None, "Of these, what one pod could have; null: not known."]
    allowed: Annotated[bool | None, "Null without `?tenant=`."]
    blocked_reason: str | None


class OfferStatusBody(ObservedBody, ChoiceBody):
    """What it isolates, costs, and how much of it there is."""

    isolation_level: IsolationBody
    price: HourlyBody
    capacity: int


class OfferBody(ObjectHead):
    """A thing that one can ask for."""

    object: Literal["offer"]
    spec: OfferSpecBody
    status: OfferStatusBody


def _money(amount: Decimal | None, currency: str | None = None) -> Money | None:
    return money(amount, currency or settings.CONFIG.currency)


def quota_body(quota: Quota, bar: QuotaBar | None, queue: TenantQueue | None = None) -> QuotaBody:
    """A quota as REST shows it; without a bar the cluster has told nothing yet, so nothing is in use.

    A quota reaches the cluster inside its tenant's ClusterQueue: the conditions are the queue's, and the
    quota is observed once the queue is.
    """
    used, limit = (bar.used if bar else 0), quota.borrowing_limit
    is_observed = queue is not None and queue.observed_generation == queue.generation
    observed = quota.generation if is_observed else quota.generation - 1
    return {
        "object": "quota",
        **common(quota, tenant=quota.tenant.slug, created_by=quota.created_by),
        "spec": {
            "offer": quota.offer.slug,
            "flavor": None,
            "nominal_quota": quota.nominal_quota,
            "borrowing_limit": limit,
            "lending_limit": quota.lending_limit,
            "per_member_limit": None,
            "until": None,
        },
        "status": {
            "used": used,
            "borrowed": bar.borrowed if bar else 0,
            "lent": bar.lent if bar else 0,
            "pending": bar.pending if bar else 0,
            "over": 0 if limit is None else max(0, used - quota.nominal_quota - limit),
            "free": bar.free if bar else 0,
            "free_on_one_node": bar.free_on_one_node if bar else None,
            "observed_generation": observed,
            "conditions": [
                {**cast("Condition", condition), "observed_generation": observed}
                for condition in (queue.conditions if queue else [])
            ],
        },
    }


def effect_body(effect: Effect) -> QuotaEffectBody:
    """What a change of quota will do."""
    return {
        "owned": effect.owned,
        "promised_before": effect.promised_before,
        "promised": effect.promised,
        **moves_body(effect),
        "message": " ".join(filter(None, (effect.sum_sentence, effect.over_sentence))),
    }


def moves_body(moves: Moves) -> MovesBody:
    """Who gets and who loses devices; `unknown` is null where it was predicted who starts and who loses."""
    return {
        "over": moves.over,
        "message": moves.over_sentence,
        "starts": [_moved(each) for each in moves.starts],
        "loses": [_moved(each) for each in moves.loses],
        "unknown": moves.unknown or None,
    }


def _moved(each: Moved) -> MovedBody:
    return {
        "tenant": each.tenant,
        "name": each.name,
        "workload": each.uid or None,
        "offer": each.offer,
        "count": each.devices,
        "to": each.to or None,
    }


def flavor_body(flavor: Flavor, devices: int, gpu_memory: int | None) -> FlavorBody:
    """A flavor as REST shows it, with the devices of its offers and the memory of the largest."""
    return {
        "object": "flavor",
        **common(flavor, slug=flavor.slug, name=flavor.name, created_by=flavor.created_by),
        "spec": {
            "cluster": flavor.cluster.slug,
            "model": flavor.model,
            "node_labels": flavor.node_labels,
            "node_taints": [],
            "tolerations": flavor.tolerations,
        },
        "status": {
            "model": flavor.model,
            "gpu_memory": None if gpu_memory is None else format_bytes(gpu_memory),
            "devices": devices,
            **_observed(flavor),
        },
    }


def offer_body(
    offer: Offer, supply: Supply, hourly: Decimal | None, choice: ChoiceBody | None = None
) -> OfferBody:
    """An offer as REST shows it; `choice` has free, allowed and blocked_reason for one tenant."""
    mode = SharingMode(offer.sharing_mode)
    apart = mode.isolates_memory
    whole = offer.share_numerator == offer.share_denominator
    return {
        "object": "offer",
        **common(offer, slug=offer.slug, name=offer.name, created_by=offer.created_by),
        "spec": {
            "flavor": offer.flavor.slug,
            "sharing_mode": mode,
            "profile": offer.profile or None,
            "gpu_memory": format_bytes(offer.gpu_memory_bytes),
            "compute_share": "0"
            if offer.is_cores
            else "1"
            if whole
            else f"{offer.share_numerator}/{offer.share_denominator}",
            "min_trust_level": TrustLevel(offer.min_trust_level),
            "mechanism": Mechanism(offer.mechanism),
            "enabled": offer.enabled,
            "description": offer.description,
            "cpu": format_millis(offer.cpu_millis),
            "memory": format_bytes(offer.memory_bytes),
        },
        "status": {
            "isolation_level": {"memory": apart, "faults": apart, "across_tenants": apart},
            "price": {"hourly": _money(hourly)},
            "capacity": supply.capacity,
            **(choice or _for_nobody(supply)),
            **_observed(offer),
        },
    }


def _for_nobody(supply: Supply) -> ChoiceBody:
    return {
        "free": supply.free,
        "free_on_one_node": supply.most,
        "allowed": None,
        "blocked_reason": None,
    }


def _observed(row: Reconciled) -> ObservedBody:
    return {"observed_generation": row.observed_generation, "conditions": row.conditions}
