"""What can be asked for, as frozen values that are valid once built. Pure.

`parse` (in `apps.workloads.spec.parsing`) makes a WorkloadSpec out of JSON; nothing else does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol

from apps.quotas.specs import Priority
from apps.words import Word
from apps.workloads.cores_specs import CoresPlace, cores_of
from apps.workloads.gateway_specs import GatewayPlace
from apps.workloads.hours_specs import WorkingHours
from apps.workloads.secret_specs import NOT_SHOWN, SecretKey, SecretWish

SIMULATION_PREFIXES = ("sandbox.allotment.dev/", "pod-complete.stage.kwok.x-k8s.io/")
"""Labels of a request that steer a simulated cluster; elsewhere they are refused."""
KINDS_PACKAGE = "apps.workloads.kinds"
"""Each module of it is a kind, named like the module."""

if TYPE_CHECKING:

    class Kind(Word):
        """The kinds that code names; which there are, the modules of KINDS_PACKAGE say."""

        NOTEBOOK = "notebook", "Notebook"
        JOB = "job", "Job"

else:
    Kind = Word(
        "Kind",
        {
            found.name.upper(): (found.name, found.name.replace("_", " ").capitalize())
            for found in iter_modules(import_module(KINDS_PACKAGE).__path__)
        },
        module=__name__,
    )
    Kind.__doc__ = "What a workload is."


def kind_choices() -> list[tuple[str, str]]:
    """For the model, so that a new kind is no new migration."""
    return Kind.choices()


class Block(Protocol):
    """What only one kind has, valid in itself."""

    @property
    def pods(self) -> int:
        """How many pods run at once."""
        ...


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
ALONE, SET = "Pod", "StatefulSet"
"""A notebook is a pod. Before decision 0161 it was a StatefulSet, and one from then stays until a stop."""
"""What a notebook gets that says nothing about volumes: work in its home survives a stop."""


class OpenTo(Word):
    """Who opens a workload in the browser, and so works with everything in it."""

    OWNER = "owner", "Its owner alone"
    TEAM = "team", "Everybody in the team"


class ImagesAllowed(Word):
    """Which images a tenant's work may have, besides those of the catalogue that are for it."""

    ANY = "any", "Any image"
    LISTED = "listed", "Images below listed registries"
    CATALOGUE = "catalogue", "No other image"


@dataclass(frozen=True)
class ImageLimits:
    """What is allowed besides the catalogue; `prefixes` count for `listed` alone."""

    allowed: ImagesAllowed = ImagesAllowed.ANY
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotebookBlock:
    """What only a notebook has."""

    ide: Ide = Ide.JUPYTERLAB
    open_to: OpenTo = OpenTo.OWNER
    hours: WorkingHours | None = None

    @property
    def pods(self) -> int:
        """One."""
        return 1


class CompletionMode(Word):
    """Whether a job's runs are alike or numbered items of an array (batch/v1 Job's words)."""

    RUNS = "NonIndexed", "Runs that are alike"
    ITEMS = "Indexed", "Items of an array"


