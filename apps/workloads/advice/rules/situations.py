"""What is asked for, what there is to have, and the shape of the answer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import floor

from apps.quotas.specs import SharingMode
from apps.words import Word
from apps.workloads.advice.rules.models import Model, Task
from apps.workloads.purpose_specs import Purpose
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.situation import Holder

USUAL_SECONDS = 3 * 3600
ISOLATED = "No other may reach its memory or take it down with it: MIG or a whole GPU."
"""What is meant by isolated, wherever it is asked for or judged."""


@dataclass(frozen=True)
class Need:
    """What somebody needs. `memory_bytes` is GPU memory for each of `at_once`; of a `model` it follows from
    it. `is_alone`: it is isolated (`ISOLATED`). `is_thrifty`: it may start later if it costs less.
    """

    purpose: Purpose
    memory_bytes: int
    at_once: int = 1
    seconds: int = USUAL_SECONDS
    may_be_interrupted: bool = False
    is_alone: bool = False
    is_thrifty: bool = False
    model: Model | None = None

    @property
    def trains(self) -> bool:
        """Whether weights are trained, whatever kind of work does it."""
        is_tuned = self.model is not None and self.model.task is not Task.INFERENCE
        return self.purpose is Purpose.TRAINING or is_tuned


@dataclass(frozen=True)
class Facts:
    """An offer as the fleet and the quota have it now. Counts are devices of the offer.

    `places` are those free on each node, `largest` what one node has at all (0: not looked up). `reachable`
    is the most that the tenant could ever hold, `available` what quota lets it take now. `refused` says why
    the tenant may not use it. `starts` is when the need would start on it, where it waits and that is known.
    """

    slug: str
    name: str
    mode: SharingMode
    memory_bytes: int
    capacity: int
    places: tuple[int, ...]
    largest: int
    reachable: int
    available: int
    share: Fraction = Fraction(1)
    memory_share: Fraction = Fraction(0)
    is_spot: bool = False
    refused: str = ""
    starts: Interval | None = None
    holders: tuple[Holder, ...] = ()

    @property
    def slices(self) -> int:
        """Into how many of these one GPU is cut, by what is scarcer: its compute or its memory."""
        most = max(self.share, self.memory_share)
        return max(1, floor(1 / most)) if most else 1


@dataclass(frozen=True)
class Fleet:
    """Every offer that the tenant's cluster has, at a moment."""

    offers: tuple[Facts, ...]
    at: datetime


@dataclass(frozen=True)
class Prices:
    """What a device costs the tenant per hour, by the offer's slug; absent: no price is in force."""

    hourly: Mapping[str, Decimal]
    currency: str


@dataclass(frozen=True)
class Policies:
    """What is decided about the tenant. `blocked` says why nothing new starts, whatever is free."""

    tenant: str
    blocked: str = ""


class Start(Word):
    """When something would start."""

    NOW = "now", "Starts now"
    LATER = "later", "Starts later"
    UNKNOWN = "unknown", "Start unknown"


class Why(Word):
    """Why an offer is left out, the nearest to being had first."""

    TOO_MANY = "too_many", "More than the quota reaches"
    NO_QUOTA = "no_quota", "No quota"
    NOT_THERE = "not_there", "None in the fleet"
    TAKEN_AWAY = "taken_away", "May be taken away"
    NOT_ISOLATED = "not_isolated", "Not isolated"
    NOT_ALLOWED = "not_allowed", "Not allowed"
    TOO_WIDE = "too_wide", "More than one node has"
    MEMORY = "memory", "Too little memory"


BY_QUOTA = (Why.TOO_MANY, Why.NO_QUOTA)
"""What more quota would change."""


@dataclass(frozen=True)
class Ranked:
    """An offer that would do. `each` devices for one of what is needed, `devices` in all; `hourly` and
    `total` are for all of them. `warnings` name a usual mistake: such an offer ranks behind the others.
    """

    offer: Facts
    each: int
    devices: int
    hourly: Decimal | None
    total: Decimal | None
    start: Start
    start_words: str
    speaks_for: tuple[str, ...]
    speaks_against: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """An offer that would not do, and why."""

    offer: Facts
    why: Why
    words: str


@dataclass(frozen=True)
class Line:
    """One way to have the same, in the comparison of small whole GPUs with slices of a large one."""

    offer: Facts
    devices: int
    hourly: Decimal
    words: str


@dataclass(frozen=True)
class Comparison:
    """The cheapest first; `words` say what follows."""

    lines: tuple[Line, ...]
    words: str


@dataclass(frozen=True)
class Advice:
    """The answer. `usual` is what is usually advised in such a situation and why; `nearest` what comes
    closest where nothing fits.
    """

    need: Need
    situation: str
    usual: str
    ranked: tuple[Ranked, ...]
    left_out: tuple[LeftOut, ...]
    comparison: Comparison | None = None
    nearest: LeftOut | None = field(default=None)
