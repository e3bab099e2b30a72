"""How workloads look in REST: the shapes that their builders return. Pure."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from apps.quotas.allowances.rules.fit import VerdictKind
from apps.web.shapes.bodies import Condition, Id, Money, Rehearsal
from apps.web.shapes.typed import keywords
from apps.workloads.spec.bodies import WorkloadSpecBody
from apps.workloads.specs import Phase
from apps.workloads.status.last_run import Outcome
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
    reason: Literal["Idle", "MaxRunTime", "WorkingHours"]
    message: str
    extendable_until: datetime | None
    evidence: Annotated[IdleEvidenceBody | None, "Of an idle one."]


class WorkloadCostBody(TypedDict):
    """What it costs: allocated - refunded = effective + waste + unknown. Null: not known yet."""

    hourly: Annotated[Money | None, "Null while it holds nothing."]
    allocated: Money | None
    refunded: Money | None
    effective: Money | None
    waste: Annotated[Money | None, "Seen, and no work: recoverable + inefficiency."]
    recoverable: Annotated[Money | None, "Waste that somebody can end, because a finding says so."]
    inefficiency: Annotated[Money | None, "The rest of the waste, inside work that is wanted."]
    unknown: Money | None
    as_of: datetime | None


class IdeUseBody(TypedDict):
    """What a notebook's IDE says of its use; figures are null while that is unknown: of VS Code all but its
    tab are.
    """

    message: str
    problem: Annotated[str | None, "Why it is unknown."]
    kernels: int | None
    running: Annotated[int | None, "Kernels that run code."]
    tabs: Annotated[
        int | None, "Connections of browsers to its kernels; of VS Code 1 while a tab is open, else 0."
    ]
    last_activity: Annotated[
        datetime | None, "Of its kernels; without one, of the IDE. Of VS Code: of an open tab."
    ]
    terminals: int | None
    terminal_activity: Annotated[datetime | None, "When something was last typed or printed in one."]
    answered_at: datetime | None


class WorkloadItemsBody(TypedDict):
    """How far an array is; items as text of their numbers, such as 3,7-9."""

    total: int
    done: Annotated[int, "Ended well."]
    failed: Annotated[int, "Failed for good, all tries used."]
    left: Annotated[int, "total - done - failed."]
    done_items: str
    failed_items: str


class ReplicasBody(TypedDict):
    """How many replicas of a service answer."""

    wanted: int
    ready: int
    updated: Annotated[int, "Of the version that is asked for; fewer than wanted: a new one comes in."]
    waiting: Annotated[int, "In the queue."]


class HoursStandingBody(TypedDict):
    """What the working hours of a notebook do next: they stop what runs and start what is stopped."""

    stops_at: datetime | None
    starts_at: Annotated[datetime | None, "Null too where it was stopped because it did nothing."]
    message: str


class MadeFromBody(TypedDict):
    """The template that it was made from."""

    template: Annotated[str, "Its slug."]
    version: int


class LastRunLogBody(TypedDict):
    """One container's log of a run that is over; its lines: workloads/{id}/logs."""

    pod: str
    container: str
    size: Annotated[int, "In bytes."]
    is_cut: Annotated[bool, "Only its end is kept: 10 MB, or 200,000 lines."]
    problem: Annotated[str | None, "Why it could not be read. Null: it could."]


class LastRunBody(TypedDict):
    """How a run ended."""

    outcome: Outcome
    cause: Annotated[str, "The root cause in words."]
    started_at: datetime | None
    ended_at: datetime
    logs: list[LastRunLogBody]
    logs_until: Annotated[datetime, "No log of it is kept for longer than this."]


class WorkloadStatusBody(TypedDict):
    """What was observed of it."""

    phase: Phase
    observed_generation: int
    conditions: list[Condition]
    placement: list[PlacedPodBody]
    items: Annotated[WorkloadItemsBody | None, "Of an array; null for all else."]
    replicas: Annotated[ReplicasBody | None, "Of a service that is on; null for all else."]
    queue: Annotated[WorkloadQueueBody | None, "Null unless it waits or cannot start."]
    endpoints: list[EndpointBody]
    countdown: Annotated[CountdownBody | None, "Null while it does not run or has no end."]
    ide: Annotated[IdeUseBody | None, "Of a notebook that runs; null for all else."]
    working_hours: Annotated[HoursStandingBody | None, "Null of what has none, or is over."]
    gpu_idle_since: Annotated[datetime | None, "Its devices do nothing since; null: used, or unknown."]
    utilization: Annotated[None, "See workloads/{id}/utilization."]
    cost: WorkloadCostBody
    protected_until: Annotated[datetime | None, "Until then nothing more urgent takes its devices."]
    made_from: Annotated[MadeFromBody | None, "Null: of no template."]
    next_offer: Annotated[str | None, "The offer that it takes when it starts again."]
    last_run: Annotated[LastRunBody | None, "The last that is over, also while it runs again. Null: none."]
    started_at: datetime | None
    ended_at: datetime | None


class WorkloadBody(TypedDict):
    """What a team runs."""

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


class OneTimeAddressBody(TypedDict):
    """Where a browser comes in, once."""

    url: str
    expires_at: datetime


class TerminalBody(TypedDict):
    """Where a terminal is opened, once: by a WebSocket whose first message has the code."""

    url: Annotated[str, "Of the WebSocket: ws:// or wss://."]
    code: Annotated[str, "Lets in once, until it expires: treat it as the token."]
    expires_at: datetime


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
