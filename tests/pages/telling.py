"""What the record tells."""

from datetime import timedelta

from apps.metering.models import Device, Sample
from apps.metering.telemetry.services import partitions
from tests.pages.conftest import Scene


def tell(scene: Scene) -> None:
    """Two devices of gpu-01: one sends everything but NVLink, the other was heard of and said nothing."""
    partitions.keep(scene.now - timedelta(days=1), timedelta(days=9))
    seen = {"first_seen_at": scene.now - timedelta(days=3), "last_seen_at": scene.now}
    cluster = scene.cast.vision.cluster
    first, _ = (
        Device.objects.create(cluster=cluster, uuid=f"GPU-{n}", node="gpu-01", **seen) for n in (1, 2)
    )
    gone = {**seen, "last_seen_at": scene.now - timedelta(days=2)}
    Device.objects.create(cluster=cluster, uuid="GPU-3", node="gpu-01", **gone)
    for minutes, occupancy in ((5, 500_000), (1, 250_000)):
        Sample.objects.create(
            device=first, ts=scene.now - timedelta(minutes=minutes), smi=98, sm_active=900_000,
            sm_occupancy=occupancy, fp32_active=125_000, pcie_tx=2_500_000, sm_clock_mhz=1980,
            throttle=0x4 | 0x40, celsius=71, power_mw=652_400, energy_mj=7_200_000_000,
        )  # fmt: skip
