"""The words of quota and the frozen shapes its manifests and its ledger work on. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from apps.tenants.specs import Suspend, TrustLevel
from apps.words import Word

RESOURCE_PREFIX = "allotment.dev/"
CORES_PREFIX = "cpu/"
"""Of the name under which the cores of a flavor are counted: `cpu/<the ResourceFlavor's name>`."""
CORE_MILLIS = 1000
GPU_NODE_LABELS = ("nvidia.com/gpu.product", "nvidia.com/gpu.present")
"""By either of which GPU feature discovery marks a node that has GPUs."""
MOST_OFFERS_PER_QUEUE = 62
"""Kueue allows 64 resources per group; cpu and memory take two."""


class SharingMode(Word):
    """How one physical GPU is divided, and what that isolates."""

    EXCLUSIVE = "exclusive", "Whole GPU"
    MIG = "mig", "MIG slice"
    MPS = "mps", "MPS"
    TIME_SLICING = "time-slicing", "Time-sliced"
    FRACTION = "fraction", "Fraction"
    NO_DEVICE = "none", "No GPU"

    @property
    def isolation(self) -> str:
        """What the page says under the offer."""
        return _ISOLATION[self]

    @property
    def isolates_memory(self) -> bool:
        """Whether another tenant on the same device can neither read nor exhaust the memory."""
        return self in (SharingMode.EXCLUSIVE, SharingMode.MIG, SharingMode.NO_DEVICE)

    @property
    def least_trust(self) -> TrustLevel:
        """How far a tenant must be trusted at least, whatever an offer says: less isolation asks for more
        trust.
        """
        return _LEAST_TRUST[self]


_ISOLATION = {
    SharingMode.EXCLUSIVE: "Memory and faults isolated",
    SharingMode.MIG: "Memory and faults isolated",
    SharingMode.MPS: "Memory limited, faults shared",
    SharingMode.TIME_SLICING: "Nothing isolated",
    SharingMode.FRACTION: "Soft limit",
    SharingMode.NO_DEVICE: "Memory limited by the container",
}
_LEAST_TRUST = {
    SharingMode.EXCLUSIVE: TrustLevel.UNTRUSTED,
    SharingMode.MIG: TrustLevel.UNTRUSTED,
    SharingMode.MPS: TrustLevel.STANDARD,
    SharingMode.TIME_SLICING: TrustLevel.STANDARD,
    SharingMode.FRACTION: TrustLevel.TRUSTED,
    SharingMode.NO_DEVICE: TrustLevel.UNTRUSTED,
}


class Priced(Word):
    """What the book has prices for, and per what: a device of an offer, a core, a GiB."""

    GPU = "gpu", "GPU"
    CPU = "cpu", "CPU"
    MEMORY = "memory", "Memory"
    STORAGE = "storage", "Storage"

    @property
    def unit(self) -> str:
        """Per what an hour is charged."""
        return {"gpu": "device", "cpu": "core"}.get(self.value, "GiB")


class CapacityType(Word):
    """How the node was bought, as its label `karpenter.sh/capacity-type` says."""

    ON_DEMAND = "on-demand", "On demand"
    SPOT = "spot", "Spot"


class Priority(Word):
    """How early work is served and who may take its devices back; a WorkloadPriorityClass of that name."""

    INTERACTIVE = "interactive", "Interactive"
    BATCH = "batch", "Batch"
    PREEMPTIBLE = "preemptible", "Preemptible"
    PROTECTED = "protected", "Protected"

    @property
    def rank(self) -> int:
        """Kueue's value: whoever has the higher one is served first and may take lent devices back."""
        return _RANKS[self]

    @property
    def sentence(self) -> str:
        """What it means for the work that has it."""
        return _PRIORITIES[self]


