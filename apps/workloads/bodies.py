"""How workloads look in REST: the shapes that their builders return. Pure."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from apps.quotas.ledger import VerdictKind
from apps.quotas.specs import Priority
from apps.web.bodies import Condition, Id, Money, Rehearsal
from apps.web.typed import keywords
from apps.workloads.situation import Cause
from apps.workloads.specs import Ide, IdleAction, Kind, Phase


class WorkloadVolumeBody(TypedDict):
    """A volume claim that outlives every stop."""

    name: Annotated[str, "Up to 20 of a-z, 0-9 and -, starting with a letter."]
    size: Annotated[str, "A Kubernetes quantity, such as 10Gi."]
    mount_path: Annotated[str, "An absolute path, such as /data."]


class NotebookBlockBody(TypedDict):
    """What only a notebook has."""

    ide: Ide


class JobBlockBody(TypedDict):
    """What only a job has, in the words of batch/v1 Job."""

    completions: int
    parallelism: int
    backoff_limit: int


class WorkloadIdlePolicyBody(TypedDict):
    """A workload's own idle policy."""

    action: IdleAction
    for_seconds: Annotated[int | None, "Null: as long as its team's policy says."]


class WorkloadSpecBody(TypedDict):
    """What is asked for, complete. It may be sent back as it is."""

    kind: Kind
    offer: str
    offers: Annotated[None, "Not in this version."]
    count: Annotated[int, "Devices per pod."]
    image: str
    command: list[str]
    args: list[str]
    env: dict[str, str]
    env_from_secrets: Annotated[None, "Not in this version."]
    cpu: Annotated[str | None, "A Kubernetes quantity, per pod."]
    memory: Annotated[str | None, "A Kubernetes quantity, per pod."]
    volumes: list[WorkloadVolumeBody]
    priority: Priority
    suspend: bool
    max_wait_seconds: int | None
    max_run_seconds: int | None
    idle_policy: Annotated[WorkloadIdlePolicyBody | None, "Null: its team's."]
    notebook: NotebookBlockBody | None
    job: JobBlockBody | None


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


class WorkloadQueueBody(QueueAheadBody):
    """Why it waits, or cannot start."""

    cause: Cause
    frees: Annotated[str | None, "What would end the wait."]
    detail: Annotated[str, "The cluster's own message."]
    alternatives: list[InsteadBody]


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
