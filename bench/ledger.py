"""G11: the product's roll-ups against its raw samples, after each thing that telemetry does to a collector.

Samples come through `ingest.store` as a source hands them over; allocations begin and end at any microsecond.
Equal means: every sum as an integer at all three levels, and every amount of money to its last decimal.
"""

import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from bench.raw import raw_sums
from bench.usage import money
from bench.week import _Owners

Line = dict[str, object]
STEP = timedelta(seconds=30)
BEGINS = datetime(2026, 3, 2, tzinfo=UTC)
TENANTS = ["ledger-a", "ledger-b", "ledger-c"]
SUMS = {
    "us": "seen_us", "smi": "smi_sum", "sm": "sm_sum", "tensor": "tensor_sum", "dram": "dram_sum",
    "effective": "effective", "idle": "idle", "partly": "partly",
}  # fmt: skip


def equal(gpus: int, hours: int) -> Iterator[Line]:
    """A line per thing that happened; a difference ends the run."""
    told = _Told(gpus, hours)
    steps: list[tuple[str, Callable[[], int]]] = [
        ("in order, half of it twice, two hours of a third of the GPUs withheld", told.first),
        ("everything replayed", told.first),
        ("late: what was withheld", told.withheld),
        ("everything replayed twice in each batch", told.doubled),
        ("all of it in any order", told.shuffled),
    ]
    for what, step in steps:
        began = time.perf_counter()
        stored = step()
        rows = told.roll()
        took = round(time.perf_counter() - began, 1)
        compared = told.compared()
        yield {"round": f"g11 {what}", "stored": stored, "rows": rows, "compared": compared, "seconds": took}
    samples = gpus * hours * 120
    yield {"what": "g11 figures that differ from the raw samples", "goal": 0, "ratio": 0, "samples": samples}


