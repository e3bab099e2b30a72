"""What a GPU of a model is made of, as far as judging needs it: multiprocessors and board power. Pure.

Source: NVIDIA's data sheets and MIG guide. A model that is not listed gets the detector's cautious defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from apps.metering.detector import sizing
from apps.metering.detector.sizing import Size
from apps.metering.detector.trace import Allocation


@dataclass(frozen=True)
class Board:
    """A whole GPU: streaming multiprocessors, and the board's power limit in watts (0: unknown)."""

    sms: int
    tdp_w: float

    @property
    def loaded_w(self) -> float:
        """What none draws at rest or with its clocks up; endless of a board whose limit is unknown."""
        if not self.tdp_w:
            return inf
        rest = self.tdp_w * (PARKED_SMALL if self.tdp_w < SMALL_BOARD else PARKED)
        return rest + LOADED * (self.tdp_w - rest)


_BOARDS = {
    "B200": Board(148, 1000.0),
    "H200": Board(132, 700.0),
    "H100": Board(132, 700.0),
    "A100": Board(108, 400.0),
    "L40S": Board(142, 350.0),
    "L40": Board(142, 300.0),
    "L4": Board(58, 72.0),
    "A30": Board(56, 165.0),
    "A10": Board(72, 150.0),
    "V100": Board(80, 300.0),
    "T4": Board(40, 70.0),
}
_OF_PCIE = {"H100": Board(114, 350.0)}
UNLISTED = Board(108, 0.0)
SWITCHED_OFF = (
    "Unlisted board: its multiprocessors and its power limit are not known. Counters that read 0 under load "
    "are not recognised by its watts, and no smaller size is advised."
)
SMALL_BOARD = 160.0
"""Watts of the limit; under it are boards that draw much as soon as anything raises their clocks."""
PARKED, PARKED_SMALL = 0.2, 0.4
"""What a board at rest draws at most, of its limit."""
LOADED, LEAST_SMI = 0.25, 30
"""Of the watts above rest, what no board draws without work; and what nvidia-smi says at least then."""
_ANY_SMS, _ANY_MIB = 10**6, 10.0**7


def board_of(model: str) -> Board:
    """By the product name as the driver publishes it: `NVIDIA H100 80GB HBM3`, `Tesla V100-SXM2-32GB`."""
    name, is_pcie = sizing.family(model), "PCIE" in model.upper()
    return (_OF_PCIE if is_pcie and name in _OF_PCIE else _BOARDS).get(name, UNLISTED)


def is_contradicted(
    board: Board, counters: Sequence[int | None], *, smi: int | None, watts: float | None
) -> bool:
    """Whether profiling counters that read 0 are no word about work, for the whole board is under load.

    RULE: dcgm-exporter issue 662. All counters that are there read 0, the board draws what none draws at rest
    or with its clocks up, and nvidia-smi (percent) says no otherwise. Of a part of a board it is for the
    caller to see that no neighbour works: the watts may be its. A board that is not listed, or has no watts,
    contradicts nothing.
    """
    known = [each for each in counters if each is not None]
    if not known or any(known) or not watts:
        return False
    return watts >= board.loaded_w and (smi is None or smi >= LEAST_SMI)


def size_of(model: str, profile: str, memory_mib: float) -> Size | None:
    """A MIG profile such as 1g.10gb, or with "" the whole GPU, as a size with at most that much memory; None
    where the model cannot be cut so.
    """
    if not profile or profile.startswith("7g"):
        return Size("7g", memory_mib, board_of(model).sms, 1.0, 1.0)
    whole = Allocation("", model=model, sms=_ANY_SMS)
    slices = profile.partition("g")[0]
    found = [size for size in sizing.sizes(whole, _ANY_MIB) if size.name.startswith(f"{slices}g")]
    nearest = min(found, key=lambda size: abs(size.memory_mib - memory_mib), default=None)
    if nearest is None:
        return None
    return replace(nearest, memory_mib=min(nearest.memory_mib, memory_mib))
