"""A small fleet's facts, written straight into the tables, and what the ledger makes of them."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from apps.cluster.models import Cluster
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.services import invalidation, rollup
from apps.metering.models import (
    AccountSum,
    Allocation,
    Bucket,
    Device,
    DirtySpan,
    HardwareFact,
    RollPosition,
)
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import NOW, make_workload
from tests.metering.traced import add_samples

AT = NOW
"""09:00 on a Friday: an hour, but not a day, begins."""
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
BUCKET = timedelta(seconds=300)
STEP = timedelta(seconds=30)


class Books:
    """The ledger of one cluster. Every fact marks its time, as the product's own writers do."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.cluster: Cluster = cast.vision.cluster

    def fact(self, gpu: str, kind: ChangeKind, at: datetime, **value: Any) -> None:
        HardwareFact.objects.create(
            cluster=self.cluster, gpu=gpu, kind=kind, at=at, value=value, recorded_at=at
        )
        invalidation.mark(self.cluster, [(gpu, at, self.until(at))])

    def whole(self, gpu: str = "GPU-1", at: datetime = AT) -> str:
        self.fact(gpu, ChangeKind.PRESENT, at, node="n1", model="H100", denominator=1)
        self.fact(gpu, ChangeKind.LAYOUT, at, instances={f"n1/{gpu}": 1})
        return gpu

    def cut(self, gpu: str = "GPU-2", at: datetime = AT, *, parts: int = 7, **instances: int) -> str:
        self.fact(gpu, ChangeKind.PRESENT, at, node="n1", model="H100", denominator=parts)
        self.fact(gpu, ChangeKind.LAYOUT, at, instances={f"n1/{name}": n for name, n in instances.items()})
        return gpu

    def pool(self, at: datetime = AT, *, gpus: int = 2, replicas: int = 4) -> str:
        gpu = "n1/nvidia.com/gpu.shared"
        self.fact(
            gpu, ChangeKind.PRESENT, at, node="n1", model="T4", denominator=replicas, size=gpus, pool=True
        )
        return gpu

    def workload(self, tenant: str = "vision") -> Workload:
        """Asked for a day before the books begin."""
        row = make_workload(
            getattr(self.cast, tenant), self.cast.rosa, self.cast.offer, slug=f"w-{uuid4().hex[:6]}"
        )
        Workload.objects.filter(pk=row.pk).update(created_at=AT - 24 * HOUR)
        return row

    def hold(
        self,
        gpu: str,
        begins: datetime = AT,
        ends: datetime | None = None,
        *,
        name: str = "",
        row: Workload | None = None,
    ) -> Allocation:
        """An allocation of the whole GPU, or of the instance or share of that name."""
        row = row or self.workload()
        made = Allocation.objects.create(
            cluster=self.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid=uuid4().hex, node="n1", gpu=gpu,
            device=name or f"n1/{gpu}", device_uuid=f"MIG-{name}" if name.startswith("n1/m") else gpu,
            share_numerator=1, share_denominator=1, started_at=begins, ended_at=ends,
        )  # fmt: skip
        invalidation.mark(self.cluster, [(gpu, begins, ends or self.until(begins))])
        return made

    def device(self, gpu: str, instance: str = "") -> Device:
        found, _ = Device.objects.get_or_create(
            cluster=self.cluster, uuid=gpu, gpu_instance=1 if instance else -1,
            profile=instance, instance_uuid=f"MIG-{instance}" if instance else "",
            defaults={"node": "n1", "first_seen_at": AT, "last_seen_at": AT},
        )  # fmt: skip
        return found

    def see(self, device: Device, times: Iterable[datetime], **values: Any) -> None:
        """Samples that came now; a value may be a function of their time. Repeated ones change nothing."""
        values = {"sm_active": 500_000, "dram_active": 100_000, "seconds": 30} | values
        rows = {ts: {name: v(ts) if callable(v) else v for name, v in values.items()} for ts in times}
        add_samples(device, rows)
        invalidation.mark(self.cluster, [(device.uuid, ts - STEP, ts + 2 * STEP) for ts in rows])

    def every(self, begins: datetime, ends: datetime) -> list[datetime]:
        """The moments at which a collection of 30 s ends in a time."""
        return [begins + STEP * n for n in range(1, (ends - begins) // STEP + 1)]

    def until(self, least: datetime) -> datetime:
        """Up to where marks must go: what time has made already."""
        position = RollPosition.objects.filter(cluster=self.cluster).first()
        return max(position.until if position else least, least + timedelta(microseconds=1))

    def roll(self, now: datetime) -> rollup.Rolled:
        return rollup.roll(self.cluster, now=now)

    def anew(self, now: datetime) -> None:
        """Forget everything that was made, and make it from facts."""
        Bucket.objects.all().delete()
        AccountSum.objects.all().delete()
        RollPosition.objects.all().delete()
        DirtySpan.objects.all().delete()
        self.roll(now)


def stored(level: int | None = None) -> list[tuple[Any, ...]]:
    """Every column of every bucket but its number, in the order of its key."""
    names = [field.attname for field in Bucket._meta.concrete_fields if field.name != "id"]
    rows = Bucket.objects.all() if level is None else Bucket.objects.filter(level=level)
    order = ("level", "gpu", "starts_at", "account", "reason", "holder")
    return [
        tuple(tuple(value) if isinstance(value, list) else value for value in row)
        for row in rows.order_by(*order).values_list(*names)
    ]
