"""How workloads look in REST: the shapes that their builders return. Pure."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from apps.quotas.allowances.rules.fit import VerdictKind
from apps.web.shapes.bodies import Condition, Id, Money, Rehearsal
from apps.web.shapes.typed import keywords
from apps.workloads.spec.bodies import WorkloadSpecBody
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.bodies import QueueAheadBody, WorkloadQueueBody


class PlacedDeviceBody(TypedDict):
    """A device that a pod was given."""

    id: Annotated[str | None, "Its UUID, where the fleet knows it."]
    name: Annotated[str, "pool/device, as the driver names it."]


class PlacedPodBody(TypedDict):
    """Where a pod is."""

    cluster: str
    namespace: str
    pod: str
    node: str
    flavor: str
    devices: list[PlacedDeviceBody]


class EndpointBody(TypedDict):
    """Where it answers."""

    name: str
    url: Annotated[str, keywords(format="uri")]
    ready: bool


class IdleEvidenceBody(TypedDict):
    """What an idle countdown rests on."""

    metric: str
    below: float | None
    for_seconds: int | None
    observed: float | None
    coverage: float | None


class CountdownBody(TypedDict):
    """When it will be stopped, and why: the earliest reason."""

    stops_at: datetime
    reason: Literal["Idle", "MaxRunTime"]
    message: str
    extendable_until: datetime | None
    evidence: Annotated[IdleEvidenceBody | None, "Of an idle one."]


class WorkloadCostBody(TypedDict):
    """What it costs: allocated - refunded = effective + waste + unknown. Null: not known yet."""

    hourly: Annotated[Money | None, "Null while it holds nothing."]
    allocated: Money | None
    refunded: Money | None
    effective: Money | None
    waste: Money | None
    unknown: Money | None
    as_of: datetime | None


class WorkloadStatusBody(TypedDict):
    """What was observed of it."""

    phase: Phase
    observed_generation: int
    conditions: list[Condition]
    placement: list[PlacedPodBody]
    queue: Annotated[WorkloadQueueBody | None, "Null unless it waits or cannot start."]
    endpoints: list[EndpointBody]
    countdown: Annotated[CountdownBody | None, "Null while it does not run or has no end."]
    utilization: Annotated[None, "See workloads/{id}/utilization."]
    cost: WorkloadCostBody
    protected_until: Annotated[datetime | None, "Until then nothing more urgent takes its devices."]
    next_offer: Annotated[str | None, "The offer that it takes when it starts again."]
    started_at: datetime | None
    ended_at: datetime | None


class WorkloadBody(TypedDict):
    """A notebook or a job."""

    object: Literal["workload"]
    id: Id
    slug: str
    name: str
    tenant: Annotated[str, "The tenant's slug."]
    labels: dict[str, str]
    generation: Annotated[int, "Counts changes of writable fields; the ETag."]
    created_at: datetime
    updated_at: datetime
    created_by: str
    spec: WorkloadSpecBody
    status: WorkloadStatusBody


class WorkloadEventBody(TypedDict):
    """One line of a workload's events: ours, or the cluster's."""

    at: datetime
    source: str
    type: str
    reason: str
    message: str


class ManifestsBody(TypedDict):
    """What it is in Kubernetes."""

    items: list[dict[str, Any]]


class ForetoldPriceBody(TypedDict):
    """What it would cost; null without a price."""

    hourly: Money | None
    total: Annotated[Money | None, "Until its longest run ends; null where it has no end."]


class FitBody(TypedDict):
    """Whether it would start now."""

    verdict: VerdictKind
    reason: str
    message: str


class ForetoldInsteadBody(TypedDict):
    """An offer that would start now instead."""

    offer: str
    hourly: Money | None
    eta: datetime | None


class NewWorkloadRehearsalBody(TypedDict):
    """What would become of a new workload. Nothing was stored."""

    dry_run: Literal[True]
    result: WorkloadBody
    price: ForetoldPriceBody
    fit: FitBody
    queue: Annotated[QueueAheadBody | None, "Null where it would start now."]
    manifests: list[dict[str, Any]]
    alternatives: list[ForetoldInsteadBody]
    warnings: list[str]


class WorkloadChangeRehearsalBody(Rehearsal):
    """What a replacement would make of it; `result` is the workload."""


class ArrangementEffectBody(TypedDict):
    """Places before and after, and who is passed. A place is null for what does not queue."""

    position_before: int | None
    position_after: int | None
    of: int
    priority: int
    message: str


class ArrangementRehearsalBody(Rehearsal):
    """What a move, a hold or a release would do; `result` is the workload."""

    effect: ArrangementEffectBody
