"""Why something waits, as REST shows it. Pure."""

from datetime import datetime
from typing import Annotated, TypedDict

from apps.web.shapes.bodies import Money
from apps.workloads.waiting.rules.situation import Cause


class IntervalBody(TypedDict):
    """Eight of ten starts should fall between p10 and p90."""

    p10: datetime
    p50: datetime
    p90: datetime


class OfferHolderBody(TypedDict):
    """Who holds devices of the offer."""

    tenant: Annotated[str | None, "Null: another department's."]
    offer: str
    count: int
    until: Annotated[datetime | None, "When the first of them ends."]


class QueueAheadBody(TypedDict):
    """What a request that cannot start now would wait for."""

    position: Annotated[int | None, "1 is the next; null where it has no place in the queue."]
    of: int | None
    reason: str
    message: str
    eta: Annotated[IntervalBody | None, "Null where nothing is known."]
    holders: list[OfferHolderBody]


class InsteadBody(TypedDict):
    """An offer that would start now instead."""

    offer: str
    name: str
    hourly: Annotated[Money | None, "For all devices; null without a price."]


class SmallerBody(TypedDict):
    """How much less of the same offer would start now."""

    count: Annotated[int, "Devices of each pod."]
    pods: Annotated[int | None, "How many pods at once; null: as many as before."]
    hourly: Annotated[Money | None, "For all of it; null without a price."]


class WorkloadQueueBody(QueueAheadBody):
    """Why it waits, or cannot start."""

    cause: Cause
    frees: Annotated[str | None, "What would end the wait."]
    detail: Annotated[str, "The cluster's own message."]
    alternatives: list[InsteadBody]
    smaller: Annotated[
        SmallerBody | None, "What a PATCH to fewer devices or pods would start now; null: nothing."
    ]
