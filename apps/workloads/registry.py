"""What a kind of work says of itself, and where it is found: by the name of its module. Pure.

`apps.workloads.kinds` is above parsing, rendering and status, which ask here: nothing imports a kind by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from apps.quotas.specs import Priority
from apps.ranges import AT_ONCE, Range
from apps.words import Word
from apps.workloads.purpose_specs import Purpose
from apps.workloads.specs import KINDS_PACKAGE, Block, Kind, PlacementSpec, Volume, WorkloadSpec

if TYPE_CHECKING:
    from apps.workloads.spec.field_reader import Reader

Body = Mapping[str, Any]
Manifest = dict[str, Any]
MODULE_NAME = "KIND"
"""The name that a kind's module gives its definition."""


class Takes(Word):
    """What is typed into a field, and what of the request it becomes."""

    TEXT = "text", "A text, as it is"
    NUMBER = "number", "A whole number"
    CHOICE = "choice", "One of its choices"
    SHELL = "shell", "A line for sh: becomes a command"
    DISK = "disk", "A size: becomes a volume"
    DAYS = "days", "Days such as Mon-Fri: a list of them"
    CLOCK = "clock", "A time such as 8 or 8:30"


@dataclass(frozen=True)
class FormField:
    """A field that only this kind's form has. `at`: where in the spec its value goes, such as
    `job/completions`. One that is `unless` another is left out when that other is filled in.
    """

    name: str
    at: str
    label: str
    help: str = ""
    initial: str = ""
    takes: Takes = Takes.TEXT
    choices: tuple[tuple[str, str], ...] = ()
    longest: int = 40
    is_short: bool = True
    is_advanced: bool = False
    unless: str = ""
    volume: Volume | None = None
    """Of a disk: what it is and where it is mounted; its size is typed."""
    usual: Callable[[Body], Any] | None = None
    """What a request has there, from the rest of it, where nothing is typed and it is no fixed value."""


COMMAND = FormField(
    "command",
    "command",
    "Command",
    "It runs in sh. Empty: the image's own command.",
    takes=Takes.SHELL,
    longest=32 * 1024,
    is_short=False,
)
"""For every kind that runs what people write."""


@dataclass(frozen=True)
class Ends:
    """The conditions by which a kind's controller says that it has ended, well or not."""

    done: str = "Complete"
    failed: str = "Failed"


def _runs(pod: Body) -> bool:
    """What is being removed belongs to a try that is over; on a lost node it goes for ever."""
    is_leaving = bool(pod.get("metadata", {}).get("deletionTimestamp"))
    return not is_leaving and pod.get("status", {}).get("phase") in ("Running", "Succeeded")


def _any(ready: int, _wanted: int) -> bool:
    return ready > 0


def _nothing(*_: Any) -> None:
    """A kind without a rule of its own."""


def _as_it_is(block: Body) -> Body:
    return block


def _block(block: Block, _spec: WorkloadSpec) -> Block:
    return block


@dataclass(frozen=True)
class Definition:
    """A kind of work. What it leaves out is as of a job: it waits in the queue, runs to its end, and leaves.

    `order` is its place among the cards, `icon` a symbol of the sprite, `about` the card's sentence.
    `controller` is the Kubernetes kind that makes its pods and that Kueue queues; `needs` the capability
    without which a cluster cannot run it.
    """

    order: int
    icon: str
    about: str
    controller: str
    wish: type
    """The TypedDict of its block in a request, and, as `body`, in an answer."""
    body: type
    parse: Callable[["Reader"], Block]
    as_json: Callable[[Any], Mapping[str, Any]]
    build: Callable[[WorkloadSpec, PlacementSpec], list[Manifest]]
    """Everything but the volume claims, which are shared."""
    fields: tuple[FormField, ...] = ()
    complete: Callable[[Any, WorkloadSpec], Block] = _block
    """The block with what follows from the rest of the request."""
    image: Callable[[Any], str] | None = None
    """The image of one that names none; without it an image is required."""
    image_hint: str = "Such as registry.example/team/train:1."
    volumes: tuple[Volume, ...] = ()
    """What one gets that says nothing about volumes."""
    priority: Priority = Priority.BATCH
    refuse: Callable[["Reader", Any, WorkloadSpec], None] = _nothing
    """Refuses what does not go together, once the whole is read."""
    as_made: Callable[[Body], Body] = _as_it_is
    """A block that was stored in words of before, in today's."""
    is_ready: Callable[[Body], bool] = _runs
    """Whether one of its pods does what it is for."""
    runs: Callable[[int, int], bool] = _any
    """Whether it runs, by how many of its pods are ready and how many there should be."""
    ends: Ends = field(default_factory=Ends)
    is_leased: bool = False
    """The portal stops it, after the longest run at the latest."""
    time_is_ours: bool = False
    """Its controller keeps no time limit that could be moved: the portal stops it at its end."""
    shares_volumes: bool = False
    """Pods on several nodes mount its volumes."""
    opens: bool = False
    """It has a page that people open."""
    port: Callable[[Any], int] | None = None
    """Where its pods answer, by its block; of whatever opens."""
    begins_again: bool = False
    """It is never done: what runs may be ended and started again."""
    rolls: tuple[str, ...] = ()
    """Fields of a request that may change while it runs, because its controller replaces pod by pod."""
    reserves: tuple[str, ...] = ()
    """Variables that only the platform sets; one that ends in `_` stands for all that begin so."""
    needs: str = ""
    purpose: Purpose = Purpose.BATCH
    """What it is for, as far as the choice of an offer depends on it."""
    several: str = ""
    """The field of its block, and of its form, that says how many pods run at once; "": always one."""
    at_once: Range = AT_ONCE
    """How many that may be."""


@cache
def of(kind: Kind | str) -> Definition:
    """The definition of a kind."""
    found = getattr(import_module(f"{KINDS_PACKAGE}.{kind}"), MODULE_NAME)
    if not isinstance(found, Definition):
        raise TypeError(f"{KINDS_PACKAGE}.{kind}.{MODULE_NAME} is no Definition")
    return found


@cache
def reserved_variables() -> tuple[str, ...]:
    """What any kind reserves: a value that is set beside a request must fit whatever the request becomes."""
    return tuple(dict.fromkeys(name for kind in Kind for name in of(kind).reserves))


def is_reserved(name: str, reserved: tuple[str, ...]) -> bool:
    """Whether a variable is one of these, or begins as one of them that ends in `_`."""
    return any(name == each or (each.endswith("_") and name.startswith(each)) for each in reserved)


@cache
def in_order() -> tuple[Kind, ...]:
    """Every kind, as people choose among them."""
    return tuple(sorted(Kind, key=lambda kind: of(kind).order))
