"""A week of a fleet, written by the database: raw samples every 30 s, and the roll-ups that they make.

Python would take an hour for 20,000,000 samples. What SQL wrote is compared with what the product makes of
the same facts, for the GPUs that `checked` draws; a difference ends the run. Roll-ups are stored by time, as
the product stores them: else one hour of 1,000 GPUs would lie in 1,000 blocks.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

DAYS = 7
STEP = 30
DAY = timedelta(days=1)
PER_GPU = DAYS * 86_400 // STEP
PER_TENANT = 50
WORKS = 40
GUARANTEED = 20
"""Devices of a tenant, which holds more at most times, and borrows them."""
HOURLY = "2.94"
_US = f"{STEP * 1_000_000}::int8"


@dataclass(frozen=True)
class Week:
    """What was made: `tenants` by slug; the ledger reaches over [begins, ends)."""

    cluster: Any
    tenants: list[str]
    gpus: list[str]
    begins: datetime
    ends: datetime
    samples: int


def make(samples: int, *, per_tenant: int = PER_TENANT, works: int = WORKS) -> Week:
    """At least so many samples: GPUs of tenants with so many each, held by one of their workloads after the
    other.
    """
    from tests import factories

    count = max(10, -(-samples // PER_GPU))
    ends = _floor(datetime.now(UTC))
    begins = ends - DAYS * DAY
    cluster = factories.make_cluster("bench-week")
    slugs = [f"team-{n}" for n in range(max(2, round(count / per_tenant)))]
    gpus = [f"GPU-{n:08d}-1111-0000-0000-000000000000" for n in range(count)]
    _fleet(cluster, gpus, begins)
    _held(_Owners(cluster, slugs, begins, works), gpus, begins, ends)
    stored = _samples(cluster, begins, ends)
    _roll_ups(cluster, begins, ends)
    return Week(cluster, slugs, gpus, begins, ends, stored)


def checked(week: Week, gpus: int = 3) -> int:
    """How many roll-ups of these GPUs on the last full day are what the product makes of the facts."""
    from apps.metering.ledger.selectors import facts
    from apps.metering.ledger.services.bucket_store import Book, summed

    chosen = random.Random(len(week.gpus)).sample(week.gpus, gpus)
    window = (_floor(week.ends, 86_400) - DAY, _floor(week.ends, 86_400))
    fine = facts.compute(week.cluster, chosen, *window).rows
    hours = summed(fine, 3600)
    book, count = Book(week.cluster, {}), 0
    for level, rows in ((300, fine), (3600, hours), (86_400, summed(hours, 86_400))):
        if book.read(level, chosen, window) != {spot: list(found) for spot, found in rows.items() if found}:
            raise AssertionError(f"the roll-ups of {level} s are not those of the product")
        count += len(rows)
    return count


class _Owners:
    """Tenants with a few workloads each, of one offer at one price."""

    def __init__(self, cluster: Any, slugs: list[str], begins: datetime, works: int = WORKS) -> None:
        from apps.quotas.models import Price, Quota
        from apps.workloads.spec import parsing
        from tests import factories

        self.cluster = cluster
        flavor = factories.make_flavor(cluster, slug=f"{cluster.slug}-h100")
        self.offer = factories.make_offer(flavor, f"{cluster.slug}-whole", profile="", hourly=HOURLY)
        Price.objects.filter(offer=self.offer).update(valid_from=begins - DAY)
        department = factories.make_department(cluster, f"{cluster.slug}-research")
        spec = parsing.as_json(parsing.parse(factories.notebook_body(self.offer.slug)))
        self.works: dict[str, list[Any]] = {}
        for slug in slugs:
            tenant = factories.make_tenant(department, slug)
            Quota.objects.create(tenant=tenant, offer=self.offer, nominal_quota=GUARANTEED)
            people = [factories.make_user(f"{slug}-{n}") for n in range(5)]
            for person in people:
                factories.join(tenant, person)
            self.works[slug] = [
                factories.make_workload(tenant, people[n % 5], self.offer, slug=f"job-{n}", spec=spec)
                for n in range(works)
            ]


def _fleet(cluster: Any, gpus: list[str], begins: datetime) -> None:
    from apps.metering.models import Device, HardwareFact

    nodes = {gpu: f"h100-{index // 8}" for index, gpu in enumerate(gpus)}
    Device.objects.bulk_create(
        Device(
            cluster=cluster,
            uuid=gpu,
            node=nodes[gpu],
            model="H100",
            first_seen_at=begins,
            last_seen_at=begins,
        )
        for gpu in gpus
    )
    there: list[tuple[str, Callable[[str], dict[str, object]]]] = [
        ("present", lambda gpu: {"node": nodes[gpu], "model": "H100", "denominator": 1}),
        ("layout", lambda gpu: {"instances": {f"{nodes[gpu]}/{gpu}": 1}}),
    ]
    HardwareFact.objects.bulk_create(
        HardwareFact(cluster=cluster, gpu=gpu, kind=kind, at=begins, value=value(gpu), recorded_at=begins)
        for gpu in gpus
        for kind, value in there
    )


def _held(owners: _Owners, gpus: list[str], begins: datetime, ends: datetime) -> None:
    from apps.metering.models import Allocation

    slugs, chance = list(owners.works), random.Random(7)
    per_tenant = -(-len(gpus) // len(slugs))
    Allocation.objects.bulk_create(
        (
            Allocation(
                cluster=owners.cluster,
                tenant=row.tenant,
                workload=row,
                offer=owners.offer,
                claim_uid=uuid4().hex,
                node=f"h100-{index // 8}",
                gpu=gpu,
                device=f"h100-{index // 8}/{gpu}",
                device_uuid=gpu,
                share_numerator=1,
                share_denominator=1,
                started_at=first,
                ended_at=last if last < ends else None,
            )
            for index, gpu in enumerate(gpus)
            for first, last in _spans(chance, begins, ends)
            for row in (chance.choice(owners.works[slugs[index // per_tenant]]),)
        ),
        batch_size=2000,
    )
    _lived()


def _lived() -> None:
    """What holds a GPU runs, what held one is over, and the rest waits for its first."""
    from apps.metering.models import Allocation
    from apps.workloads.models import Workload
    from apps.workloads.specs import Phase

    held = Allocation.objects.values("workload")
    Workload.objects.filter(pk__in=held).update(phase=Phase.SUCCEEDED)
    Workload.objects.filter(pk__in=held.filter(ended_at=None)).update(phase=Phase.RUNNING)


def _spans(chance: random.Random, begins: datetime, ends: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Hours of work with pauses, in whole buckets: what lies inside one is the matter of G11."""
    at = begins + timedelta(seconds=300 * chance.randrange(12))
    while at < ends:
        last = at + timedelta(seconds=300 * chance.randrange(48, 360))
        yield at, last
        at = last + timedelta(seconds=300 * chance.randrange(1, 12))


