"""Roll-ups for tests of pages and REST: what a workload held and did, as `rolling` would have left it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from apps.cluster.models import Cluster
from apps.metering.ledger.services import account_sums
from apps.metering.models import Allocation, Bucket, RollPosition
from apps.metering.specs import Account
from apps.workloads.models import Workload

LEVELS = (300, 3600, 86_400)
MICRO = 1_000_000
SUMS = (
    "share_us", "held_us", "seen_us", "samples", "smi_us", "sm_us", "tensor_us", "dram_us", "smi_sum",
    "sm_sum", "tensor_sum", "dram_sum", "effective", "partly", "idle", "blind_idle", "hoarded",
    "zombie",
)  # fmt: skip


@dataclass(frozen=True)
class Did:
    """What a device did all the time: ratios, None: not measured; its rest goes to `cause`."""

    smi: float | None = 0.98
    sm: float | None = 0.03
    tensor: float = 0.0
    dram: float = 0.01
    cause: str = "hoarded"


WORKS = Did(smi=0.99, sm=0.81, tensor=0.4, dram=0.5, cause="partly")
HOARDS = Did()
SILENT = Did(sm=None)
SLICED = Did(smi=None, sm=0.6, dram=0.3, cause="partly")


def hold(
    row: Workload, gpu: tuple[str, str], begins: datetime, ends: datetime, did: Did = WORKS
) -> Allocation:
    """`row` held (node, uuid) in [begins, ends), both whole buckets of 300 s; open if it ends now."""
    node, uuid = gpu
    made = Allocation.objects.create(
        cluster=row.cluster, tenant=row.tenant, workload=row,
        offer=row.offer, claim_uid=str(uuid4()), node=node,
        device=f"{node}/{uuid}", device_uuid=uuid, share_numerator=row.offer.share_numerator,
        share_denominator=row.offer.share_denominator, started_at=begins, ended_at=ends,
    )  # fmt: skip
    same = {
        "cluster": row.cluster, "gpu": uuid, "node": node, "model": row.offer.flavor.model,
        "account": Account.TENANT, "holder": str(made.pk), "allocation": made, "workload": row,
        "tenant": row.tenant, "offer": row.offer, "denominator": row.offer.share_denominator,
    }  # fmt: skip
    figures = _figures(did, row.offer.share_numerator)
    _store(same, figures, begins, ends)
    return made


def rest(cluster: Cluster, gpu: tuple[str, str], begins: datetime, ends: datetime, reason: str) -> None:
    """Nobody had it."""
    node, uuid = gpu
    same = {
        "cluster": cluster, "gpu": uuid, "node": node, "account": Account.IDLE, "reason": reason,
        "denominator": 1,
    }  # fmt: skip
    _store(same, {"share_us": 300 * MICRO, "held_us": 300 * MICRO}, begins, ends)


def reach(cluster: Cluster, since: datetime, until: datetime) -> None:
    """The ledger is rolled up in [since, until)."""
    RollPosition.objects.update_or_create(cluster=cluster, defaults={"since": since, "until": until})


def floor(at: datetime, level: int = 300) -> datetime:
    """The beginning of the bucket."""
    seconds = int(at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % level, UTC)


def _figures(did: Did, numerator: int) -> dict[str, Any]:
    held = 300 * MICRO
    found: dict[str, Any] = {"share_us": held * numerator, "held_us": held}
    if did.sm is None:
        return found
    found |= {"seen_us": held, "samples": 10, "sm_us": held, "tensor_us": held, "dram_us": held}
    if did.smi is not None:
        found |= {"smi_us": held, "smi_sum": held * _millionths(did.smi)}
    worked = _millionths(max(did.sm, did.dram))
    found |= {f"{name}_sum": held * _millionths(getattr(did, name)) for name in ("sm", "tensor", "dram")}
    return found | {"effective": held * worked, did.cause: held * (MICRO - worked)}


def _millionths(ratio: float) -> int:
    return round(ratio * MICRO)


def _store(same: dict[str, Any], figures: dict[str, Any], begins: datetime, ends: datetime) -> None:
    for level in LEVELS:
        Bucket.objects.bulk_create(_rows(same, figures, level, _counted(begins, ends, level)), batch_size=400)
    account_sums.remake(same["cluster"], (floor(begins, LEVELS[-1]), ends))


def _counted(begins: datetime, ends: datetime, level: int) -> dict[datetime, int]:
    found: dict[datetime, int] = {}
    at = begins
    while at < ends:
        start = floor(at, level)
        found[start] = found.get(start, 0) + 1
        at += timedelta(seconds=300)
    return found


def _rows(
    same: dict[str, Any], figures: dict[str, Any], level: int, counted: dict[datetime, int]
) -> Iterable[Bucket]:
    for starts_at, times in counted.items():
        sums = {name: figures.get(name, 0) * times for name in SUMS}
        yield Bucket(level=level, starts_at=starts_at, **same, **sums)
