"""Samples of a GPU as an exporter sends them, minute by minute."""

from datetime import UTC, datetime, timedelta

from apps.cluster.models import Cluster
from apps.metering.specs import Source
from apps.metering.telemetry.rules.sources.reading import COLUMNS, DeviceLabels, Reading, micros
from apps.metering.telemetry.services.ingest import ingest

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
STEP = timedelta(seconds=30)
PIPES = ("tensor_active", "fp64_active", "fp32_active", "fp16_active")
PROFILED = ("sm_active", "dram_active", "sm_occupancy", *PIPES)
GPU = DeviceLabels(uuid="GPU-1", node="h100-0")


def send(cluster: Cluster, minutes: float, device: DeviceLabels = GPU, **told: int | None) -> None:
    """One sample; energy grows unless it is told."""
    when = NOON + timedelta(minutes=minutes)
    values: dict[str, int | None] = dict.fromkeys((*PROFILED, "memory_used_mib"), 1)
    row = tuple((values | {"energy_mj": int(minutes * 1000)} | told).get(name) for name in COLUMNS)
    ingest(cluster, [Reading(device, micros(when), row)], source=Source.DCGM, step=STEP, now=when)
