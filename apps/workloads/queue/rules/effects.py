"""What moving, holding or releasing something would change in its queue, told before it is done. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.words import Word, ordinal

MOST_NAMES = 3


class Arrangement(Word):
    """What a platform engineer may do to something that waits."""

    FRONT = "front", "Move to the front"
    USUAL = "usual", "Back to its usual place"
    HOLD = "hold", "Hold"
    RELEASE = "release", "Release"


@dataclass(frozen=True)
class Standing:
    """One in a queue; `usual` is the priority it has of itself, `place` sorts those of equal priority."""

    name: str
    priority: int
    usual: int
    place: str


@dataclass(frozen=True)
class Effect:
    """Places are 1 for the next one, None for what does not queue; `sentences` say it all."""

    before: int | None
    after: int | None
    of: int
    priority: int
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Queue:
    """The queue around one entry, in figures: it may be too long to list.

    `before` is its place (None: it is held), `others` how many stand there besides it; `first` the next one
    of those. `ahead_at` counts those ahead of a priority, with its own age; `between` names who is passed,
    the first few of them in the queue's order, and how many they are.
    """

    before: int | None
    others: int
    first: Standing | None
    ahead_at: Callable[[int], int]
    between: Callable[[int], tuple[Sequence[str], int]]


def priority_of(arrangement: Arrangement, own: Standing, first: Standing | None) -> int:
    """What its priority becomes; `first` is the next one of the others.

    RULE: the front is one more than the highest priority there.
    """
    if arrangement is Arrangement.USUAL:
        return own.usual
    if arrangement is not Arrangement.FRONT or first is None or _order(own) < _order(first):
        return own.priority
    return max(first.priority + 1, own.priority)


def effect(arrangement: Arrangement, own: Standing, queue: Queue) -> Effect:
    """Both places, who is passed, and what a higher priority may take."""
    priority, held = priority_of(arrangement, own, queue.first), queue.before is None
    leaves = arrangement is Arrangement.HOLD or (held and arrangement is not Arrangement.RELEASE)
    after = None if leaves else queue.ahead_at(priority) + 1
    of = queue.others + (after is not None)
    told = [_journey(own.name, queue.before, after, of), _passed(own, priority, queue)]
    if arrangement is Arrangement.HOLD:
        told.append("It keeps its age, so it returns to its place when it is released. Nothing is lost.")
    if priority > own.priority:
        told.append(
            f"Its priority becomes {priority} (now {own.priority}): Kueue may also take devices for it that "
            "its tenant has lent to less urgent work of others."
        )
    return Effect(queue.before, after, of, priority, tuple(filter(None, told)))


def _order(standing: Standing) -> tuple[int, str]:
    return -standing.priority, standing.place


def _journey(name: str, before: int | None, after: int | None, of: int) -> str:
    if after is None:
        return f"{name} stops waiting{f', {ordinal(before)} until now' if before else ''}: it will not start."
    if before is None:
        return f"{name} waits again, {ordinal(after)} of {of}."
    if before == after:
        return f"{name} stays {ordinal(after)} of {of}."
    return f"{name} goes from {ordinal(before)} to {ordinal(after)} of {of}."


def _passed(own: Standing, priority: int, queue: Queue) -> str:
    """Those who wait longer for it, or less."""
    if priority == own.priority:
        return ""
    names, count = queue.between(priority)
    if not count:
        return ""
    rest = count - len(names)
    shown = ", ".join(names)
    more = f" and {rest} more" if rest > 0 else ""
    return f"{shown}{more} one place {'later' if priority > own.priority else 'sooner'}."