class _Told:
    """A small fleet whose every sample is known."""

    def __init__(self, gpus: int, hours: int) -> None:
        from apps.metering.models import Allocation, HardwareFact
        from tests import factories

        self.chance = random.Random(11)
        self.ends = BEGINS + timedelta(hours=hours)
        self.cluster = factories.make_cluster("bench-ledger")
        owners = _Owners(self.cluster, TENANTS, BEGINS)
        self.gpus = [f"GPU-{n:08d}-2222-0000-0000-000000000000" for n in range(gpus)]
        for index, gpu in enumerate(self.gpus):
            for kind, value in (
                ("present", {"node": "n1", "model": "H100", "denominator": 1}),
                ("layout", {"instances": {f"n1/{gpu}": 1}}),
            ):
                HardwareFact.objects.create(
                    cluster=self.cluster, gpu=gpu, kind=kind, at=BEGINS, value=value, recorded_at=BEGINS
                )
            for first, last in self._spans():
                row = self.chance.choice(owners.works[TENANTS[index % 3]])
                Allocation.objects.create(
                    cluster=self.cluster, tenant=row.tenant, workload=row,
                    offer=owners.offer, claim_uid=f"{gpu}-{first.timestamp()}", node="n1", gpu=gpu,
                    device=f"n1/{gpu}", device_uuid=gpu, share_numerator=1, share_denominator=1,
                    started_at=first, ended_at=last,
                )  # fmt: skip
        self.batches = [self._batch(BEGINS + timedelta(minutes=10 * n)) for n in range(hours * 6)]

    def first(self) -> int:
        """All but what is withheld; every other batch holds its readings twice."""
        return sum(
            self._store(self._twice(batch) if number % 2 else batch)
            for number, batch in enumerate([r for r in each if not self._is_late(r)] for each in self.batches)
        )

    def withheld(self) -> int:
        """The rest."""
        return sum(self._store([r for r in batch if self._is_late(r)]) for batch in self.batches)

    def doubled(self) -> int:
        """Every batch with its readings twice."""
        return sum(self._store(self._twice(batch)) for batch in self.batches)

    @staticmethod
    def _twice(batch: list[Any]) -> list[Any]:
        """The second time with another device's values: those must not count."""
        return [*batch, *(each._replace(values=batch[0].values) for each in batch)]

    def shuffled(self) -> int:
        """As a collector that reads the same past again and again."""
        every = [reading for batch in self.batches for reading in batch]
        self.chance.shuffle(every)
        return self._store(every)

    def roll(self) -> int:
        """Rows written until nothing is marked."""
        from apps.metering.ledger.services import rollup

        return rollup.roll(self.cluster, now=self.ends + timedelta(minutes=10)).rows

    def compared(self) -> int:
        """How many figures were compared, and are equal."""
        raw = raw_sums(self.cluster, BEGINS, self.ends)
        found: dict[Any, Any] = {}
        for level in (300, 3600, 86_400):
            for slug, sums in raw.items():
                for name, value in self._rolled(level, slug).items():
                    found[level, slug, name] = (value, sums[name])
        found |= self._spent(raw)
        wrong = {key: both for key, both in found.items() if both[0] != both[1]}
        if wrong or not found:
            raise AssertionError(f"roll-ups and raw samples differ: {wrong}")
        return len(found)

    def _rolled(self, level: int, slug: str) -> dict[str, int]:
        from django.db.models import Max, Sum

        from apps.metering.models import Bucket

        rows = Bucket.objects.filter(cluster=self.cluster, level=level, tenant__slug=slug)
        sums = rows.aggregate(**{name: Sum(column) for name, column in SUMS.items()}, sm_max_=Max("sm_max"))
        return {name: int(sums[name]) for name in SUMS} | {"sm_max": int(sums["sm_max_"])}

    def _spent(self, raw: dict[str, dict[str, int]]) -> dict[Any, Any]:
        """Effective and wasted money as exact fractions are cut to decimals once, on both sides."""
        from apps.metering.billing.rules import pricing
        from apps.metering.billing.selectors import charges
        from apps.metering.models import Allocation
        from apps.tenants.models import Tenant

        rows = Allocation.objects.filter(cluster=self.cluster)
        exact = charges.charges(rows, BEGINS, self.ends, now=self.ends)
        slugs = dict(Tenant.objects.values_list("pk", "slug"))
        return {
            ("money", slugs[lane.tenant], name): (
                pricing.amount(told.parts()[name]),
                money(Fraction(raw[slugs[lane.tenant]][name], 1_000_000)),
            )
            for lane, told in exact.items()
            for name in ("effective", "idle", "partly")
        }

    def _spans(self) -> Iterator[tuple[datetime, datetime]]:
        at = BEGINS + timedelta(microseconds=self.chance.randrange(3_600_000_000))
        while True:
            last = at + timedelta(microseconds=self.chance.randrange(600_000_000, 6 * 3_600_000_000))
            if last >= self.ends:
                return
            yield at, last
            at = last + timedelta(microseconds=self.chance.randrange(1, 1_800_000_000))

    def _batch(self, begins: datetime) -> list[Any]:
        from apps.metering.telemetry.rules.sources.reading import COLUMNS, DeviceLabels, Reading, micros

        found = []
        for gpu in self.gpus:
            device = DeviceLabels(uuid=gpu, node="n1", model="H100")
            for n in range(1, 21):
                at = begins + n * STEP
                sm = self.chance.choice((self.chance.randrange(20_000), self.chance.randrange(1_000_001)))
                told = {
                    "smi": self.chance.randrange(101), "sm_active": sm, "tensor_active": sm // 3,
                    "dram_active": self.chance.randrange(25_000), "energy_mj": micros(at),
                    "power_mw": 300_000,
                }  # fmt: skip
                found.append(Reading(device, micros(at), tuple(told.get(name) for name in COLUMNS)))
        return found

    def _is_late(self, reading: Any) -> bool:
        hour = (reading.ts // 3_600_000_000) % 24
        return self.gpus.index(reading.device.uuid) % 3 == 0 and hour in {3, 4}

    def _store(self, readings: list[Any]) -> int:
        from apps.metering.specs import Source
        from apps.metering.telemetry.services.ingest import ingest

        now = self.ends + timedelta(minutes=5)
        return ingest(self.cluster, readings, source=Source.DCGM, step=STEP, now=now).stored