_RANKS = {
    Priority.PREEMPTIBLE: 100,
    Priority.BATCH: 500,
    Priority.INTERACTIVE: 1000,
    Priority.PROTECTED: 10_000,
}
_PRIORITIES = {
    Priority.PREEMPTIBLE: "Served last; gives borrowed devices back to any other class.",
    Priority.BATCH: "The usual for jobs; gives borrowed devices back to interactive and protected work.",
    Priority.INTERACTIVE: "The usual for notebooks; served before batch work.",
    Priority.PROTECTED: "Keeps what it borrows at the start of a run, then counts as usual for its kind.",
}
RECLAIM_SENTENCE = (
    "A tenant takes its lent devices back only from work of a lower priority class, and never from work that "
    "runs within its own tenant's guarantee; what is preempted gets 30 seconds' notice and waits again."
)
"""The reclaim policy in words: reclaimWithinCohort LowerPriority, withinClusterQueue Never."""


class HoldReason(Word):
    """Why a tenant's queue admits nothing new; of several, the one that ranks first here is told."""

    NONE = "none", "Not held"
    SUSPENDED = "suspended", "Suspended"
    BUDGET = "budget", "Budget spent"
    MANUAL = "manual", "Held by hand"


class RequestKind(Word):
    """What a quota request asks for."""

    GUARANTEED = "guaranteed", "Guaranteed"
    BORROW = "borrow", "May borrow"


class RequestStatus(Word):
    """Where a quota request stands; all but open are final."""

    OPEN = "open", "Open"
    APPROVED = "approved", "Approved"
    DECLINED = "declined", "Declined"
    WITHDRAWN = "withdrawn", "Withdrawn"


class BudgetUnit(Word):
    """In what a budget counts: the currency, or hours of physical GPUs (a slice of 1/7 counts 1/7)."""

    MONEY = "money", "Money"
    GPU_HOURS = "gpu_hours", "GPU-hours"


class Mechanism(Word):
    """What in the cluster hands out what is offered."""

    DRA = "dra", "Dynamic Resource Allocation"
    DEVICE_PLUGIN = "device-plugin", "Device plugin"
    NODE = "node", "the nodes themselves"


@dataclass(frozen=True)
class FlavorSpec:
    """A ResourceFlavor to be."""

    id: str
    object_name: str
    generation: int
    node_labels: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True)
class OfferSpec:
    """A DeviceClass to be. `model` is the device attribute productName, `profile` the MIG profile or ""."""

    id: str
    object_name: str
    resource_name: str
    generation: int
    model: str
    profile: str


@dataclass(frozen=True)
class OfferQuota:
    """One tenant's quota of one offer, with the CPU and memory that come with each device. `is_cores`: it has
    no device, and all amounts are cores.

    `offer` is the offer's name as people read it, `flavor` the ResourceFlavor's name. `cohort_total` is what
    the whole department is guaranteed; it bounds a tenant whose `borrowing_limit` is None. `closed`: the
    tenant may start nothing on it (its trust level, or the offer is switched off), and all of its guarantee
    is for others.
    """

    offer: str
    resource_name: str
    flavor: str
    nominal: int
    borrowing_limit: int | None
    lending_limit: int | None
    cpu_millis: int = 0
    memory_bytes: int = 0
    cohort_total: int = 0
    closed: bool = False
    is_cores: bool = False

    @property
    def most(self) -> int:
        """The devices that the tenant's own limits let it hold at once."""
        if self.borrowing_limit is None:
            return max(self.nominal, self.cohort_total)
        return self.nominal + self.borrowing_limit

    @property
    def lendable(self) -> int:
        """What of the guarantee others may use while it is idle."""
        if self.closed:
            return self.nominal
        return self.nominal if self.lending_limit is None else min(self.lending_limit, self.nominal)


@dataclass(frozen=True)
class GrantSpan:
    """More guarantee of one offer in [starts_at, ends_at)."""

    count: int
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class QueueSpec:
    """A tenant's ClusterQueue and what goes with it in the namespace; the latter only once that is there.

    `held`: the LocalQueue admits nothing new, whoever made it; running work continues. `not_given` names the
    resources of the cluster's other offers: the tenant may have none of them.
    """

    id: str
    tenant: str
    object_name: str
    cohort: str
    generation: int
    suspend: Suspend
    quotas: tuple[OfferQuota, ...]
    namespace_is_there: bool = True
    held: bool = False
    fair_weight: Decimal = Decimal(1)
    not_given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Money:
    """An amount in the installation's currency; up to 8 decimals, rounded only on statements."""

    amount: Decimal
    currency: str
