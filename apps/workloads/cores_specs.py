"""Work without a device: how many cores it takes, and where its pods run. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from apps.quotas.specs import CORE_MILLIS


@dataclass(frozen=True)
class CoresPlace:
    """Where pods without a device run: the ResourceFlavor, and what labels its nodes have."""

    flavor: str
    node_labels: Mapping[str, str]


def cores_of(cpu_millis: int) -> int:
    """Whole cores, at least one: a part of one counts as one."""
    return max(1, -(-cpu_millis // CORE_MILLIS))


def sized(cpu_millis: int, memory_bytes: int, *, per_core: int) -> tuple[int, int]:
    """CPU and memory with what was left open (0) filled in; `per_core` is the memory of a core."""
    cpu = cpu_millis or max(1, -(-memory_bytes // per_core)) * CORE_MILLIS
    return cpu, memory_bytes or cores_of(cpu) * per_core
