"""What every source of telemetry hands over: readings of devices, and what was wrong. Pure.

The hot path is made of tuples: a fleet of 10,000 GPUs is 333 readings a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import NamedTuple, Protocol

COLUMNS = (
    "smi", "sm_active", "sm_occupancy", "tensor_active", "fp64_active", "fp32_active", "fp16_active",
    "dram_active", "memory_used_mib", "memory_total_mib", "power_mw", "energy_mj", "pcie_tx", "pcie_rx",
    "nvlink", "sm_clock_mhz", "throttle", "celsius", "xid", "processes",
)  # fmt: skip
"""The measured columns of `models.Sample`, in the order of `Reading.values`."""

Values = tuple[int | None, ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class DeviceLabels(NamedTuple):
    """What the exporter's labels say of the device. -1: no instance; empty: not told.

    `uuid` is the physical GPU's, `instance_uuid` (MIG-...) the instance's where the exporter tells it; `pods`
    are the (namespace, pod) pairs that hold it, none where the exporter maps no pods.
    """

    uuid: str
    gpu_instance: int = -1
    compute_instance: int = -1
    profile: str = ""
    instance_uuid: str = ""
    node: str = ""
    model: str = ""
    pods: tuple[tuple[str, str], ...] = ()


class Reading(NamedTuple):
    """One device over the collection that ended at `ts` (µs since 1970, UTC).

    `values` in the order and units of `COLUMNS`: ratios in millionths, null is unknown and never 0.
    """

    device: DeviceLabels
    ts: int
    values: Values


class Block(NamedTuple):
    """Many readings of one device: `times` as `Reading.ts`, and a column for each of `COLUMNS`, as long as
    they; None instead of a column that is unknown at every time.
    """

    device: DeviceLabels
    times: Sequence[int]
    columns: tuple[Sequence[int | None] | None, ...]

    def readings(self) -> Iterator[Reading]:
        """The same one by one."""
        count = len(self.times)
        columns = (repeat(None, count) if each is None else each for each in self.columns)
        return map(Reading, repeat(self.device), self.times, zip(*columns, strict=True))


ONE_TELLER = " Keep one: two exporters, or two scrape jobs, report the same GPU."
KEEP_UUID = " Let the label UUID through: no relabelling may drop or rename it."
OTHER_DRIVER = " Restart the exporter there; if it stays, take driver and DCGM of versions that fit."
"""What to do about troubles that every source can find."""


class Trouble(NamedTuple):
    """Something wrong with what was read: becomes a `TelemetryIssue`.

    `message` says what is wrong and what to do; `kept_aside` is the beginning of what could not be read.
    """

    kind: str
    node: str
    message: str
    kept_aside: str = ""


@dataclass
class Batch:
    """What one step of a source found: everything in (since, until] of its `shard`, as `readings` or, where a
    device has many of them, as `blocks`.
    """

    readings: list[Reading]
    until: datetime
    step: timedelta
    shard: str = ""
    troubles: list[Trouble] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many readings there are in all."""
        return len(self.readings) + sum(len(each.times) for each in self.blocks)

    def every(self) -> list[Reading]:
        """All of them, one by one."""
        return [*(one for block in self.blocks for one in block.readings()), *self.readings]


class SourceSilent(Exception):
    """The source cannot answer now; what was stored stays, the next round goes on from its position.

    `retry_after` seconds it asked us to wait, 0 where it said nothing. `is_too_much`: it may answer for
    less time at once.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0, is_too_much: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_too_much = is_too_much


class Source(Protocol):
    """Where readings come from."""

    def read(self, since: datetime, until: datetime) -> Iterator[Batch]:
        """Everything in (since, until], in order of time, in batches that can be stored one by one.

        Raises `SourceSilent` where it cannot answer; the batches before are good.
        """
        ...


def micros(at: datetime) -> int:
    """µs since 1970 of an aware time."""
    return (at - _EPOCH) // _MICROSECOND


def moment(ts: int) -> datetime:
    """The aware time of µs since 1970."""
    return _EPOCH + timedelta(microseconds=ts)
