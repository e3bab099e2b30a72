"""Boards that are cut on demand: what a look sees of a layout, and who held what before and between."""

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import pytest

from apps.cluster.mirror.rules import hardware
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import MirrorObject
from apps.cluster.objects.names import owner_labels
from apps.metering.allocations.services.collect import collect
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation
from apps.metering.specs import Origin
from apps.workloads.models import Workload
from sandbox.fleet.slices import resource_slices
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.books import AT, BUCKET, MINUTE
from tests.metering.hardware import node, tell
from tests.quotas import on_demand
from tests.workloads import bodies

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NODE = "cut-0"
BOARD, FIRST, SECOND = "gpu-0", "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1"
LOOK = timedelta(seconds=15)


@pytest.fixture
def row(cast: Cast) -> Workload:
    """A notebook; its cluster has a node with one board, of which nobody has anything."""
    found = make_workload(cast.vision, cast.rosa, cast.offer)
    plan = on_demand.fleet(1, boards=1)
    ((name, _),) = plan.node_pools()
    assert name == NODE
    slices = resource_slices(plan, name, 1)
    for number, body in enumerate(slices):
        body["metadata"]["uid"] = f"slice-{number}"
    tell(found, node(name), *slices)
    return found


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def holds(row: Workload, device: str, begins: float) -> None:
    uid = row.slug
    pod = bodies.ready_pod(uid=f"{uid}-pod")
    pod["metadata"] |= {"name": uid, "labels": owner_labels(owner="workload", uid=row.pk)}
    when = at(begins).isoformat()
    claim = bodies.claim(f"{NODE}/{device}", owner=f"{uid}-pod", uid=f"{uid}-claim", at=when)
    claim["metadata"]["name"] = f"{uid}-claim"
    tell(row, pod, claim)


def lets_go(row: Workload, ends: float) -> None:
    MirrorObject.objects.filter(uid__startswith=f"{row.slug}-").update(gone_at=at(ends))


@pytest.mark.parametrize(
    ("before", "ends", "begins"),
    [(FIRST, 0.7, 0), (BOARD, 0.7, 0), (SECOND, 0.7, 0), (SECOND, 9, 0), (SECOND, 0.7, 3), (BOARD, 0.7, 3)],
)
@pytest.mark.parametrize("seen", [True, False], ids=["seen before", "between looks"])
def test_who_held_another_part_before_held_it_to_the_end(
    cast: Cast, row: Workload, before: str, ends: float, begins: float, *, seen: bool
) -> None:
    following = make_workload(cast.vision, cast.rosa, cast.offer, slug="next")
    collect(row.cluster, now=at(-60))
    holds(row, before, -8)
    if seen:
        collect(row.cluster, now=at(-5))
    lets_go(row, ends)
    holds(following, FIRST, begins)
    collect(row.cluster, now=AT + LOOK)
    collect(row.cluster, now=AT + 2 * LOOK)
    rollup.roll(row.cluster, now=AT + BUCKET + MINUTE)
    assert Allocation.objects.count() == 2
    assert verifying.verify(row.cluster).flaws == []


class Run(NamedTuple):
    """Who holds a device in [begins, ends), and when it is seen that they do and that they do no more."""

    device: hardware.DeviceView
    begins: float
    ends: float
    seen: float
    seen_gone: float


def fits(held: Iterable[hardware.DeviceView]) -> bool:
    left: dict[tuple[str, ...], int] = {}
    for each in chain.from_iterable(device.consumes for device in held):
        left[each.counter] = left.get(each.counter, each.of) - each.amount
    return min(left.values()) >= 0


def runs(rng: random.Random, devices: Sequence[hardware.DeviceView]) -> list[Run]:
    """As a scheduler gives devices away, so that the board always has room; sightings come up to 4 s late."""
    now, taken = 0.0, list[Run]()
    for _ in range(14):
        now += rng.expovariate(0.4)
        beside = [run.device for run in taken if run.ends > now]
        if free := [device for device in devices if fits([*beside, device])]:
            seen, ends = now + rng.choice([0, rng.uniform(0, 4)]), now + rng.uniform(0.5, rng.choice([4, 30]))
            late = rng.choice([0, rng.uniform(0, 4)])
            taken.append(Run(rng.choice(free), now, ends, seen, max(ends + late, seen + 0.01)))
    return taken


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_and_goes_nobody_gets_less_than_they_hold(
    cast: Cast, row: Workload, seed: int
) -> None:
    rng = random.Random(seed)
    given = runs(rng, inventory.devices(row.cluster))
    acts: list[tuple[float, Callable[[], object]]] = []
    for number, run in enumerate(given):
        who = make_workload(cast.vision, cast.rosa, cast.offer, slug=f"run-{number}x")
        acts.append((run.seen, partial(holds, who, run.device.name, int(run.begins))))
        acts.append((run.seen_gone, partial(lets_go, who, run.seen_gone)))
    look = -1.0
    while (look := look + rng.choice([1, 5, 15])) < 90:
        acts.append((look, partial(collect, row.cluster, now=at(look))))
    for _, act in sorted(acts, key=itemgetter(0)):
        act()
    rollup.roll(row.cluster, now=AT + BUCKET + MINUTE)
    assert Allocation.objects.count() == len(given)
    assert verifying.verify(row.cluster).flaws == []


def by_kubectl(row: Workload, device: str) -> None:
    claim = bodies.claim(f"{NODE}/{device}", uid="made")
    claim["metadata"] |= {"ownerReferences": [], "namespace": row.tenant.object_name}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "kubectl-made", "uid": "p9"}]
    tell(row, claim)


@pytest.mark.parametrize(("begins", "ended_at"), [(4, 4), (-6, -5.5)], ids=["later", "in the same second"])
def test_what_kubectl_held_ends_where_a_part_that_excludes_it_begins(
    row: Workload, begins: float, ended_at: float
) -> None:
    """A look sees that it is gone up to 15 s later; and a start is a whole second, -5.2 is -6."""
    by_kubectl(row, BOARD)
    collect(row.cluster, now=at(-5.5))
    MirrorObject.objects.filter(uid="made").update(gone_at=at(begins))
    holds(row, FIRST, begins)
    collect(row.cluster, now=AT + LOOK)
    assert Allocation.objects.get(origin=Origin.KUBECTL).ended_at == at(ended_at)
    rollup.roll(row.cluster, now=AT + BUCKET + MINUTE)
    assert verifying.verify(row.cluster).flaws == []


def test_an_end_that_was_seen_late_is_where_kubectl_was_seen_to_hold_a_part(row: Workload) -> None:
    holds(row, BOARD, -8)
    collect(row.cluster, now=at(-5))
    by_kubectl(row, FIRST)
    collect(row.cluster, now=AT)
    lets_go(row, 3)
    collect(row.cluster, now=AT + LOOK)
    assert Allocation.objects.get(origin=Origin.ALLOTMENT).ended_at == AT
    rollup.roll(row.cluster, now=AT + BUCKET + MINUTE)
    assert verifying.verify(row.cluster).flaws == []