@dataclass(frozen=True)
class JobBlock:
    """What only a job has (batch/v1 Job's words).

    `backoff_limit`: how often what fails is tried again; of an array each item, else the job as a whole.
    `items`: which items of a larger array these are, by index; empty: item n is index n.
    """

    completions: int = 1
    parallelism: int = 1
    backoff_limit: int = 0
    completion_mode: CompletionMode = CompletionMode.RUNS
    max_failed_indexes: int | None = None
    items: tuple[int, ...] = ()

    @property
    def pods(self) -> int:
        """As many as run at once."""
        return min(self.parallelism, self.completions)

    @property
    def is_array(self) -> bool:
        """Whether each of its runs has a number of its own."""
        return self.completion_mode is CompletionMode.ITEMS

    @property
    def numbered(self) -> tuple[int, ...]:
        """The item of each index; nothing where its runs are alike."""
        return (self.items or tuple(range(self.completions))) if self.is_array else ()


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

    `count` is devices per pod; 0 asks for cores of an offer without a GPU, which `cpu_millis` tells. `block`
    is what only its kind has. CPU and memory of 0 mean what comes with the devices, or the fewest cores; the
    figures are put in before anything is stored (`reading.completed`).
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
    block: Block = field(default_factory=JobBlock)

    @property
    def job(self) -> JobBlock | None:
        """The block of a job; None for any other kind."""
        return self.block if isinstance(self.block, JobBlock) else None

    @property
    def notebook(self) -> NotebookBlock | None:
        """The block of a notebook; None for any other kind."""
        return self.block if isinstance(self.block, NotebookBlock) else None

    @property
    def open_to(self) -> OpenTo | None:
        """Who opens it; None for a kind that nobody opens."""
        return getattr(self.block, "open_to", None)

    @property
    def pods(self) -> int:
        """How many pods run at once."""
        return self.block.pods

    @property
    def devices(self) -> int:
        """How many devices, or cores, of the offer it holds while it runs: those of a pod x pods at once."""
        return self.per_pod * self.pods

    @property
    def per_pod(self) -> int:
        """Devices of the offer in each pod; of an offer without a GPU, cores."""
        return self.count or cores_of(self.cpu_millis)

    def completed_with(
        self, *, cpu_millis: int, memory_bytes: int, run_seconds: int | None
    ) -> "WorkloadSpec":
        """Fill in what was left open: CPU and memory per device of the offer, and the lease (None: none)."""
        return replace(
            self,
            cpu_millis=self.cpu_millis or cpu_millis * self.count,
            memory_bytes=self.memory_bytes or memory_bytes * self.count,
            max_run_seconds=run_seconds if self.max_run_seconds is None else self.max_run_seconds,
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
    ide_token: str = NOT_SHOWN
    """Only the reconcile puts the real one in: what people are shown is rendered without it."""
    named_by: str = ""
    """The headless Service that names the pod of a notebook's StatefulSet; empty where it has none."""
    keeps_image: bool = False
    """Whether a node may start an image by digest that it has without asking its registry."""
    pull_secret: str = ""
    """The Secret with which its image is pulled; empty for none."""
    secrets: tuple[SecretKey, ...] = ()
    """The secrets that the pods of the present run name."""
    secret_values: Mapping[str, str] | None = field(default=None, repr=False)
    """What is in them, by name, and whatever else is there; only the reconcile knows. None: not shown."""
    cores: CoresPlace | None = None
    gateway: GatewayPlace | None = None


@dataclass(frozen=True)
class WorkloadRequest:
    """All that is asked for at once; an empty slug is made of the name, an empty name is the slug.

    `template` and its version: what it is made from, by slug; only `templates.services.making` names them.
    `like`: the id of the workload that it is a copy of, whose secrets it gets where both have one owner.
    """

    spec: WorkloadSpec
    slug: str = ""
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    template: str = ""
    template_version: int | None = None
    secrets: tuple[SecretWish, ...] = ()
    like: str = ""


@dataclass(frozen=True)
class WorkloadChange:
    """The writable fields as they shall be; None leaves a field as it is. `restart`: what runs may be ended
    and started again, where the change needs it. `seen`: the generation that it was made of.
    """

    spec: WorkloadSpec | None = None
    name: str | None = None
    labels: dict[str, str] | None = None
    restart: bool = False
    seen: int | None = None


@dataclass(frozen=True)
class Usage:
    """What metering found: price per hour now, None while it holds nothing, and cost of all runs so far.

    allocated - refunded = effective + waste + unknown; `recoverable` is a part of the waste. None:
    nothing was ever held. `last_refund` is what was given back of the run that was lost last, which ended at
    `last_refund_end`.
    """

    hourly: Decimal | None
    allocated: Decimal
    as_of: datetime
    refunded: Decimal = Decimal(0)
    effective: Decimal | None = None
    waste: Decimal | None = None
    recoverable: Decimal | None = None
    unknown: Decimal | None = None
    last_refund: Decimal | None = None
    last_refund_end: datetime | None = None


@dataclass(frozen=True)
class Idleness:
    """What metering found of a running workload: `badges` are condition facts, in the order of showing.

    `stops_at` is the end of the idle policy's countdown (None: none runs), `told` what pages and REST tell
    of it: url, message, extendable_until, extensions_left, evidence. `since`: its devices do nothing.
    """

    badges: tuple[dict[str, str], ...] = ()
    stops_at: datetime | None = None
    told: Mapping[str, Any] | None = None
    since: datetime | None = None


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


_BADGES = {Badge.IDLE: ("moon", "warn"), Badge.HOARDER: ("flame", "bad"), Badge.ZOMBIE: ("ghost", "bad")}
