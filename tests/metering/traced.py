"""Telemetry for tests: samples of a device as rows, busy or idle, whole or with holes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from django.db import transaction

from apps.cluster.models import Cluster
from apps.metering.findings.services import measuring
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.selectors.facts import gpu_of
from apps.metering.ledger.services import rollup
from apps.metering.models import Allocation, Device, HardwareFact
from apps.metering.telemetry.rules.sources.reading import COLUMNS, micros
from apps.metering.telemetry.services import partitions, sample_store
from apps.workloads.models import Workload
from apps.workloads.specs import Phase

NOW = datetime(2026, 11, 20, 15, 0, tzinfo=UTC)  # a Friday
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEP = timedelta(seconds=30)
HOUR = timedelta(hours=1)


def running(row: Workload, *, since: datetime, devices: int = 1, uuid: str = "GPU-1") -> list[Allocation]:
    """The workload runs, and holds so many whole devices named uuid-0, uuid-1 ..."""
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=since)
    row.refresh_from_db()
    numerator, denominator = row.offer.share_numerator, row.offer.share_denominator
    found = []
    for index in range(devices):
        name = f"{uuid}-{index}"
        held = Allocation.objects.create(
            cluster=row.cluster, tenant=row.tenant, workload=row, offer=row.offer,
            claim_uid=f"claim-{name}", node="gpu-01",
            device=f"gpu-01/{name}", device_uuid=name, share_numerator=numerator,
            share_denominator=denominator, started_at=since,
        )  # fmt: skip
        found.append(held)
        Device.objects.create(
            cluster=row.cluster, uuid=name, node="gpu-01", model=row.offer.flavor.model,
            first_seen_at=since, last_seen_at=since,
        )  # fmt: skip
    return found


def seen(
    name: str,
    begins: datetime,
    ends: datetime,
    *,
    busy: bool = False,
    frozen: bool = False,
    **given: int | None,
) -> None:
    """Samples of the device in (begins, ends], 30 s apart: idle with memory held, or at work; `frozen`
    repeats one row, and `given` columns stand in each.
    """
    device = Device.objects.get(uuid=name)
    rng, rows, at = Random(f"{name}{begins}"), {}, begins + STEP
    while at <= ends:
        jitter = 0.0 if frozen else rng.uniform(-0.02, 0.02)
        values = _busy(jitter) if busy else {"smi": 0, "power_mw": int(1000 * (72 + 100 * jitter))}
        idle = {"sm_active": 0, "sm_occupancy": 0, "tensor_active": 0, "dram_active": 0, "processes": 1}
        memory = {"memory_used_mib": 30_000, "memory_total_mib": 81_559}
        rows[at] = {**idle, **memory, **values, **given}
        at += STEP
    add_samples(device, rows)
    Device.objects.filter(pk=device.pk).update(last_seen_at=ends)


def add_samples(device: Device, rows: Mapping[datetime, Mapping[str, int | None]]) -> None:
    """Columns by the time of a sample, each of 30 s unless they say otherwise; what is there stays.

    As the collector stores them: with a model object per row it was a fifth of what these tests cost.
    """
    assert set().union(*rows.values()) <= {"seconds", *COLUMNS}
    partitions.ensure({(at - EPOCH).days for at in rows})
    stored = [
        (device.pk, micros(at) - sample_store.EPOCH, values.get("seconds", 30), *map(values.get, COLUMNS))
        for at, values in rows.items()
    ]
    with transaction.atomic():
        sample_store.add((), stored)


def summed_up(cluster: Cluster, until: datetime) -> None:
    """The ledger has all up to `until`, and findings cost what it says."""
    now = until + timedelta(minutes=6)
    for held in Allocation.objects.filter(cluster=cluster):
        same = {"cluster": cluster, "gpu": gpu_of(held)}
        if not HardwareFact.objects.filter(**same).exists():
            parts = held.share_denominator
            told = {
                ChangeKind.PRESENT: {"node": held.node, "model": "H100", "denominator": parts},
                ChangeKind.LAYOUT: {"instances": {held.device: held.share_numerator}},
            }
            for kind, value in told.items():
                HardwareFact.objects.create(
                    **same, kind=kind, value=value, at=held.started_at, recorded_at=held.started_at
                )
    measuring.price_rolled({UUID(pk) for pk in rollup.roll_up(now=now).tenants}, now=now)


def _busy(jitter: float) -> dict[str, int]:
    ratios = {"sm_active": 0.85, "sm_occupancy": 0.4, "tensor_active": 0.4, "dram_active": 0.5}
    found = {name: int(1e6 * (ratio + jitter)) for name, ratio in ratios.items()}
    return found | {"smi": 98, "power_mw": int(1000 * (600 + 100 * jitter))}
