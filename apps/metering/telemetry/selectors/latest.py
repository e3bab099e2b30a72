"""The last that telemetry told of each device of a node. Reads only; a part of the selectors' floor."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery

from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors import inventory as clusters
from apps.errors import NotFound
from apps.metering.models import Device, Sample

WITHIN = timedelta(days=1)
"""What was silent for longer, or was cut anew, has no last sample."""
THROTTLES = {
    0x1: "GPU idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""NVML's clock event reasons."""
MILLION = 1_000_000
RATIOS = {
    "sm_active": "SM active",
    "sm_occupancy": "SM occupancy",
    "tensor_active": "Tensor active",
    "fp64_active": "FP64 pipe",
    "fp32_active": "FP32 pipe",
    "fp16_active": "FP16 pipe",
    "dram_active": "DRAM active",
}
RATES = {"pcie_tx": "PCIe sent", "pcie_rx": "PCIe received", "nvlink": "NVLink"}


@dataclass(frozen=True)
class Last:
    """A device with its last sample; without one all of it is unknown."""

    device: Device
    sample: Sample | None

    def ratio(self, name: str) -> float | None:
        """One of RATIOS, 0 to 1."""
        value = self._of(name)
        return None if value is None else value / MILLION

    def number(self, name: str, per: int = 1) -> float | None:
        """A figure in larger units: milliwatts per 1000 are watts."""
        value = self._of(name)
        return None if value is None else value / per

    @property
    def throttled(self) -> list[str] | None:
        """Why the clocks are lowered; empty: they are not."""
        mask = self._of("throttle")
        return None if mask is None else [word for bit, word in THROTTLES.items() if mask & bit]

    def _of(self, name: str) -> int | None:
        return None if self.sample is None else getattr(self.sample, name)


def of_node(actor: Actor, name: str, *, now: datetime) -> Sequence[Last]:
    """Of the devices that were heard of within a day, by GPU and instance; raises NotFound for who does not
    see the node.
    """
    found = next((each for each in clusters.nodes_for(actor) if name in (each.view.name, each.uid)), None)
    if found is None:
        raise NotFound
    since = now - WITHIN
    devices = Device.objects.filter(cluster=found.cluster, node=found.view.name, last_seen_at__gt=since)
    newest = Sample.objects.filter(device=OuterRef("device"), ts__gt=since).order_by("-ts").values("ts")[:1]
    rows = Sample.objects.filter(device__in=devices, ts__gt=since, ts=Subquery(newest))
    samples = {row.device_id: row for row in rows}
    ordered = devices.order_by("uuid", "gpu_instance", "compute_instance")
    return [Last(device, samples.get(device.pk)) for device in ordered]
