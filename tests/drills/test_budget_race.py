"""Many ask at once while the budget runs out: what starts afterwards is one billing tick at most."""

import os
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.services import pricing_run as metering
from apps.metering.models import Allocation
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.selectors import spending
from apps.quotas.budgets.services import budgeting
from apps.quotas.catalogue.selectors.price_book import prices_at
from apps.quotas.models import Offer, Price, TenantQueue
from apps.quotas.specs import BudgetUnit, HoldReason
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.drills.world import STEP_SECONDS, Ask, World

pytestmark = [pytest.mark.exhaustive, pytest.mark.both_databases]

ASKERS = int(os.environ.get("DRILL_BUDGET_ASKERS", "25"))
TICK = timedelta(seconds=15)
RUN_SECONDS = 40
TICKS_PAID = Decimal("4.5")
A_WHOLE_FLEET = 5
MOST_TICKS = 60


def simulated(world: World) -> datetime:
    """The cluster's clock, by which claims begin and end."""
    return world.door.simulated.clock.now()


@pytest.fixture
def paid(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The product's clock is the cluster's; every offer has had its price for long."""
    Price.objects.update(valid_from=simulated(world) - timedelta(days=1))
    monkeypatch.setattr(timezone, "now", lambda: simulated(world))
    return world


def tick_cost(world: World) -> Decimal:
    """The dearest billing tick: every device of the fleet is held for all of it."""
    offers = Offer.objects.filter(cluster=world.cluster)
    prices = prices_at(offers, simulated(world))
    devices = {offer.pk: 2 if offer.slug == "h100-whole" else 1 for offer in offers}
    assert sum(devices.values()) == A_WHOLE_FLEET
    hourly = sum((prices[pk] * count for pk, count in devices.items()), Decimal(0))
    return hourly * Decimal(TICK.total_seconds()) / 3600


def submit_all(world: World, chance: random.Random) -> list[Workload]:
    offers = [offer.slug for offer in Offer.objects.filter(cluster=world.cluster)]
    asks = [
        Ask(f"r{number}", kind="job", offer=offers[number % len(offers)], seconds=RUN_SECONDS)
        for number in range(ASKERS)
    ]
    chance.shuffle(asks)
    return [world.submit(ask) for ask in asks]


def a_tick(world: World, chance: random.Random) -> None:
    """15 s of the cluster, workers taking hints in any order, then metering's round."""
    for _ in range(int(TICK.total_seconds() / STEP_SECONDS)):
        world.manager.advance(STEP_SECONDS)
        world.watch.deliver()
        while world.hints:
            owner, pk = world.hints.pop(chance.randrange(len(world.hints)))
            world.reconcile(owner, pk)
    now = simulated(world)
    metering.bill(collect(world.cluster, now=now).workloads, now=now)


@pytest.mark.timeout(7200)
def test_many_at_once_overrun_a_budget_by_at_most_one_tick(
    paid: World, record_property: Callable[[str, object], None]
) -> None:
    world, chance = paid, random.Random(7)
    most = tick_cost(world)
    row = budgeting.set_budget(
        actor=world.petra, owner=world.tenant, now=simulated(world),
        limits=Limits(BudgetUnit.MONEY, None, most * TICKS_PAID),
    )  # fmt: skip
    rows = submit_all(world, chance)
    for _ in range(MOST_TICKS):
        a_tick(world, chance)
        if is_held(world):
            break
    assert is_held(world)
    overrun = spending.spent(row, simulated(world)) - (row.hard_limit or Decimal(0))
    record_property("askers", len(rows))
    record_property("overrun", f"{overrun:.4f}")
    record_property("dearest tick", f"{most:.4f}")
    assert Decimal(0) <= overrun <= most

    begun = set(Allocation.objects.values_list("pk", flat=True))
    for _ in range(8):
        a_tick(world, chance)
    late = Allocation.objects.exclude(pk__in=begun)
    assert all(alloc.started_at - held_at(world) <= TICK for alloc in late)
    world.settle()
    phases = [world.phase(each) for each in rows]
    assert set(phases) == {Phase.SUCCEEDED, Phase.PENDING}
    waited = phases.count(Phase.PENDING)
    assert waited > 0

    raised = Limits(BudgetUnit.MONEY, None, most * 1000)
    budgeting.set_budget(actor=world.petra, owner=world.tenant, limits=raised, now=simulated(world))
    for _ in range(3):
        a_tick(world, chance)
    assert [world.phase(each) for each in rows].count(Phase.PENDING) < waited


def is_held(world: World) -> bool:
    return TenantQueue.objects.get(tenant=world.tenant).hold_reason == HoldReason.BUDGET


def held_at(world: World) -> datetime:
    """When the hold was recorded."""
    return AuditEvent.objects.filter(action="queue.hold").latest("at").at
