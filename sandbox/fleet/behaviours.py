"""What simulated pods do: the behaviours, their drawn parameters (the truth), and how a container lives and
ends.

Pure: seed, pod uid and behaviour in, truth out. The load a truth puts on a device is `load`'s matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from sandbox.api.meta.objects import Obj, controller_of
from sandbox.fleet.walk import between, key_of, unit

PREFIX = "sandbox.allotment.dev/"
ANNOTATION = f"{PREFIX}behaviour"
USUAL = "usual"
"""In place of a behaviour: what the owner's kind usually does, again."""


class Behaviour(StrEnum):
    """The kinds of use a GPU fleet sees, told apart only by telemetry."""

    TRAIN = "train"
    DATALOADER_BOUND = "dataloader-bound"
    NOTEBOOK = "notebook"
    INFERENCE = "inference"
    IDLE_HOARDER = "idle-hoarder"
    KEEPALIVE = "keepalive"
    ZOMBIE = "zombie"
    OVERSIZED = "oversized"
    LEAK = "leak"
    CRASH_LOOP = "crash-loop"
    SLOW_START = "slow-start"
    SILENT = "silent"
    OOM_LOOP = "oom-loop"
    EVICTED = "evicted"
    REFUSED = "refused"
    IMAGE_PULL = "image-pull"
    INIT_CRASH = "init-crash"
    PREPARE_FAILS = "prepare-fails"
    SANDBOX_FAILS = "sandbox-fails"


NO_START = frozenset(
    {
        Behaviour.REFUSED,
        Behaviour.IMAGE_PULL,
        Behaviour.INIT_CRASH,
        Behaviour.PREPARE_FAILS,
        Behaviour.SANDBOX_FAILS,
    }
)
"""What keeps a pod from starting; one that runs already goes on, but for a node that refuses it."""
_BY_OWNER = {"Job": Behaviour.TRAIN, "ReplicaSet": Behaviour.INFERENCE, "StatefulSet": Behaviour.NOTEBOOK}

# Ranges from which a pod's parameters are drawn, uniformly. Shares are of the device the pod holds, times
# in seconds.
_AT_WORK = {
    "sm": (0.15, 0.8),
    "tensor": (0.02, 0.3),
    "dram": (0.05, 0.4),
    "memory": (0.08, 0.6),
    "think": (300, 2400),
    "run": (60, 700),
    "light": (0, 1),
}
_RANGES: Mapping[Behaviour, Mapping[str, tuple[float, float]]] = {
    Behaviour.TRAIN: {
        "sm": (0.75, 0.97),
        "tensor": (0.28, 0.62),
        "dram": (0.3, 0.7),
        "memory": (0.5, 0.95),
        "eval_every": (600, 2400),
        "eval_for": (20, 90),
        "minutes": (20, 120),
        "variant": (0, 1),
    },
    Behaviour.DATALOADER_BOUND: {
        "sm": (0.7, 0.95),
        "tensor": (0.25, 0.5),
        "dram": (0.3, 0.6),
        "memory": (0.35, 0.85),
        "duty": (0.12, 0.4),
        "minutes": (30, 150),
    },
    Behaviour.NOTEBOOK: _AT_WORK,
    Behaviour.INFERENCE: {
        "sm": (0.2, 0.6),
        "tensor": (0.08, 0.3),
        "dram": (0.2, 0.5),
        "memory": (0.5, 0.92),
        "peak_hour": (9, 17),
        "night": (0.05, 0.4),
    },
    Behaviour.IDLE_HOARDER: {"memory": (0.01, 0.9), "worked_for": (0, 900), "sm": (0.3, 0.9)},
    Behaviour.KEEPALIVE: {"every": (18, 22), "duty": (0.3, 1.0), "memory": (0.02, 0.7), "variant": (0, 1)},
    Behaviour.ZOMBIE: {
        "sm": (0.6, 0.95),
        "tensor": (0.2, 0.5),
        "dram": (0.3, 0.6),
        "memory": (0.3, 0.95),
        "worked_for": (300, 1800),
        "held_for": (1800, 7200),
    },
    Behaviour.OVERSIZED: {
        "sm": (0.04, 0.18),
        "tensor": (0.0, 0.06),
        "dram": (0.02, 0.1),
        "memory": (0.02, 0.12),
        "minutes": (30, 180),
    },
    Behaviour.LEAK: {
        "sm": (0.5, 0.9),
        "tensor": (0.1, 0.4),
        "dram": (0.2, 0.6),
        "memory": (0.1, 0.4),
        "oom_after": (600, 2700),
        "host": (0, 1),
    },
    Behaviour.CRASH_LOOP: {"crash_after": (4, 25), "memory": (0.02, 0.3), "sm": (0.0, 0.3)},
    Behaviour.SLOW_START: {
        "ready_after": (180, 540),
        "sm": (0.2, 0.6),
        "tensor": (0.08, 0.3),
        "dram": (0.2, 0.5),
        "memory": (0.6, 0.95),
        "peak_hour": (9, 17),
        "night": (0.1, 0.4),
    },
    Behaviour.SILENT: {
        "sm": (0.3, 0.9),
        "tensor": (0.1, 0.4),
        "dram": (0.2, 0.6),
        "memory": (0.2, 0.9),
        "minutes": (30, 120),
    },
    Behaviour.OOM_LOOP: {"crash_after": (4, 25), "memory": (0.02, 0.3), "sm": (0.0, 0.3)},
    Behaviour.EVICTED: {**_AT_WORK, "evicted_after": (20, 60)},
    Behaviour.INIT_CRASH: {**_AT_WORK, "crash_after": (2, 8)},
    **dict.fromkeys(NO_START - {Behaviour.INIT_CRASH}, _AT_WORK),
}


