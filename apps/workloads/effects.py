"""What moving, holding or releasing something would change in its queue, told before it is done. Pure."""

from collections.abc import Sequence
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


def effect(arrangement: Arrangement, own: Standing, others: Sequence[Standing], *, held: bool) -> Effect:
    """`others` stand in the same queue. RULE: the front is one more than the highest priority there."""
    queue = sorted((*others, own), key=_order)
    before = None if held else queue.index(own) + 1
    priority = _priority(arrangement, own, others)
    moved = Standing(own.name, priority, own.usual, own.place)
    now_at = sorted((*others, moved), key=_order).index(moved) + 1
    leaves = arrangement is Arrangement.HOLD or (held and arrangement is not Arrangement.RELEASE)
    after = None if leaves else now_at
    told = [
        _journey(own.name, before, after, len(others) + (after is not None)),
        *_passed(own, moved, others),
    ]
    if arrangement is Arrangement.HOLD:
        told.append("It keeps its age, so it comes back to its place when it is released. Nothing is lost.")
    if priority > own.priority:
        told.append(
            f"Its priority becomes {priority} (now {own.priority}): Kueue may also take devices for it that "
            "its tenant has lent to less urgent work of others."
        )
    return Effect(before, after, len(others) + (after is not None), priority, tuple(filter(None, told)))


def _order(standing: Standing) -> tuple[int, str]:
    return -standing.priority, standing.place


def _priority(arrangement: Arrangement, own: Standing, others: Sequence[Standing]) -> int:
    if arrangement is Arrangement.USUAL:
        return own.usual
    highest = max((other.priority for other in others), default=own.priority)
    is_first = all(_order(own) < _order(other) for other in others)
    if arrangement is not Arrangement.FRONT or is_first:
        return own.priority
    return max(highest + 1, own.priority)


def _journey(name: str, before: int | None, after: int | None, of: int) -> str:
    if after is None:
        return f"{name} stops waiting{f', {ordinal(before)} until now' if before else ''}: it will not start."
    if before is None:
        return f"{name} waits again, {ordinal(after)} of {of}."
    if before == after:
        return f"{name} stays {ordinal(after)} of {of}."
    return f"{name} goes from {ordinal(before)} to {ordinal(after)} of {of}."


def _passed(own: Standing, moved: Standing, others: Sequence[Standing]) -> list[str]:
    """Those who wait longer for it, and those who wait less."""
    later = [o.name for o in others if _order(own) > _order(o) > _order(moved)]
    sooner = [o.name for o in others if _order(own) < _order(o) < _order(moved)]
    return [
        f"{_named(names)} {words}."
        for names, words in ((later, "one place later"), (sooner, "one place sooner"))
        if names
    ]


def _named(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {rest} more" if rest > 0 else shown
