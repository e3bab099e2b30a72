"""The facts that the words of waiting are made from, and the shape of the answer. Pure.

How they become words: `apps.workloads.waiting.rules.explain`; who gathers them: `selectors.waiting`.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from apps.quotas.catalogue.rules.room import Room
from apps.words import Word
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.node_room import Unplaced
from apps.workloads.waiting.rules.smaller import Smaller


class Cause(Word):
    """What keeps it from starting; the first that holds, in this order."""

    CLUSTER_SILENT = "ClusterSilent", "The cluster does not answer"
    KUEUE_SILENT = "KueueSilent", "Kueue does not answer"
    INCOMPLETE = "Incomplete", "The cluster lacks something"
    HELD = "Held", "Held by a platform engineer"
    BUDGET = "Budget", "The budget is spent"
    SUSPENDED = "Suspended", "The tenant is suspended"
    TENANT_HELD = "TenantHeld", "The tenant's queue is held"
    CLOSED = "Closed", "Its offer is closed to the tenant"
    IMAGE = "Image", "Its image cannot be used"
    VOLUME = "Volume", "Its disk cannot be used"
    WARNED = "Warned", "The cluster warns of its pod"
    DEACTIVATED = "Deactivated", "Kueue took it out of its queue"
    CHECKED = "AdmissionCheck", "It waits for a check of the cluster"
    SENT_BACK = "SentBack", "Kueue sent it back and waits"
    NOT_TAKEN_IN = "NotTakenIn", "Kueue takes it into no queue"
    TOO_LARGE = "TooLarge", "Larger than it can ever get"
    FITS_NO_NODE = "FitsNoNode", "Admitted, but fits no node"
    REFUSED = "Refused", "The cluster refused it"
    ON_ITS_WAY = "OnItsWay", "On its way into the queue"
    RECLAIMED = "Reclaimed", "Borrowed devices were taken back"
    PREEMPTED = "Preempted", "Something more urgent took its place"
    QUOTA_USED = "QuotaUsed", "The tenant's quota is used up"
    LENT = "Lent", "The tenant's own devices are lent"
    NONE_TO_LEND = "NoneToLend", "Nobody has any to lend"
    NODE_DOWN = "NodeDown", "A node is out of service"
    FRAGMENTED = "Fragmented", "What is free does not lie together"
    NO_DEVICE = "NoDevice", "No such device is free"
    BEHIND = "Behind", "Others are ahead"
    NEXT = "Next", "It is next"


@dataclass(frozen=True)
class Holder:
    """Who holds devices of the offer; `tenant` None: another department's; `until`: when the first ends."""

    tenant: str | None
    offer: str
    count: int
    until: datetime | None = None


@dataclass(frozen=True)
class Alternative:
    """An offer that would start now instead; `hourly` is for all its devices."""

    offer: str
    name: str
    hourly: Decimal | None
    currency: str = ""


@dataclass(frozen=True)
class Stop:
    """What somebody or something decided; `words` are whole sentences: what, since when, who changes it.
    `frees` are those of them that say what ends it. `is_of_its_offer`: another offer gets around it.
    """

    cause: Cause
    words: str
    frees: str
    is_of_its_offer: bool = False


@dataclass(frozen=True)
class Refund:
    """What the ledger gives back of the run that was lost; None: it has not counted it yet."""

    amount: Decimal | None
    currency: str


@dataclass(frozen=True)
class Eviction:
    """It ran, or was about to, and had to give its devices back (Kueue's condition Evicted). Nobody is told
    of a refund of what was made with kubectl: there is none.
    """

    cause: Cause
    at: datetime
    refund: Refund | None = None


@dataclass(frozen=True)
class Situation:
    """Everything that the words are made from. Counts are devices of the offer.

    `reachable` is the most the tenant could hold, `available` what quota lets it take now, `lent` what of its
    guarantee others hold; `per_pod` must lie on one node. `admitted`: Kueue has let it in, its pod cannot
    start; `unplaced`: for want of a node. `reason` and `message` are the cluster's own.
    """

    tenant: str
    department: str
    offer: str
    offer_name: str
    asked: int
    reachable: int
    own_used: int
    per_pod: int = 1
    nominal: int = 0
    available: int = 0
    lent: int = 0
    reason: str = ""
    message: str = ""
    position: int | None = None
    of: int | None = None
    holders: tuple[Holder, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    smaller: Smaller | None = None
    cluster: str = ""
    silent_since: datetime | None = None
    kueue_silent: bool = False
    lack: Stop | None = None
    stop: Stop | None = None
    trouble: Stop | None = None
    refused: Stop | None = None
    eviction: Eviction | None = None
    room: Room | None = None
    admitted: bool = False
    unplaced: Unplaced | None = None
    starts: Interval | None = None


@dataclass(frozen=True)
class View:
    """Who reads it: the tenants it may be told of (None: all), and whether it may be told of nodes."""

    named: frozenset[str] | None = None
    knows_nodes: bool = True


@dataclass(frozen=True)
class Explanation:
    """The answer to "why is it waiting?". `frees` says what would end the wait, `detail` is the cluster's own
    message, `starts` is None where nothing is known.
    """

    headline: str
    cause: Cause
    sentences: tuple[str, ...]
    frees: str
    position: int | None
    of: int | None
    starts: Interval | None
    holders: tuple[Holder, ...]
    alternatives: tuple[Alternative, ...]
    reason: str
    detail: str
    smaller: Smaller | None = None
