"""A board that MIG divides: its memory slices, and what is there of all that could be cut of it. Pure."""

from collections.abc import Collection, Iterable
from fractions import Fraction

from apps.cluster.mirror.rules.hardware import COMPUTE_SLICES, Consumed, DeviceKey, DeviceView

_MEMORY_SLICES = 8


def memory_slices_of(device: DeviceView) -> int:
    """Into how many memory slices its board is divided; 0: its driver does not say which of them it occupies.

    RULE: eight where there are seven compute slices, else as many for each compute slice as it has itself.
    Source: NVIDIA's MIG user guide (A100 and later 8 of 7, A30 4 of 4, RTX PRO 6000 12 of 4).
    """
    if not device.memory_slices:
        return 0
    if device.share_denominator == COMPUTE_SLICES:
        return _MEMORY_SLICES
    return len(device.memory_slices) * device.share_denominator // device.share_numerator


def memory_share(device: DeviceView) -> Fraction:
    """What part of its board's memory it has; 0: it is not known."""
    whole = memory_slices_of(device)
    return Fraction(len(device.memory_slices), whole) if whole else Fraction(0)


def present(devices: Iterable[DeviceView], held: Collection[DeviceKey]) -> list[DeviceView]:
    """The devices that are there side by side: of a board that is cut on demand what claims hold, and the
    largest that could still be cut. All others are there as they are published.
    """
    there: list[DeviceView] = []
    possible: dict[tuple[str, str], list[DeviceView]] = {}
    for device in devices:
        if device.consumes:
            board = device.parent_uuid or device.uuid or f"{device.pool}/{device.name}"
            possible.setdefault((device.node, board), []).append(device)
        else:
            there.append(device)
    for family in possible.values():
        there += _cut(family, held)
    return there


def exclude(one: DeviceView, other: DeviceView) -> bool:
    """Whether a board that is cut on demand has no room for both at once: of a counter that both take it has
    less than they take together. Of a counter that its pool does not publish nothing is known.
    """
    taken = {each.counter: each.amount for each in one.consumes}
    return any(
        each.counter in taken and 0 < each.of < taken[each.counter] + each.amount for each in other.consumes
    )


def _cut(family: Iterable[DeviceView], held: Collection[DeviceKey]) -> list[DeviceView]:
    family = list(family)
    cut = [device for device in family if device.key in held]
    left: dict[tuple[str, str, str, str], int] = {}
    for each in _consumed(cut):
        left[each.counter] = left.get(each.counter, each.of) - each.amount
    fitting = [
        device
        for device in family
        if device.key not in held
        and all(left.get(each.counter, each.of) >= each.amount for each in device.consumes)
    ]
    largest = max(fitting, key=lambda device: (device.memory_bytes, not device.parent_uuid), default=None)
    return cut if largest is None else [*cut, largest]


def _consumed(devices: Iterable[DeviceView]) -> Iterable[Consumed]:
    return (each for device in devices for each in device.consumes)
