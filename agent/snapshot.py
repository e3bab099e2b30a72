"""What one collection found: rows of devices, who holds them, and what could not be read and why. Pure."""

from dataclasses import dataclass

from agent.nvml import Process


@dataclass(frozen=True)
class Gpu:
    """What names a physical GPU. `index` is NVML's, `minor` that of /dev/nvidia<minor>."""

    index: int
    minor: int
    uuid: str
    pci_bus_id: str
    model: str


@dataclass(frozen=True)
class Instance:
    """A MIG device: a compute instance of a GPU instance.

    `whole`: it is its GPU instance's only compute instance, so that the counters of the GPU instance are its.
    `place` is (profile id, first memory slice), or None where the driver does not say.
    """

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    whole: bool
    place: tuple[int, int] | None


@dataclass(frozen=True)
class Holder:
    """A container that has a device, by the kubelet's word; `claim` and the rest by DRA, `vgpu` a replica."""

    namespace: str
    pod: str
    container: str
    vgpu: str = ""
    claim: str = ""
    claim_namespace: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


@dataclass(frozen=True)
class Gap:
    """Fields that could not be read on a device (empty: on none), and why."""

    fields: tuple[str, ...]
    where: str
    why: str

    def __str__(self) -> str:
        return f"{', '.join(self.fields)} unavailable on {self.where or 'this node'} because {self.why}"


@dataclass(frozen=True)
class Row:
    """One device: a GPU, or one of its MIG devices with the GPU's board values. A missing value is unknown.

    `span`: the seconds that its ratios and rates cover, 0 without any.
    """

    gpu: Gpu
    instance: Instance | None
    values: dict[str, float]
    processes: tuple[Process, ...] = ()
    holders: tuple[Holder, ...] = ()
    span: float = 0.0

    @property
    def uuid(self) -> str:
        """The UUID that a pod is given."""
        return self.instance.uuid if self.instance else self.gpu.uuid

    @property
    def name(self) -> str:
        """How people point at it: `GPU 0`, `GPU 0 MIG 3`, `GPU 0 MIG 3.1`."""
        if self.instance is None:
            return f"GPU {self.gpu.index}"
        part = "" if self.instance.whole else f".{self.instance.compute_instance}"
        return f"GPU {self.gpu.index} MIG {self.instance.gpu_instance}{part}"


@dataclass(frozen=True)
class Snapshot:
    """One collection. `taken` is seconds of the monotonic clock when it ended."""

    taken: float
    driver: str = ""
    host: str = ""
    rows: tuple[Row, ...] = ()
    gaps: tuple[Gap, ...] = ()
