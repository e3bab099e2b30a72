"""The GPUs a simulated fleet may hold: what NVML reports about each model, and where MIG may cut it.

Says what the hardware is and which MIG layouts it accepts. Knows nothing of nodes, Kubernetes or load.
Figures: NVIDIA's MIG user guide (driver 580) and data sheets; a placement is a start in the memory slices of
a GPU (eight, of the RTX PRO 6000 twelve), and a layout must satisfy the placements and the compute slices
(seven; four) at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(frozen=True)
class MigProfile:
    """One MIG profile of one model; `starts` are the memory slices on which it may begin."""

    name: str
    profile_id: int
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpeg_engines: int
    ofa_engines: int
    limit: int


@dataclass(frozen=True)
class Placement:
    """A MIG instance that exists: a profile at a start, with the instance id NVML gives it."""

    profile: MigProfile
    start: int
    instance_id: int


@dataclass(frozen=True)
class GpuModel:
    """What NVML and GPU feature discovery say about a model; watts are board power, MiB what NVML reports."""

    key: str
    product_name: str
    architecture: str
    family: str
    compute_capability: tuple[int, int]
    memory_mib: int
    reserved_mib: int
    multiprocessors: int
    idle_watts: float
    max_watts: float
    sm_clock_mhz: int
    memory_clock_mhz: int
    pci_device_id: str
    profiles: tuple[MigProfile, ...] = field(default=())
    memory_slices: int = 8
    compute_slices: int = 7
    """What MIG divides it into."""

    @property
    def product_label(self) -> str:
        """GPU feature discovery writes the product name with dashes for blanks."""
        return self.product_name.replace(" ", "-")

    @property
    def mig_capable(self) -> bool:
        """Whether MIG can cut it."""
        return bool(self.profiles)

    def profile(self, name: str) -> MigProfile | None:
        """The profile of that name."""
        return next((p for p in self.profiles if p.name == name), None)


@dataclass(frozen=True)
class _Shape:
    """The part of a profile that is the same on every MIG-capable model of two generations."""

    slices: int
    suffix: str
    profile_id: int
    memory_slices: int
    starts: tuple[int, ...]
    limit: int


_SEVEN = (
    _Shape(1, "", 19, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    _Shape(1, "+me", 20, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    _Shape(1, "double", 15, 2, (0, 2, 4, 6), 4),
    _Shape(2, "", 14, 2, (0, 2, 4), 3),
    _Shape(3, "", 9, 4, (0, 4), 2),
    _Shape(4, "", 5, 4, (0,), 1),
    _Shape(7, "", 0, 8, (0,), 1),
)


_FOUR = (
    _Shape(1, "", 14, 3, (0, 3, 6, 9), 4),
    _Shape(2, "", 5, 6, (0, 6), 2),
    _Shape(4, "", 0, 12, (0,), 1),
)
"""Of the RTX PRO 6000 Blackwell, as `nvidia-smi mig -lgipp` says; those with graphics, with all media engines
or without any are left out.
"""


def _profiles(
    gigabytes: Sequence[int],
    memory_mib: Sequence[int],
    multiprocessors: Sequence[int],
    engines: Sequence[int],
    *,
    shapes: Sequence[_Shape] = _SEVEN,
) -> tuple[MigProfile, ...]:
    profiles = []
    for index, shape in enumerate(shapes):
        suffix = shape.suffix if shape.suffix == "+me" else ""
        media = shape is shapes[-1] or suffix == "+me"
        profiles.append(
            MigProfile(
                name=f"{shape.slices}g.{gigabytes[index]}gb{suffix}",
                profile_id=shape.profile_id,
                compute_slices=shape.slices,
                memory_slices=shape.memory_slices,
                starts=shape.starts,
                memory_mib=memory_mib[index],
                multiprocessors=multiprocessors[index],
                copy_engines=max(1, shape.slices),
                decoders=engines[index],
                jpeg_engines=engines[index] if media or shape.slices > 1 else min(1, engines[index]),
                ofa_engines=1 if media else 0,
                limit=shape.limit,
            )
        )
    return tuple(profiles)


_H100_PROFILES = _profiles(
    (10, 10, 20, 20, 40, 40, 80),
    (9984, 9984, 20096, 20096, 40448, 40448, 81152),
    (16, 16, 26, 32, 60, 64, 132),
    (1, 1, 1, 2, 3, 4, 7),
)
_A100_PROFILES = _profiles(
    (5, 5, 10, 10, 20, 20, 40),
    (4864, 4864, 9856, 9856, 19968, 19968, 40192),
    (14, 14, 14, 28, 42, 56, 98),
    (0, 1, 1, 1, 2, 2, 5),
)

_RTX_PRO_6000_PROFILES = _profiles(
    (24, 48, 96), (23675, 47616, 95621), (46, 94, 188), (1, 2, 4), shapes=_FOUR
)

MODELS: dict[str, GpuModel] = {
    model.key: model
    for model in (
        GpuModel(
            "H100 80GB", "NVIDIA H100 80GB HBM3", "Hopper", "hopper", (9, 0),
            81559, 551, 132, 68.0, 700.0, 1980, 2619, "0x2330", _H100_PROFILES,
        ),
        GpuModel(
            "A100 40GB", "NVIDIA A100-SXM4-40GB", "Ampere", "ampere", (8, 0),
            40960, 514, 108, 52.0, 400.0, 1410, 1215, "0x20B0", _A100_PROFILES,
        ),
        GpuModel(
            "L4", "NVIDIA L4", "Ada Lovelace", "ada-lovelace", (8, 9),
            23034, 443, 58, 13.0, 72.0, 2040, 6251, "0x27B8",
        ),
        GpuModel(
            "T4", "Tesla T4", "Turing", "turing", (7, 5),
            15360, 438, 40, 10.0, 70.0, 1590, 5001, "0x1EB8",
        ),
        GpuModel(
            "RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell", "blackwell", (12, 0),
            97887, 637, 188, 34.0, 600.0, 2430, 12481, "0x2BB5", _RTX_PRO_6000_PROFILES, 12, 4,
        ),
    )
}  # fmt: skip


class LayoutError(ValueError):
    """A MIG layout the hardware does not accept; the text names the rule."""


def place(model: GpuModel, names: Sequence[str]) -> tuple[Placement, ...]:
    """Put the named profiles on one GPU, largest first, backtracking over the allowed starts.

    Rule: starts only where the profile's table allows, no two instances on one memory slice, at most its
    compute slices, at most `limit` of a profile. Raises LayoutError with the rule that was broken.
    """
    profiles = [_known(model, name) for name in names]
    for profile in profiles:
        if sum(p.name == profile.name for p in profiles) > profile.limit:
            raise LayoutError(f"{model.key} holds at most {profile.limit} x {profile.name}")
    compute = sum(p.compute_slices for p in profiles)
    if compute > model.compute_slices:
        raise LayoutError(f"layout needs {compute} compute slices, a GPU has {model.compute_slices}")
    ordered = sorted(profiles, key=lambda p: (-p.memory_slices, -p.compute_slices, p.name))
    starts = _search(ordered, frozenset())
    if starts is None:
        raise LayoutError(f"no placement of {', '.join(names)} fits the {model.memory_slices} memory slices")
    chosen = sorted(zip(ordered, starts, strict=True), key=lambda pair: pair[1])
    return tuple(Placement(p, start, index + 1) for index, (p, start) in enumerate(chosen))


def _known(model: GpuModel, name: str) -> MigProfile:
    profile = model.profile(name)
    if profile is None:
        known = ", ".join(p.name for p in model.profiles) or "none: the model has no MIG"
        raise LayoutError(f"{model.key} has no MIG profile {name!r} (it has {known})")
    return profile


def _search(profiles: Sequence[MigProfile], taken: frozenset[int]) -> list[int] | None:
    if not profiles:
        return []
    first, rest = profiles[0], profiles[1:]
    for start in first.starts:
        cells = frozenset(range(start, start + first.memory_slices))
        if cells & taken:
            continue
        found = _search(rest, taken | cells)
        if found is not None:
            return [start, *found]
    return None
