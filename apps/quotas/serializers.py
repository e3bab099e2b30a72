"""How flavors, offers, quotas and prices look in REST, and what a write of a quota takes. No rules on who or
when.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, TypedDict

from django.conf import settings
from rest_framework import serializers

from apps.cluster.models import Reconciled
from apps.cluster.quantities import format_bytes, format_millis
from apps.quotas.effect import Effect, Moved, Moves
from apps.quotas.models import Flavor, Offer, Price, Quota, TenantQueue
from apps.quotas.specs import Mechanism, SharingMode
from apps.quotas.standing import QuotaBar, Supply
from apps.ranges import DEVICES, MORE_DEVICES
from apps.tenants.serializers import ConditionSerializer
from apps.tenants.specs import TrustLevel
from apps.web.amounts import money
from apps.web.bodies import Id, head
from apps.web.serializers import StrictSerializer

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


class MoneySerializer(serializers.Serializer[Any]):
    """An amount with up to 8 decimals."""

    amount = serializers.CharField()
    currency = serializers.CharField()


class QuotaStatusSerializer(serializers.Serializer[Any]):
    """What the cluster says: `used` includes what is borrowed; `over` runs above all limits after a cut."""

    used = serializers.IntegerField()
    borrowed = serializers.IntegerField()
    lent = serializers.IntegerField()
    pending = serializers.IntegerField()
    over = serializers.IntegerField()
    free = serializers.IntegerField(help_text="what the tenant could take now")


class QuotaSerializer(serializers.Serializer[Any]):
    """A tenant's quota of one offer."""

    object = serializers.CharField(default="quota")
    id = serializers.UUIDField()
    tenant = serializers.CharField()
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    spec = QuotaSpecSerializer()
    status = QuotaStatusSerializer()


class FlavorSerializer(serializers.Serializer[Any]):
    """A kind of node the fleet has."""

    object = serializers.CharField(default="flavor")
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    spec = serializers.JSONField(help_text="cluster, node_labels, tolerations")
    status = serializers.JSONField(help_text="model, gpu_memory, devices")


class OfferSpecSerializer(serializers.Serializer[Any]):
    """What the offer is."""

    flavor = serializers.CharField()
    sharing_mode = serializers.ChoiceField(choices=SharingMode.choices())
    profile = serializers.CharField(allow_null=True)
    gpu_memory = serializers.CharField()
    compute_share = serializers.CharField()
    min_trust_level = serializers.ChoiceField(choices=TrustLevel.choices())
    mechanism = serializers.ChoiceField(choices=Mechanism.choices())
    enabled = serializers.BooleanField()
    description = serializers.CharField()
    cpu = serializers.CharField(help_text="comes with one device")
    memory = serializers.CharField(help_text="comes with one device")


class OfferStatusSerializer(serializers.Serializer[Any]):
    """What it isolates, costs, and how much of it there is; `allowed` is null without `?tenant=`."""

    isolation_level = serializers.JSONField()
    price = serializers.JSONField(allow_null=True)
    capacity = serializers.IntegerField()
    free = serializers.IntegerField(help_text="with ?tenant=: what that tenant could take now")
    allowed = serializers.BooleanField(allow_null=True)
    blocked_reason = serializers.CharField(allow_null=True)
    observed_generation = serializers.IntegerField()
    conditions = ConditionSerializer(many=True)


class OfferSerializer(serializers.Serializer[Any]):
    """A thing one can ask for."""

    object = serializers.CharField(default="offer")
    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    generation = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    spec = OfferSpecSerializer()
    status = OfferStatusSerializer()


class PriceSerializer(serializers.Serializer[Any]):
    """What one device of an offer, one core or one GiB costs per hour from a moment on."""

    object = serializers.CharField(default="price")
    id = serializers.UUIDField()
    tenant = serializers.CharField(allow_null=True, help_text="null: for everybody")
    spec = serializers.JSONField(
        help_text="resource, offer, capacity, hourly, valid_from, valid_until, least_seconds"
    )


def _money(amount: Decimal | None, currency: str | None = None) -> Body | None:
    return money(amount, currency or settings.CONFIG.currency)


