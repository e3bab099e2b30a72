"""Work without a GPU in the whole product: its cores are quota, money and a place off every GPU's node."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db.models import Sum

from apps.errors import Invalid, QuotaExceeded
from apps.metering.allocations.selectors import rivals
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.selectors import line_items
from apps.metering.billing.services import pricing_run
from apps.metering.models import Allocation, DirtySpan
from apps.metering.specs import LineKind
from apps.quotas.allowances.selectors import standing
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.services import adoption
from apps.quotas.models import Price, Spend
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadRequest
from apps.workloads.waiting.selectors import waiting
from tests.drills.world import World
from tests.quotas.fleet import READY

pytestmark = [pytest.mark.django_db]
HOUR = timedelta(hours=1)


@pytest.fixture
def bare(world: World) -> World:
    """The world with a node of 8 cores and 32 GiB that has no GPU; vision has quota of 6 of its cores."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    admin = world.door.simulated.client()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cpu-01", "labels": {}}}
    admin.create("nodes", node)
    status = {"capacity": room, "allocatable": room, "conditions": READY}
    admin.patch("nodes", "cpu-01", {"status": status}, subresource="status")
    world.watch.deliver()
    (offer,) = adoption.adopt_inventory(actor=world.petra, cluster=world.cluster, now=world.now)
    assert (offer.slug, offer.name, offer.memory_bytes) == ("cpu-cores", "CPU cores", 4 * 1024**3)
    quota_changes.set_quota(
        actor=world.petra, tenant=world.tenant, offer=offer, amounts=Amounts(6), now=world.now
    )
    world.settle()
    return world


def asked(world: World, slug: str, **spec: Any) -> Workload:
    spec = {
        "kind": "job",
        "offer": "cpu-cores",
        "count": 0,
        "image": "python:3.13",
        "command": ["prep"],
        **spec,
    }
    labels = {"pod-complete.stage.kwok.x-k8s.io/delay": "90000s"}
    request = WorkloadRequest(spec=parsing.parse(spec), slug=slug, labels=labels)
    return verbs.submit_workload(actor=world.rosa, tenant=world.tenant, request=request, now=world.now)


def bar_of(world: World) -> standing.QuotaBar:
    """The tenant's quota of cores."""
    (bar,) = (b for b in standing.quota_bars(world.rosa, world.tenant, now=world.now) if b.offer.is_cores)
    return bar


def test_a_job_without_a_gpu_lives_on_the_cores_of_a_bare_node_and_is_paid_for(bare: World) -> None:
    refuse_what_does_not_go_together(bare)
    row = asked(bare, "prep", cpu="4")
    bare.settle()
    assert bare.phase(row) is Phase.RUNNING
    assert [(each["node"], each["devices"]) for each in row.placement] == [("cpu-01", [])]
    assert {step.name for step in reading.story_of(row)}.isdisjoint({"Devices allocated"})
    spec = reading.spec_of(row)
    assert (spec.count, spec.devices, spec.memory_bytes) == (0, 4, 16 * 1024**3)
    bar = bar_of(bare)
    assert (bar.used, bar.guaranteed, bar.supply, bar.free) == (4, 6, 8, 2)
    wait_behind_it(bare)
    pay_for(bare, row)


def wait_behind_it(bare: World) -> None:
    later = asked(bare, "later", cpu="4")
    bare.settle()
    assert bare.phase(later) is Phase.PENDING
    why = waiting.explanation_for(bare.rosa, later, bare.now)
    assert why is not None
    assert "Needs 4 CPU cores; vision uses 4 of the 6 it may have." in why.sentences
    assert why.alternatives == ()
    assert bar_of(bare).pending == 4
    # Of a notebook Kueue keeps no labels in its Workload. It is interactive, so it goes before the job.
    notebook = asked(bare, "notes", kind="notebook", cpu="4", command=[])
    bare.settle()
    why = waiting.explanation_for(bare.rosa, notebook, bare.now)
    assert why is not None
    assert "Needs 4 CPU cores; vision uses 4 of the 6 it may have." in why.sentences
    behind = waiting.explanation_for(bare.rosa, later, bare.now)
    assert behind is not None
    assert (why.position, behind.position, bar_of(bare).pending) == (1, 2, 8)


def pay_for(bare: World, row: Workload) -> None:
    collect(bare.cluster, now=bare.now)
    held = Allocation.objects.get(workload=row)
    assert (held.units, held.share_numerator, held.gpu, held.device) == (4, 0, "", "cpu-01/cpu")
    Price.objects.update(valid_from=held.started_at - HOUR)
    assert Price.objects.get(offer=row.offer).hourly == Decimal("0.046")
    end = held.started_at + HOUR
    pricing_run.bill([row.pk], now=bare.now)
    Allocation.objects.update(ended_at=end)
    pricing_run.price_workloads([row.pk], now=end)
    pricing_run.bill([row.pk], now=end)
    row.refresh_from_db()
    assert (row.cost_allocated, row.cost_waste) == (Decimal("0.184"), Decimal(0))
    # The hour may lie in two months.
    spent = Spend.objects.filter(tenant=bare.tenant).aggregate(money=Sum("money"), hours=Sum("gpu_hours"))
    assert (spent["money"], spent["hours"]) == (Decimal("0.184"), Decimal(0))
    assert not DirtySpan.objects.filter(gpu__startswith="cpu").exists()
    later = held.started_at + 2 * HOUR
    assert list(rivals.hindrances(held, end, later)) == [], "a correction may make it longer"
    (charge,) = line_items.charges_of(bare.tenant, held.started_at, end, now=end)
    assert (charge.key.kind, charge.what, charge.quantity, charge.unit) == (
        LineKind.CPU,
        "prep, CPU cores",
        Fraction(4),
        "core-hours",
    )
    assert (charge.unit_price, charge.parts) == (Decimal("0.046"), {})


OTHERWISE = "ask for at least 1 device, or for work without a GPU take the offer cpu-cores."
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"cpu": "1500m"}, "cpu", "CPU is sold by the core: ask for 2."),
    (
        {"cpu": "2", "memory": "9Gi"},
        "memory",
        "4Gi come with a core, so 8Gi with 2: ask for 3 cores, or for less memory.",
    ),
    ({"memory": "8Ti"}, "memory", "That is 2048 cores: a pod has at most 1000."),
    ({"count": 2}, "count", "CPU cores has no GPU: ask for 0 devices, and for CPU and memory."),
    (
        {"offer": "h100-1g-10gb"},
        "count",
        f"H100 1g.10gb MIG slice is a GPU: {OTHERWISE}",
    ),
]


def refuse_what_does_not_go_together(world: World) -> None:
    for spec, field, words in REFUSED:
        with pytest.raises(Invalid) as refused:
            asked(world, "wrong", **spec)
        assert [(each.pointer, each.detail) for each in refused.value.problems] == [(f"/spec/{field}", words)]
    with pytest.raises(QuotaExceeded, match="7 CPU cores can never start; vision reaches 6"):
        asked(world, "wide", cpu="7")
