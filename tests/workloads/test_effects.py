"""What a move, a hold and a release would change, told beforehand."""

from collections.abc import Sequence

from apps.workloads.queue.rules.effects import MOST_NAMES, Arrangement, Effect, Queue, Standing
from apps.workloads.queue.rules.effects import effect as effect_in

QUEUE = [Standing(name, 500, 500, f"t{place}") for place, name in enumerate("abcdef")]


def key(each: Standing, priority: int) -> tuple[int, str]:
    return -priority, each.place


def effect(arrangement: Arrangement, own: Standing, others: Sequence[Standing], *, held: bool) -> Effect:
    """In a queue that is short enough to be listed."""

    def ahead_at(priority: int) -> int:
        return sum(key(other, other.priority) < key(own, priority) for other in others)

    def between(priority: int) -> tuple[list[str], int]:
        low, high = sorted((key(own, own.priority), key(own, priority)))
        names = [other.name for other in others if low < key(other, other.priority) < high]
        return names[:MOST_NAMES], len(names)

    before = None if held else ahead_at(own.priority) + 1
    first = min(others, key=lambda other: key(other, other.priority), default=None)
    return effect_in(arrangement, own, Queue(before, len(others), first, ahead_at, between))


def others(name: str) -> list[Standing]:
    return [each for each in QUEUE if each.name != name]


def test_a_move_to_the_front_names_whom_it_passes_and_what_its_priority_may_take() -> None:
    found = effect(Arrangement.FRONT, QUEUE[4], others("e"), held=False)
    assert (found.before, found.after, found.of, found.priority) == (5, 1, 6, 501)
    assert found.sentences[:2] == ("e goes from 5th to 1st of 6.", "a, b, c and 1 more one place later.")
    assert "priority becomes 501 (now 500)" in found.sentences[2]


def test_the_front_one_stays_where_it_is() -> None:
    found = effect(Arrangement.FRONT, QUEUE[0], others("a"), held=False)
    assert (found.after, found.priority, found.sentences) == (1, 500, ("a stays 1st of 6.",))


def test_back_to_its_usual_place_lets_others_pass() -> None:
    moved = Standing("e", 501, 500, "t4")
    found = effect(Arrangement.USUAL, moved, others("e"), held=False)
    assert (found.before, found.after, found.priority) == (1, 5, 500)
    assert found.sentences == ("e goes from 1st to 5th of 6.", "a, b, c and 1 more one place sooner.")


def test_a_hold_frees_its_place_and_keeps_its_age() -> None:
    found = effect(Arrangement.HOLD, QUEUE[1], others("b"), held=False)
    assert (found.before, found.after, found.of) == (2, None, 5)
    assert found.sentences[0] == "b stops waiting, 2nd until now: it will not start."
    assert "keeps its age" in found.sentences[1]


def test_a_release_comes_back_to_the_old_place() -> None:
    found = effect(Arrangement.RELEASE, QUEUE[1], others("b"), held=True)
    assert (found.before, found.after, found.sentences) == (None, 2, ("b waits again, 2nd of 6.",))
