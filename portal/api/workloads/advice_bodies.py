"""The REST form of advice: a body into a wish, the answer into an object. No rules."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

from rest_framework import serializers

from apps.cluster.objects.quantities import format_bytes
from apps.quotas.specs import SharingMode
from apps.ranges import AT_ONCE, RUN_SECONDS
from apps.web.shapes import amounts
from apps.web.shapes.bodies import Money
from apps.workloads.advice.rules import wishes
from apps.workloads.advice.rules.models import Precision, Task
from apps.workloads.advice.rules.situations import (
    ISOLATED,
    USUAL_SECONDS,
    Advice,
    Comparison,
    LeftOut,
    Ranked,
    Start,
    Why,
)
from apps.workloads.advice.rules.wishes import ModelWish, NeedWish
from apps.workloads.specs import Kind
from apps.workloads.waiting.rules.bodies import IntervalBody, OfferHolderBody
from apps.workloads.waiting.selectors import waiting
from portal.api.base.serializers import StrictSerializer


class ModelSerializer(StrictSerializer):
    """A model, from which GPU memory follows: docs/advice.md says how."""

    billions = serializers.DecimalField(
        max_digits=8, decimal_places=3, min_value=0, max_value=Decimal(2000), help_text="of parameters"
    )
    precision = serializers.ChoiceField(choices=Precision.choices(), default=Precision.BF16)
    task = serializers.ChoiceField(choices=Task.choices(), default=Task.INFERENCE)


class AdviceSerializer(StrictSerializer):
    """What is needed. One of `gpu_memory` and `model` is given."""

    tenant = serializers.CharField(max_length=40, help_text="slug or id")
    kind = serializers.ChoiceField(choices=Kind.choices())
    gpu_memory = serializers.CharField(
        max_length=40, allow_null=True, default=None, help_text="for each, such as 20Gi"
    )
    model = ModelSerializer(allow_null=True, default=None)
    for_seconds = serializers.IntegerField(**RUN_SECONDS.bounds, default=USUAL_SECONDS)
    at_once = serializers.IntegerField(**AT_ONCE.bounds, default=1, help_text="each with that much memory")
    may_be_interrupted = serializers.BooleanField(default=False)
    isolated = serializers.BooleanField(default=False, help_text=ISOLATED.rstrip("."))
    cheap_first = serializers.BooleanField(default=False, help_text="price before start")

    @staticmethod
    def wish(asked: Mapping[str, Any]) -> NeedWish:
        """The checked body as the rules take it."""
        model = asked["model"]
        return NeedWish(
            kind=Kind(asked["kind"]),
            gpu_memory=asked["gpu_memory"] or "",
            model=model and ModelWish(model["billions"], Precision(model["precision"]), Task(model["task"])),
            at_once=asked["at_once"],
            for_seconds=asked["for_seconds"],
            may_be_interrupted=asked["may_be_interrupted"],
            isolated=asked["isolated"],
            cheap_first=asked["cheap_first"],
        )


class AdvisedOfferBody(TypedDict):
    """An offer that would do."""

    offer: str
    name: str
    sharing_mode: SharingMode
    isolation: Annotated[str, "In words."]
    gpu_memory: Annotated[str, "Of one device."]
    is_spot: bool
    devices_each: Annotated[int, "For one of what is needed, on one node."]
    devices: Annotated[int, "For all of them."]
    hourly: Annotated[Money | None, "For all devices; null without a price."]
    total: Annotated[Money | None, "For the time asked for."]
    start: Start
    start_message: str
    eta: Annotated[IntervalBody | None, "Where it waits and that is known."]
    holders: Annotated[list[OfferHolderBody], "Whom it waits for."]
    speaks_for: list[str]
    speaks_against: list[str]
    warnings: Annotated[list[str], "A usual mistake: such an offer ranks behind all others."]


class LeftOutBody(TypedDict):
    """An offer that would not do."""

    offer: str
    name: str
    reason: Why
    message: str


class ComparedBody(TypedDict):
    """One way to have the same."""

    offer: str
    name: str
    devices: int
    hourly: Money
    message: str


class ComparisonBody(TypedDict):
    """Small whole GPUs beside slices of a large one, the cheapest first."""

    message: str
    items: list[ComparedBody]


class AdviceBody(TypedDict):
    """Ranked offers with reasons; nothing of it is stored or kept free."""

    object: Literal["advice"]
    tenant: str
    kind: Kind
    as_of: datetime
    gpu_memory: Annotated[str, "What is needed for each; of a model as it was counted."]
    counted: Annotated[str | None, "How the memory of a model was counted."]
    situation: Annotated[str, "The row of the sharing decision table."]
    usual: Annotated[str, "What is usually advised in it, and why."]
    items: Annotated[list[AdvisedOfferBody], "The best first."]
    left_out: list[LeftOutBody]
    comparison: Annotated[ComparisonBody | None, "Null where there are not both."]
    nearest: Annotated[LeftOutBody | None, "What comes closest where nothing fits."]


def advice_body(found: Advice, *, tenant: str, kind: Kind, at: datetime, currency: str) -> AdviceBody:
    """The answer."""
    need = found.need
    return {
        "object": "advice",
        "tenant": tenant,
        "kind": kind,
        "as_of": at,
        "gpu_memory": format_bytes(need.memory_bytes),
        "counted": wishes.how_much(need.model) if need.model else None,
        "situation": found.situation,
        "usual": found.usual,
        "items": [_advised(each, currency) for each in found.ranked],
        "left_out": [_left_out(each) for each in found.left_out],
        "comparison": _comparison(found.comparison, currency) if found.comparison else None,
        "nearest": _left_out(found.nearest) if found.nearest else None,
    }


def _advised(each: Ranked, currency: str) -> AdvisedOfferBody:
    offer = each.offer
    return {
        "offer": offer.slug,
        "name": offer.name,
        "sharing_mode": offer.mode,
        "isolation": offer.mode.isolation,
        "gpu_memory": format_bytes(offer.memory_bytes),
        "is_spot": offer.is_spot,
        "devices_each": each.each,
        "devices": each.devices,
        "hourly": amounts.money(each.hourly, currency),
        "total": amounts.money(each.total, currency),
        "start": each.start,
        "start_message": each.start_words,
        "eta": waiting.interval_body(offer.starts),
        "holders": waiting.holder_bodies(offer.holders),
        "speaks_for": list(each.speaks_for),
        "speaks_against": list(each.speaks_against),
        "warnings": list(each.warnings),
    }


def _left_out(each: LeftOut) -> LeftOutBody:
    return {"offer": each.offer.slug, "name": each.offer.name, "reason": each.why, "message": each.words}


def _comparison(found: Comparison, currency: str) -> ComparisonBody:
    return {
        "message": found.words,
        "items": [
            {
                "offer": line.offer.slug,
                "name": line.offer.name,
                "devices": line.devices,
                "hourly": amounts.money(line.hourly, currency),
                "message": line.words,
            }
            for line in found.lines
        ],
    }
