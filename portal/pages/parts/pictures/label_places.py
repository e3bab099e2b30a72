"""Where the labels beside a picture go, so that none covers another. Pure."""

from collections.abc import Sequence


def spread(wanted: Sequence[float], *, apart: float, low: float, high: float) -> list[float]:
    """Places as near to the wanted ones as they can be, at least `apart` from each other, in their order.

    Neighbours that would overlap share the room around their mean; nothing leaves [low, high].
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    groups: list[tuple[float, list[int]]] = []
    for index in order:
        groups.append((wanted[index], [index]))
        while len(groups) > 1 and _touch(groups[-2], groups[-1], apart):
            (first, left), (second, right) = groups[-2], groups.pop()
            both = [*left, *right]
            groups[-1] = ((first * len(left) + second * len(right)) / len(both), both)
    placed = [0.0] * len(wanted)
    for middle, members in groups:
        for position, index in enumerate(members):
            placed[index] = middle + (position - (len(members) - 1) / 2) * apart
    return _within(placed, order, apart, (low, high))


def _touch(left: tuple[float, list[int]], right: tuple[float, list[int]], apart: float) -> bool:
    return right[0] - left[0] < apart * (len(left[1]) + len(right[1])) / 2


def _within(
    placed: list[float], order: Sequence[int], apart: float, room: tuple[float, float]
) -> list[float]:
    low, high = room
    for position, index in enumerate(order):
        placed[index] = max(placed[index], low + position * apart)
    for position, index in enumerate(reversed(order)):
        placed[index] = min(placed[index], high - position * apart)
    return placed
