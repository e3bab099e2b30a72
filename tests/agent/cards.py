"""A stand-in for the driver's library, behind the real `pynvml`: GPUs with counters, MIG devices, refusals.

Set as `pynvml.nvmlLib`, it is called with the binding's own ctypes structures. Counters are integrals over
its clock, so a ratio between two GPM samples is what the physics of the test says, not what the agent hopes.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

MIB = 1024 * 1024
MIG_BASE = 1_000_000
SM, TENSOR, DRAM = (
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
)


@dataclass
class Part:
    """A MIG device of the stand-in."""

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int = 0
    profile_id: int = 19
    start: int = 0
    used_mib: int = 100
    total_mib: int = 18000
    processes: list[tuple[int, int]] = field(default_factory=list)
    rates: dict[int, float] = field(default_factory=dict)


@dataclass
class Card:
    """A GPU of the stand-in. `rates`: percent or MiB/s by GPM metric; `refuse`: return codes by function."""

    uuid: str
    minor: int
    name: str = "NVIDIA H200"
    gpm: bool = True
    parts: list[Part] | None = None
    used_mib: int = 1024
    total_mib: int = 143771
    smi: int = 0
    watts: float = 75.5
    energy_mj: int = 1_000_000
    processes: list[tuple[int, int]] = field(default_factory=list)
    rates: dict[int, float] = field(default_factory=dict)
    refuse: dict[str, int] = field(default_factory=dict)
    refuse_metrics: dict[int, int] = field(default_factory=dict)


Sums = dict[tuple[str, int], float]


class Library:
    """What `libnvidia-ml.so.1` is to the binding. `code`, if not 0, is what every function returns."""

    def __init__(self, cards: list[Card]) -> None:
        self.cards = cards
        self.code = 0
        self.absent: set[str] = set()
        self.refuse: dict[str, int] = {}
        self.xids: list[tuple[Card, int, int | None]] = []
        self.started = 0
        self.calls: dict[str, int] = {}
        self.now = 0.0
        self.samples: dict[int, tuple[float, Card, Sums] | None] = {}
        self._sums: Sums = {}

    def advance(self, seconds: float) -> None:
        """Let time pass with the rates as they are."""
        self.now += seconds
        for card in self.cards:
            card.energy_mj += round(card.watts * seconds * 1000)
            for owner, rates in [(card.uuid, card.rates), *((p.uuid, p.rates) for p in card.parts or [])]:
                for metric, rate in rates.items():
                    self._sums[owner, metric] = self._sums.get((owner, metric), 0.0) + rate * seconds

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("_") or name in self.absent:
            raise AttributeError(name)
        action = FUNCTIONS.get(name)
        if action is None:
            raise AttributeError(name)

        def called(*arguments: Any) -> int:
            self.calls[name] = self.calls.get(name, 0) + 1
            code = self.code or self.refuse.get(name, 0)
            return code or action(self, *arguments) or 0

        return called

    def find(self, handle: Any) -> tuple[Card, Part | None]:
        """The card, and the MIG device if the handle is one's."""
        value = ctypes.cast(handle, ctypes.c_void_p).value or 0
        if value < MIG_BASE:
            return self.cards[value - 1], None
        card = self.cards[value // MIG_BASE - 1]
        parts = [p for p in card.parts or [] if number(p) == value % MIG_BASE]
        if not parts:
            raise Refused(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return card, parts[0]

    def sums(self, owners: list[str]) -> Sums:
        """The counters of some owners at this moment."""
        return {key: value for key, value in self._sums.items() if key[0] in owners}


class Refused(Exception):
    """A function returns this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


FUNCTIONS: dict[str, Callable[..., int | None]] = {}


Action = Callable[..., int | None]


def function(name: str) -> Callable[[Action], Action]:
    """Register a function of the library; what it raises as Refused it returns as a code."""

    def registered(action: Action) -> Action:
        def called(library: Library, *arguments: Any) -> int | None:
            try:
                return action(library, *arguments)
            except Refused as refused:
                return refused.code

        FUNCTIONS[name] = called
        return action

    return registered


def of_card(name: str) -> Callable[[Action], Action]:
    """As `function`, for those whose first argument is a GPU or MIG device: its own refusals come first."""

    def registered(action: Action) -> Action:
        def called(library: Library, handle: Any, *arguments: Any) -> int | None:
            card, part = library.find(handle)
            code = card.refuse.get("*", 0) or card.refuse.get(name, 0)
            return code or action(library, card, part, *arguments)

        function(name)(called)
        return action

    return registered


def number(part: Part) -> int:
    """The part's own in its card's range of handles."""
    return part.gpu_instance * 100 + part.compute_instance + 1


def put(reference: Any, value: int) -> None:
    """Write through a `byref` of a number."""
    reference._obj.value = value


def point(reference: Any, number: int) -> None:
    """Write through a `byref` of a handle."""
    ctypes.c_void_p.from_buffer(reference._obj).value = number


def write(buffer: Any, words: str) -> None:
    """Write text into a buffer."""
    buffer.value = words.encode()