@dataclass(frozen=True)
class Truth:
    """What a pod really does: its behaviour and the parameters drawn for it."""

    behaviour: Behaviour
    key: int
    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    @property
    def effective(self) -> bool:
        """Whether the held device does work for somebody; the label detectors are scored against."""
        return self.behaviour not in (
            Behaviour.IDLE_HOARDER,
            Behaviour.KEEPALIVE,
            Behaviour.ZOMBIE,
            Behaviour.CRASH_LOOP,
            Behaviour.OOM_LOOP,
            *NO_START,
        )


@dataclass(frozen=True)
class Life:
    """One run of a container: seconds to readiness, seconds to its end (None: never), and how it ends."""

    ready_after: float
    ends_after: float | None
    exit_code: int
    reason: str
    last_words: str


def behaviour_of(pod: Obj) -> Behaviour:
    """The annotation's behaviour; without one what the owner's kind usually does. An unknown word reads as
    none.
    """
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    if text in {b.value for b in Behaviour}:
        return Behaviour(text)
    owner = controller_of(pod)
    return _BY_OWNER.get(owner["kind"], Behaviour.NOTEBOOK) if owner else Behaviour.NOTEBOOK


def has_behaviour(pod: Obj) -> bool:
    """Whether the pod names a behaviour itself."""
    return ANNOTATION in (pod["metadata"].get("annotations") or {})


def truth(
    seed: int, uid: str, behaviour: Behaviour, fixed: Mapping[str, float] = MappingProxyType({})
) -> Truth:
    """Draw the parameters of a pod, but for those that are fixed; the same seed and uid give the same truth
    for ever.
    """
    key = key_of(seed, uid, behaviour.value)
    ranges = _RANGES[behaviour]
    values = {name: between(unit(key, index), *bounds) for index, (name, bounds) in enumerate(ranges.items())}
    return Truth(behaviour, key, {name: fixed.get(name, value) for name, value in values.items()})


def truth_of(seed: int, pod: Obj) -> Truth:
    """A pod's truth. An annotation `sandbox.allotment.dev/<parameter>` fixes what would be drawn; one that is
    no number within the parameter's range counts for nothing.
    """
    behaviour, told = behaviour_of(pod), pod["metadata"].get("annotations") or {}
    asked = {name: _number(told.get(PREFIX + name, "")) for name in _RANGES[behaviour]}
    fixed = {
        name: value
        for name, value in asked.items()
        if value is not None and _RANGES[behaviour][name][0] <= value <= _RANGES[behaviour][name][1]
    }
    return truth(seed, pod["metadata"]["uid"], behaviour, fixed)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def life(told: Truth, *, finite: bool) -> Life:
    """How a container of this truth lives; `finite` for work that should end, such as a Job's."""
    ready = told.values.get("ready_after", 0.2)
    match told.behaviour:
        case Behaviour.CRASH_LOOP:
            words = "RuntimeError: CUDA error: invalid device ordinal"
            return Life(ready, told["crash_after"], 1, "Error", words)
        case Behaviour.OOM_LOOP:
            return Life(ready, told["crash_after"], 137, "OOMKilled", "Killed")
        case Behaviour.LEAK if told["host"] < 0.5:
            return Life(ready, told["oom_after"], 137, "OOMKilled", "Killed")
        case Behaviour.LEAK:
            words = "torch.OutOfMemoryError: CUDA out of memory."
            return Life(ready, told["oom_after"], 1, "Error", words)
        case _ if finite:
            return Life(ready, 60.0 * told.values.get("minutes", 45.0), 0, "Completed", "done")
        case _:
            return Life(ready, None, 0, "Completed", "")
