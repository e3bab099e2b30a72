"""Boards that are cut on demand: what a look sees of a layout, and who held what before and between."""

from datetime import datetime, timedelta

import pytest

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


def test_what_kubectl_held_ends_where_a_part_that_excludes_it_begins(row: Workload, cast: Cast) -> None:
    """A look sees that it is gone up to 15 s later."""
    claim = bodies.claim(f"{NODE}/{BOARD}", uid="made")
    claim["metadata"] |= {"ownerReferences": [], "namespace": cast.vision.object_name}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "kubectl-made", "uid": "p9"}]
    tell(row, claim)
    collect(row.cluster, now=at(-5))
    MirrorObject.objects.filter(uid="made").update(gone_at=at(3.5))
    holds(row, FIRST, 4)
    collect(row.cluster, now=AT + LOOK)
    assert Allocation.objects.get(origin=Origin.KUBECTL).ended_at == at(4)
    rollup.roll(row.cluster, now=AT + BUCKET + MINUTE)
    assert verifying.verify(row.cluster).flaws == []