def quota_body(quota: Quota, bar: QuotaBar | None, queue: TenantQueue | None = None) -> Body:
    """A quota as REST shows it; without a bar the cluster has told nothing yet, so nothing is in use.

    A quota reaches the cluster inside its tenant's ClusterQueue: the conditions are the queue's, and the
    quota is observed once the queue is.
    """
    used, limit = (bar.used if bar else 0), quota.borrowing_limit
    is_observed = queue is not None and queue.observed_generation == queue.generation
    observed = {"observed_generation": quota.generation if is_observed else quota.generation - 1}
    return {
        **head("quota", quota, tenant=quota.tenant.slug, created_by=quota.created_by),
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
            **observed,
            "conditions": [condition | observed for condition in (queue.conditions if queue else [])],
        },
    }


def effect_body(effect: Effect) -> Body:
    """What a change of quota will do."""
    return {
        "owned": effect.owned,
        "promised_before": effect.promised_before,
        "promised": effect.promised,
        **moves_body(effect),
        "message": " ".join(filter(None, (effect.sum_sentence, effect.over_sentence))),
    }


class MovedBody(TypedDict):
    """A workload that a change moves."""

    tenant: str
    name: str
    workload: Annotated[
        Id | None, "Null for work that no workload of ours made, or that is not yours to see."
    ]
    offer: str
    count: Annotated[int, "Devices."]
    to: Annotated[str | None, "The tenant that gets its devices."]


class MovesBody(TypedDict):
    """Who gets and who loses devices by a change."""

    over: Annotated[int, "Devices that run above the new limits; they stay until they end."]
    message: Annotated[str, "The same in a sentence; empty where there is none."]
    starts: list[MovedBody]
    loses: list[MovedBody]
    unknown: Annotated[str | None, "Why nobody can tell who starts and who loses; null where it is told."]


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


def flavor_body(flavor: Flavor, devices: int, gpu_memory: int | None) -> Body:
    """A flavor as REST shows it, with the devices of its offers and the memory of the largest."""
    return {
        **head("flavor", flavor, slug=flavor.slug, name=flavor.name, created_by=flavor.created_by),
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


def offer_body(offer: Offer, supply: Supply, hourly: Decimal | None, choice: Body | None = None) -> Body:
    """An offer as REST shows it; `choice` has free, allowed and blocked_reason for one tenant."""
    mode = SharingMode(offer.sharing_mode)
    isolated = dict.fromkeys(("memory", "faults", "across_tenants"), mode.isolates_memory)
    whole = offer.share_numerator == offer.share_denominator
    return {
        **head("offer", offer, slug=offer.slug, name=offer.name, created_by=offer.created_by),
        "spec": {
            "flavor": offer.flavor.slug,
            "sharing_mode": offer.sharing_mode,
            "profile": offer.profile or None,
            "gpu_memory": format_bytes(offer.gpu_memory_bytes),
            "compute_share": "1" if whole else f"{offer.share_numerator}/{offer.share_denominator}",
            "min_trust_level": offer.min_trust_level,
            "mechanism": offer.mechanism,
            "enabled": offer.enabled,
            "description": offer.description,
            "cpu": format_millis(offer.cpu_millis),
            "memory": format_bytes(offer.memory_bytes),
        },
        "status": {
            "isolation_level": isolated,
            "price": {"hourly": _money(hourly)},
            "capacity": supply.capacity,
            "free": supply.free,
            "allowed": None,
            "blocked_reason": None,
            **(choice or {}),
            **_observed(offer),
        },
    }


def price_body(price: Price) -> Body:
    """A price as REST shows it."""
    return {
        "object": "price",
        "id": str(price.pk),
        "slug": None,
        "name": None,
        "tenant": price.tenant.slug if price.tenant else None,
        "labels": {},
        "generation": 1,
        "created_at": price.created_at,
        "updated_at": price.created_at,
        "created_by": price.created_by or None,
        "spec": {
            "resource": price.resource,
            "offer": price.offer.slug if price.offer else None,
            "capacity": price.capacity or None,
            "hourly": _money(price.hourly, price.currency),
            "valid_from": price.valid_from,
            "valid_until": price.valid_until,
            "least_seconds": price.least_seconds,
        },
        "status": {"observed_generation": 1, "conditions": []},
    }


def _observed(row: Reconciled) -> dict[str, Any]:
    return {"observed_generation": row.observed_generation, "conditions": row.conditions}
