"""The sharing decision table: what is usually advised in which situation, and what is usually chosen wrongly.

Data, not code: whoever knows better changes a row here. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apps.quotas.specs import SharingMode
from apps.workloads.advice.rules.situations import ISOLATED, Need
from apps.workloads.purpose_specs import Purpose

WHOLE, MIG, MPS = SharingMode.EXCLUSIVE, SharingMode.MIG, SharingMode.MPS
SLICED, FRACTION = SharingMode.TIME_SLICING, SharingMode.FRACTION
_SMALL_BYTES = 24 * 1024**3
"""What the GPUs hold that are sold for inference: T4 16, L4 and A10 24 GB."""

_LARGEST_SLICE_BYTES = 40 * 1024**3
"""Of a GPU of 80 GB, cut in two (3g.40gb)."""


@dataclass(frozen=True)
class Row:
    """A situation, whether a need is in it, the modes that suit it (the best first), why, and which modes
    are a mistake in it.
    """

    name: str
    holds: Callable[[Need], bool]
    modes: tuple[SharingMode, ...]
    advice: str
    mistakes: Mapping[SharingMode, str] = field(default_factory=dict)


_TURNS = "It takes turns on the GPU: each step waits for others', and their use of memory can end yours."
_CLIENTS = "A fault of one program on the GPU ends all of them."
_SOFT = "Its memory limit is kept by software alone, and faults are shared."

TABLE: tuple[Row, ...] = (
    Row(
        "Others must be kept out",
        lambda need: need.is_alone,
        (WHOLE, MIG),
        ISOLATED,
    ),
    Row(
        "Training",
        lambda need: need.trains,
        (WHOLE,),
        "Whole GPUs, several on one node where one is too small: slices have no NVLink between them.",
        {SLICED: _TURNS, MPS: _CLIENTS, FRACTION: _SOFT},
    ),
    Row(
        "More than a slice holds",
        lambda need: need.memory_bytes > _LARGEST_SLICE_BYTES,
        (WHOLE,),
        "Whole GPUs, several on one node where one is too small: slices hold less and do not go together.",
        {SLICED: _TURNS, MPS: _CLIENTS, FRACTION: _SOFT},
    ),
    Row(
        "Answering requests, with a promise to keep",
        lambda need: need.purpose is Purpose.SERVING,
        (MIG, WHOLE),
        "MIG slices: hard isolation, so that nobody else's work changes how long an answer takes.",
        {SLICED: _TURNS, MPS: _CLIENTS, FRACTION: _SOFT},
    ),
    Row(
        "Many small ones",
        lambda need: need.at_once > 1 and need.memory_bytes <= _SMALL_BYTES,
        (WHOLE, MIG, MPS, SLICED, FRACTION),
        "Several small whole GPUs before slices of a large one: simpler, isolated, and mostly cheaper.",
    ),
    Row(
        "Cost comes first",
        lambda need: need.is_thrifty,
        (SLICED, MPS, FRACTION, MIG, WHOLE),
        "Time slices, MPS or fractions: they fill the device. They isolate little: for work you trust.",
    ),
    Row(
        "Batch work",
        lambda need: need.purpose is Purpose.BATCH,
        (MPS, MIG, WHOLE, SLICED, FRACTION),
        "MPS within one team: kernels really run at once, with a limit for each program.",
    ),
    Row(
        "Development and experiments",
        lambda _need: True,
        (SLICED, FRACTION, MIG, MPS, WHOLE),
        "Time slices or small slices: simple and cheap. On time slices nobody may rely on memory.",
    ),
)


def row_of(need: Need) -> Row:
    """The first row whose situation it is; the last one is everybody's."""
    return next(row for row in TABLE if row.holds(need))
