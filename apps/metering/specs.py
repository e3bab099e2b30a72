"""The words of metering. Enums own the word that is shown."""

from typing import Self

from apps.words import Word


class Source(Word):
    """Where telemetry comes from."""

    PROMETHEUS = "prometheus", "Prometheus"
    DCGM = "dcgm", "DCGM exporter"
    AGENT = "agent", "Node agent"
    HISTORY = "history", "Imported history"


class TroubleKind(Word):
    """What may be wrong with telemetry."""

    SOURCE_SILENT = "source-silent", "Source is silent"
    EXPORTER_SILENT = "exporter-silent", "Exporter is silent"
    PROFILING_OFF = "profiling-off", "Profiling fields are off"
    OCCUPANCY_OFF = "sm-occupancy-off", "SM occupancy is off"
    PIPES_OFF = "pipes-off", "Compute pipes are off"
    FROZEN = "frozen", "Exporter repeats itself"
    STUCK_COUNTERS = "stuck-counters", "Counters stuck at 0"
    GAP = "gap", "Gap"
    UNKNOWN_HOST = "unknown-host", "Hostname of no node"
    TWO_HOMES = "two-homes", "Two exporters, one GPU"
    FOREIGN_SERIES = "foreign-series", "Foreign series"
    CLOCK_LIES = "clock-lies", "Prometheus' clock is wrong"
    CLOCK_AHEAD = "clock-ahead", "Clock is ahead"
    CLOCK_OLD = "clock-old", "Clock is behind"
    MALFORMED = "malformed", "Malformed text"
    REPEATED_SERIES = "repeated-series", "Series come twice"
    NO_DEVICE = "no-device", "Series without a GPU"
    OUT_OF_RANGE = "out-of-range", "Impossible values"
    TOO_MUCH = "too-much", "Too much at once"
    NO_PRICE = "no-price", "No price"
    IN_SHARES = "in-shares", "Device in shares"
    POOL_PARTIAL = "pool-partial", "Pool is incomplete"
    NO_START = "no-start", "Claims without a start"
    DEAD_GPU = "dead-gpu", "Dead GPU"
    MEMORY_LEFT = "memory-left", "Memory that nobody holds"


class Account(Word):
    """Whose a GPU's time was."""

    TENANT = "tenant", "Tenant"
    IDLE = "idle", "Idle"
    UNATTRIBUTED = "unattributed", "Unattributed"


class Origin(Word):
    """What made the work that held a device."""

    ALLOTMENT = "allotment", "Allotment"
    KUBECTL = "kubectl", "kubectl"


class Attribution(Word):
    """What said whose a device's time was."""

    CLAIM = "claim", "Resource claim"
    CLAIM_SEEN = "claim-seen", "Resource claim, since it was seen"
    DEVICE_PLUGIN = "device-plugin", "Device plugin"
    POD = "pod", "Pod"


class Confidence(Word):
    """How sure it is that what a device did is its holder's."""

    EXCLUSIVE = "exclusive", "Whole GPU"
    MIG = "mig", "MIG slice of its own"
    SHARED_SPLIT = "shared-split", "Shared: time is split, use is the GPU's"
    UNKNOWN = "unknown", "Which GPU is not known"
    NO_DEVICE = "none", "No GPU: nothing is measured"


class IdleReason(Word):
    """Why nobody had it."""

    FREE = "free", "Free"
    RESERVED = "reserved", "Reserved"
    CORDONED = "cordoned", "Cordoned"
    UNHEALTHY = "unhealthy", "Unhealthy"
    STRANDED = "stranded", "Stranded"


class FindingKind(Word):
    """What a detector may say of a workload."""

    HOARDER = "hoarder", "Hoarder"
    ZOMBIE = "zombie", "Zombie"
    EVASION = "evasion", "Evasion"
    FORGOTTEN = "forgotten", "Forgotten"
    OVERSIZED = "oversized", "Oversized"
    UNDERSIZED = "undersized", "Undersized"
    DATA_STARVED = "data-starved", "Data-starved"
    MEMORY_LEAK = "memory-leak", "Memory leak"
    CRASH_LOOP = "crash-loop", "Crash loop"
    SCALE_TO_ZERO = "scale-to-zero", "Could scale to zero"
    WRONG_SHARING_MODE = "wrong-sharing-mode", "Wrong sharing mode"


class FindingPhase(Word):
    """What became of a finding."""

    OPEN = "Open", "Open"
    SNOOZED = "Snoozed", "Snoozed"
    DISMISSED = "Dismissed", "Dismissed"
    ACTED = "Acted", "Stopped"
    RESOLVED = "Resolved", "Resolved"


class Advised(Word):
    """What would help against a finding."""

    STOP = "stop", "Stop it"
    RESIZE = "resize", "Take another offer"
    FEWER = "fewer", "Take fewer devices"
    FIX = "fix", "Mend the work"
    KUBECTL = "kubectl", "End it with kubectl"


class IdleMode(Word):
    """What happens to an idle allocation: each does what those before it do, and more."""

    TELL = "tell", "Tell"
    ASK = "ask", "Ask"
    COUNTDOWN = "countdown", "Count down"
    STOP = "stop", "Stop"


class LineKind(Word):
    """What a line of a statement is for."""

    GPU = "gpu", "GPU"
    CPU = "cpu", "CPU"
    MEMORY = "memory", "Memory"
    STORAGE = "storage", "Storage"
    REFUND = "refund", "Refund"
    CORRECTION = "correction", "Correction"


class Formula(Word):
    """What of a charge counts as effective. A change of what one means gets a new version; none is ever taken
    out or reworded, because closed months are judged by theirs.
    """

    MAX = "max-sm-dram", "charged x max(SM active, DRAM active), v1"
    SM_1 = "sm", "charged x SM active, v1"
    SM = "sm-2", "charged x SM active, v2"

    @classmethod
    def labelled(cls, label: str) -> Self:
        """The one with these words; raises KeyError."""
        return {each.label: each for each in cls}[label]