_SAMPLES = """
INSERT INTO metering_sample (device_id, ts, seconds, smi, sm_active, sm_occupancy, tensor_active, dram_active,
    memory_used_mib, memory_total_mib, power_mw, energy_mj, pcie_tx, pcie_rx, sm_clock_mhz, celsius, xid)
SELECT id, ts, 30, 97, sm, sm / 2, sm / 3, sm / 2 + chance %% 977, 20000 + chance %% 40000, 81559,
    200000 + chance %% 400000, at * 400000, chance %% 1000000007, chance %% 500000003, 1410,
    40 + chance %% 40, 0
FROM (
    SELECT d.id, ts, at, chance,
        CASE WHEN hashint8(d.id * 1000003 + at / 3600) & 3 = 0 THEN chance %% 15000
             ELSE 200000 + chance %% 780000 END AS sm
    FROM metering_device d, generate_series(%s::timestamptz + interval '30 s', %s, interval '30 s') ts,
        LATERAL (SELECT extract(epoch FROM ts)::int8 AS at) seconds,
        LATERAL (SELECT hashint8(d.id * 100000007 + at) & 2147483647 AS chance) drawn
    WHERE d.cluster_id = %s
) made
"""


def _samples(cluster: Any, begins: datetime, ends: datetime) -> int:
    from django.db import connection

    from apps.metering.telemetry.services import partitions

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    partitions.ensure(range((begins - epoch).days, (ends - epoch).days + 1))
    stored = 0
    with connection.cursor() as cursor:
        # Without figures of what was just written its plans are luck: one ran for ten minutes.
        cursor.execute("ANALYZE")
        for day in range(DAYS):
            first = begins + day * DAY
            cursor.execute(_SAMPLES, [first, first + DAY, cluster.pk])
            stored += cursor.rowcount
        cursor.execute("ANALYZE metering_sample")
    return stored


