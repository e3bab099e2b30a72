"""Roll-ups as the ledger writes them, made from what was done every 5 minutes, by chance or by ratio."""

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random

from apps.metering.models import Allocation, Bucket

MILLION = 1_000_000
FINE = timedelta(seconds=300)
FIGURES = ("effective", "hoarded", "zombie", "idle", "partly")
Done = dict[str, int]


def roll(row: Allocation, until: datetime, rng: Random | None = None, **ratio: float) -> None:
    """Buckets of one allocation up to `until` at all three levels; each bucket by chance, or by `ratio`."""
    fine: dict[datetime, Done] = {}
    ends = min(row.ended_at or until, until)
    at = floor(row.started_at, 300)
    while at < ends:
        held = micros(min(ends, at + FINE) - max(row.started_at, at))
        fine[at] = _done(held, rng, ratio)
        at += FINE
    for level in (300, 3600, 86400):
        sums: dict[datetime, Done] = defaultdict(lambda: defaultdict(int))
        for begins, done in fine.items():
            for name, value in done.items():
                sums[floor(begins, level)][name] += value
        Bucket.objects.bulk_create(_bucket(row, level, begins, done) for begins, done in sums.items())


def _done(held: int, rng: Random | None, ratio: dict[str, float]) -> Done:
    if rng is None:
        parts = {name: round(held * ratio.get(name, 0) * MILLION) for name in FIGURES}
        return {"held_us": held, "seen_us": sum(parts.values()) // MILLION, **parts}
    seen = rng.choice((0, held, rng.randint(0, held)))
    cuts = sorted(rng.randint(0, seen * MILLION) for _ in FIGURES[1:])
    edges = [0, *cuts, seen * MILLION]
    parts = dict(zip(FIGURES, (b - a for a, b in pairwise(edges)), strict=True))
    return {"held_us": held, "seen_us": seen, **parts}


def _bucket(row: Allocation, level: int, begins: datetime, done: Done) -> Bucket:
    return Bucket(
        level=level, starts_at=begins, cluster_id=row.cluster_id, gpu=row.device, account="tenant",
        holder=str(row.pk), allocation=row, workload=row.workload, tenant=row.tenant,
        offer_id=row.offer_id, denominator=7, share_us=done["held_us"],
        sm_sum=done["effective"] // 2, sm_us=done["seen_us"], **done,
    )  # fmt: skip


def floor(at: datetime, level: int) -> datetime:
    return datetime.fromtimestamp(at.timestamp() // level * level, at.tzinfo)


def micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def decimals(*values: int | str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, values))
