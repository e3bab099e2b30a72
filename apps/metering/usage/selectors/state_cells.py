"""The states of devices, step by step, for the picture, its file and REST. Reads only."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from apps.metering.models import Bucket
from apps.metering.usage.rules.device_states import Spell, state_of
from apps.metering.usage.selectors import series
from apps.metering.usage.selectors.aggregates import Steps
from apps.metering.usage.selectors.series import Sums

NEEDED = ("seen", "sm_seen", "sm", "dram", "effective", "hoarded", "zombie", "crashing", "idle")
HEAD = ("device", "node", "from", "state", "allocated_gpus", "sm_active", "coverage")
Key = tuple[Any, ...]


def cells(rows: QuerySet[Bucket], cut: Steps) -> dict[Key, dict[int, Sums]]:
    """What a state is told by, per (GPU, node) and step."""
    return series.series(rows, cut, "gpu", "node", of=NEEDED)


def spell(sums: Sums, whole: int) -> Spell:
    """What a step's sums say of the device."""
    return Spell(
        whole=whole,
        held=sums.allocated,
        seen=sums.seen,
        hoarded=sums.hoarded + sums.zombie,
        idle=sums.idle + sums.crashing,
        # Where SM is not told, a sample counts by its DRAM; what of it is paid for is another question.
        sm=min(1.0, sums.sm / sums.sm_seen) * sums.seen if sums.sm_seen else sums.dram,
    )


def lines(cells: Mapping[Key, Mapping[int, Sums]], cut: Steps) -> Iterator[Sequence[Any]]:
    """A row of HEAD per device and step."""
    for (gpu, node), sums in sorted(cells.items()):
        for at, each in zip(series.moments(cut), series.filled(sums, cut), strict=True):
            state = state_of(spell(each, cut.micros))
            yield (gpu, node, at, str(state), each.allocated / cut.micros, each.ratio("sm"), each.coverage)