_TENTHS = ", ".join(
    f"{_US} * count(*) FILTER (WHERE least(9, sm_active * 10::int8 / 1000000) = {n})" for n in range(10)
)
_WORK = "greatest(sm_active, dram_active)"
_FIGURES = {
    "seen_us": f"{_US} * count(*)", "samples": "count(*)", "smi_us": f"{_US} * count(*)",
    "sm_us": f"{_US} * count(*)", "tensor_us": f"{_US} * count(*)", "dram_us": f"{_US} * count(*)",
    "smi_sum": f"{_US} * 10000 * sum(smi)", "sm_sum": f"{_US} * sum(sm_active)",
    "tensor_sum": f"{_US} * sum(tensor_active)", "dram_sum": f"{_US} * sum(dram_active)",
    "effective": f"{_US} * sum({_WORK})",
    "partly": f"{_US} * coalesce(sum(1000000 - {_WORK}) FILTER (WHERE {_WORK} >= 20000), 0)",
    "idle": f"{_US} * coalesce(sum(1000000 - {_WORK}) FILTER (WHERE {_WORK} < 20000), 0)",
    "power_us_mw": f"{_US} * sum(power_mw)",
}  # fmt: skip
_MOST = {"sm_max": "max(sm_active)", "memory_max_mib": "max(memory_used_mib)"}
_OWN = "allocation_id, workload_id, tenant_id, offer_id"
_COLUMNS = (
    f"level, starts_at, cluster_id, gpu, node, model, account, reason, holder, {_OWN}, denominator,"
    f" share_us, held_us, hoarded, zombie, {', '.join(_FIGURES)}, {', '.join(_MOST)}, histogram"
)
_FINE = f"""
INSERT INTO metering_bucket ({_COLUMNS})
SELECT 300, at, d.cluster_id, d.uuid, d.node, d.model, CASE WHEN a.id IS NULL THEN 'idle' ELSE 'tenant' END,
    CASE WHEN a.id IS NULL THEN 'free' ELSE '' END, coalesce(a.id::text, ''), a.id, a.workload_id,
    w.tenant_id, a.offer_id, 1, 300000000, 300000000, 0, 0,
    {", ".join(f"CASE WHEN a.id IS NULL THEN 0 ELSE p.{name} END" for name in _FIGURES)},
    {", ".join(f"CASE WHEN a.id IS NULL THEN NULL ELSE p.{name} END" for name in _MOST)},
    CASE WHEN a.id IS NULL THEN '[0,0,0,0,0,0,0,0,0,0]'::jsonb ELSE p.histogram END
FROM (
    SELECT device_id, date_bin('300 s', ts - interval '30 s', 'epoch') AS at,
        {", ".join(f"{sql} AS {name}" for name, sql in {**_FIGURES, **_MOST}.items())},
        jsonb_build_array({_TENTHS}) AS histogram
    FROM metering_sample WHERE ts > %s AND ts <= %s GROUP BY 1, 2
) p JOIN metering_device d ON d.id = p.device_id
LEFT JOIN metering_allocation a ON a.gpu = d.uuid AND a.started_at <= at
    AND (a.ended_at IS NULL OR a.ended_at >= at + interval '300 s')
LEFT JOIN workloads_workload w ON w.id = a.workload_id
WHERE d.cluster_id = %s
ORDER BY at, gpu
"""  # noqa: S608 - our own columns
_SUMMED = ("share_us", "held_us", "hoarded", "zombie", *_FIGURES)
_COARSER = f"""
INSERT INTO metering_bucket ({_COLUMNS})
SELECT %s, date_bin(%s, starts_at, 'epoch') AS at, cluster_id, gpu, max(node), max(model), account, reason,
    holder, {_OWN}, 1, {", ".join(f"sum({name})" for name in _SUMMED)},
    {", ".join(f"max({name})" for name in _MOST)},
    jsonb_build_array({", ".join(f"sum((histogram->>{n})::int8)" for n in range(10))})
FROM metering_bucket WHERE level = %s AND cluster_id = %s
GROUP BY at, cluster_id, gpu, account, reason, holder, {_OWN}
ORDER BY at, gpu
"""  # noqa: S608 - as above


def _roll_ups(cluster: Any, begins: datetime, ends: datetime) -> None:
    from django.db import connection

    from apps.metering.ledger.services import account_sums
    from apps.metering.models import RollPosition

    with connection.cursor() as cursor:
        for day in range(DAYS):
            cursor.execute(_FINE, [begins + day * DAY, begins + (day + 1) * DAY, cluster.pk])
        for level, finer in ((3600, 300), (86_400, 3600)):
            cursor.execute("ANALYZE metering_bucket")
            cursor.execute(_COARSER, [level, f"{level} s", finer, cluster.pk])
        cursor.execute("ANALYZE")
    account_sums.remake(cluster, (_floor(begins, 86_400), ends))
    RollPosition.objects.create(cluster=cluster, since=begins, until=ends)


def _floor(at: datetime, level: int = 300) -> datetime:
    seconds = int(at.timestamp())
    return datetime.fromtimestamp(seconds - seconds % level, UTC)
