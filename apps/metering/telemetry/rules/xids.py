"""What the driver's XIDs mean. Pure.

From NVIDIA's catalog for Ampere and newer (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html): its
words and its immediate action. What is not listed here is not judged.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.words import Word


class XidKind(Word):
    """RULE: fatal, where the catalog resets the GPU, restarts the machine or checks the hardware;
    application, where a program ended and the GPU goes on; informational, where it asks for nothing at once.
    """

    FATAL = "fatal", "The GPU is dead"
    APPLICATION = "application", "A program failed"
    INFORMATIONAL = "informational", "For information"


@dataclass(frozen=True)
class Xid:
    """One code: what happened, and what to do at once where the GPU is dead of it."""

    kind: XidKind
    what: str
    cure: str = ""


RESET = "drain the node, then reset the GPU (nvidia-smi --gpu-reset) or restart the machine"
RESTART = (
    "drain the node and restart the machine; if it comes back so, see the PCIe link and NVIDIA's support"
)
POWER = "drain the node and see to the power cable of the board"

_RESETS = {
    46: "GPU stopped processing",
    48: "double bit ECC error",
    62: "internal micro-controller halted",
    64: "remapping of GPU memory failed",
    74: "NVLink error",
    95: "uncontained memory error",
    109: "context switch timed out",
    110: "security fault",
    119: "GSP did not answer",
    120: "GSP error",
    136: "NVLink training failed",
    140: "unrecovered ECC error",
    143: "GPU initialization error",
    155: "NVLink went down",
    156: "resource retirement",
    158: "fatal timeout",
}
_APPLICATION = {
    8: "GPU stopped processing",
    11: "corrupted push buffer stream",
    13: "graphics engine exception",
    25: "illegal push buffer stream",
    31: "GPU memory page fault",
    32: "corrupted push buffer stream",
    43: "a program's channel was stopped",
    45: "preemptive cleanup after a program ended",
    60: "video processor exception",
    69: "graphics engine class error",
    80: "corrupted data sent to the GPU",
    94: "contained memory error",
    137: "NVLink privilege error",
}
_INFORMATIONAL = {
    14: "injected error",
    37: "driver firmware error",
    38: "driver firmware error",
    44: "fault during a context switch",
    63: "GPU memory was remapped",
    66: "illegal access by the driver",
    67: "illegal access by the driver",
    92: "many single bit ECC errors",
    93: "InfoROM wear limit",
    106: "test message",
    107: "test message",
    121: "corrected errors on C2C",
    141: "CUDA fast path error",
    154: "recovery action changed",
    157: "no resource left to retire to",
    160: "memory channel retired",
    161: "memory channel not retired",
}
_ENGINES = {
    "copy engine exception": (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
    "video or image engine exception": (68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139),
}


def _each() -> Iterator[tuple[int, Xid]]:
    yield 54, Xid(XidKind.FATAL, "auxiliary power is not connected", POWER)
    yield 79, Xid(XidKind.FATAL, "GPU has fallen off the bus", RESTART)
    yield from ((code, Xid(XidKind.FATAL, what, RESET)) for code, what in _RESETS.items())
    yield from ((code, Xid(XidKind.APPLICATION, what)) for code, what in _APPLICATION.items())
    yield from ((code, Xid(XidKind.INFORMATIONAL, what)) for code, what in _INFORMATIONAL.items())
    for what, codes in _ENGINES.items():
        yield from ((code, Xid(XidKind.APPLICATION, what)) for code in codes)


XIDS: Mapping[int, Xid] = dict(_each())
FATAL = frozenset(code for code, each in XIDS.items() if each.kind is XidKind.FATAL)


def words(code: int) -> str:
    """A code as people read it: its number with what it means, where that is known."""
    known = XIDS.get(code)
    return f"XID {code}, {known.what}" if known else f"XID {code}"


def is_our_fault(key: str, value: str, effect: str) -> bool:
    """Whether the platform answers for what closes a device: it is lost, a fatal XID, or a taint that drives
    the work off it (NoExecute). Of another XID the program that runs there may be the cause.

    Keys of NVIDIA's DRA driver: `<driver>/xid` with the code as its value, `<driver>/gpu-lost`.
    """
    name = key.rpartition("/")[2]
    if name == "xid":
        return value.isdigit() and int(value) in FATAL
    return name == "gpu-lost" or effect == "NoExecute"


def now_dead_of(before: int, told: Iterable[int]) -> int:
    """The fatal code that a GPU is dead of, after its devices told their last codes; 0: none.

    RULE: a fatal code holds until every device says 0, because the field keeps the last code only, and the
    programs that the dead GPU takes with it write theirs over it. Silence changes nothing.
    """
    codes = list(told)
    fatal = next((code for code in codes if code in FATAL), before)
    return fatal if any(codes) or not codes else 0
