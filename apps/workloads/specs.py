"""What can be asked for, as frozen values that are valid once built. Pure.

`parse` (in `apps.workloads.spec.parsing`) makes a WorkloadSpec out of JSON; nothing else does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.quotas.specs import Priority
from apps.words import Word

SIMULATION_PREFIXES = ("sandbox.allotment.dev/", "pod-complete.stage.kwok.x-k8s.io/")
"""Labels of a request that steer a simulated cluster; elsewhere they are refused."""


class Kind(Word):
    """What a workload is."""

    NOTEBOOK = "notebook", "Notebook"
    JOB = "job", "Job"

    @property
    def priority(self) -> Priority:
        """The class it has unless the request names one: somebody sits before a notebook."""
        return Priority.INTERACTIVE if self is Kind.NOTEBOOK else Priority.BATCH


class Phase(Word):
    """Where a workload stands; derived from its conditions, the label is the word pages show."""

    PENDING = "Pending", "Waiting"
    STARTING = "Starting", "Starting"
    RUNNING = "Running", "Running"
    STOPPING = "Stopping", "Stopping"
    STOPPED = "Stopped", "Stopped"
    SUCCEEDED = "Succeeded", "Finished"
    FAILED = "Failed", "Failed"
    DELETING = "Deleting", "Deleting"

    @property
    def icon(self) -> str:
        """The sprite's symbol."""
        return _LOOKS[self][0]

    @property
    def tone(self) -> str:
        """The colour token."""
        return _LOOKS[self][1]

    @property
    def is_final(self) -> bool:
        """Whether it can never run again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


_LOOKS = {
    Phase.PENDING: ("hourglass", "warn"),
    Phase.STARTING: ("loader", "accent"),
    Phase.RUNNING: ("circle-play", "good"),
    Phase.STOPPING: ("circle-stop", "muted"),
    Phase.STOPPED: ("square", "muted"),
    Phase.SUCCEEDED: ("circle-check", "good"),
    Phase.FAILED: ("octagon-alert", "bad"),
    Phase.DELETING: ("circle-stop", "muted"),
}


@dataclass(frozen=True)
class Volume:
    """A volume claim that outlives every stop."""

    name: str
    size_bytes: int
    mount_path: str


class Ide(Word):
    """What a notebook serves. Its default image belongs to it."""

    JUPYTERLAB = "jupyterlab", "JupyterLab"

    @property
    def image(self) -> str:
        """The image unless the request names one."""
        return _IMAGES[self]


_IMAGES = {Ide.JUPYTERLAB: "quay.io/jupyter/pytorch-notebook:cuda12-python-3.12"}

NOTEBOOK_HOME = "/home/jovyan"
HOME_VOLUME = Volume(name="home", size_bytes=10 * 1024**3, mount_path=NOTEBOOK_HOME)
"""What a notebook gets that says nothing about volumes: work in its home survives a stop."""


@dataclass(frozen=True)
class NotebookBlock:
    """What only a notebook has."""

    ide: Ide = Ide.JUPYTERLAB


@dataclass(frozen=True)
class JobBlock:
    """What only a job has (batch/v1 Job's words)."""

    completions: int = 1
    parallelism: int = 1
    backoff_limit: int = 0


class IdleAction(Word):
    """What shall happen to it while it does nothing."""

    STOP = "stop", "Warn, count down, stop"
    WARN = "warn", "Warn only"
    NONE = "none", "Nothing (leads only)"


@dataclass(frozen=True)
class IdleWish:
    """A workload's own idle policy; without `for_seconds` it is idle after as long as its team's says."""

    action: IdleAction
    for_seconds: int | None = None


@dataclass(frozen=True)
class WorkloadSpec:
    """A request. Sizes in bytes and thousandths of a core; None: no limit.

    `count` is devices per pod. Exactly the block named like `kind` is set. CPU and memory of 0 mean "what
    comes with the devices of the offer"; `completed_with` puts the figures in before anything is stored.
    """

    kind: Kind
    offer: str
    image: str
    count: int = 1
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cpu_millis: int = 0
    memory_bytes: int = 0
    volumes: tuple[Volume, ...] = ()
    priority: Priority = Priority.BATCH
    suspend: bool = False
    max_wait_seconds: int | None = None
    max_run_seconds: int | None = None
    idle_policy: IdleWish | None = None
    notebook: NotebookBlock | None = None
    job: JobBlock | None = None

    @property
    def pods(self) -> int:
        """How many pods run at once."""
        return min(self.job.parallelism, self.job.completions) if self.job else 1

    @property
    def devices(self) -> int:
        """How many devices of the offer it holds while it runs: devices per pod x pods at once."""
        return self.count * self.pods

    def completed_with(self, *, cpu_millis: int, memory_bytes: int, run_seconds: int) -> "WorkloadSpec":
        """Fill in what was left open: CPU and memory per device of the offer, and a notebook's lease."""
        is_notebook = self.kind is Kind.NOTEBOOK
        return replace(
            self,
            cpu_millis=self.cpu_millis or cpu_millis * self.count,
            memory_bytes=self.memory_bytes or memory_bytes * self.count,
            max_run_seconds=run_seconds
            if is_notebook and self.max_run_seconds is None
            else self.max_run_seconds,
        )


@dataclass(frozen=True)
class PlacementSpec:
    """Where the manifests go: all that rendering needs besides the spec. Pure input of `manifests.render`."""

    workload_id: str
    object_name: str
    tenant: str
    namespace: str
    queue: str
    resource_name: str
    generation: int
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkloadRequest:
    """All that is asked for at once; an empty slug is made of the name, an empty name is the slug."""

    spec: WorkloadSpec
    slug: str = ""
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkloadChange:
    """The writable fields as they shall be; None leaves a field as it is."""

    spec: WorkloadSpec | None = None
    name: str | None = None
    labels: dict[str, str] | None = None


@dataclass(frozen=True)
class Usage:
    """What metering found: price per hour now, None while it holds nothing, and cost of all runs so far.

    allocated - refunded = effective + waste + unknown. None: nothing was ever held. `last_refund` is what
    was given back of the run that was lost last, which ended at `last_refund_end`.
    """

    hourly: Decimal | None
    allocated: Decimal
    as_of: datetime
    refunded: Decimal = Decimal(0)
    effective: Decimal | None = None
    waste: Decimal | None = None
    unknown: Decimal | None = None
    last_refund: Decimal | None = None
    last_refund_end: datetime | None = None


@dataclass(frozen=True)
class Idleness:
    """What metering found of a running workload: `badges` are condition facts, in the order of showing.

    `stops_at` is the end of the idle policy's countdown (None: none runs), `told` what pages and REST tell
    of it: url, message, extendable_until, extensions_left, evidence.
    """

    badges: tuple[dict[str, str], ...] = ()
    stops_at: datetime | None = None
    told: Mapping[str, Any] | None = None


class Badge(Word):
    """A condition that stands beside the phase; the label is the word pages show."""

    IDLE = "Idle", "Idle"
    HOARDER = "Hoarder", "Hoarder"
    ZOMBIE = "Zombie", "Zombie"

    @property
    def icon(self) -> str:
        """The sprite's symbol."""
        return _BADGES[self][0]

    @property
    def tone(self) -> str:
        """The colour token."""
        return _BADGES[self][1]


_BADGES = {
    Badge.IDLE: ("moon", "warn"),
    Badge.HOARDER: ("flame", "bad"),
    Badge.ZOMBIE: ("ghost", "bad"),
}
