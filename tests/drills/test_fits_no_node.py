"""What Kueue lets in and no node has room for waits, says what frees it, and goes on by itself."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.cluster.objects.conditions import is_true
from apps.metering.allocations.services.collect import collect
from apps.metering.models import Allocation
from apps.notices.models import Notice
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Offer
from apps.workloads.lifecycle.services import resizing
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.smaller import Smaller
from apps.workloads.waiting.services import announcing
from portal.pages.parts import figures
from tests.controlplane.fleet import H100, FleetNode, Gpu, nodes, resource_slices
from tests.drills.world import Ask, Clock, World
from tests.quotas.fleet import READY

pytestmark = pytest.mark.django_db(transaction=True)
PAIRS = tuple(FleetNode(f"pair-{number}", (Gpu(H100), Gpu(H100))) for number in range(2))
WORDS = (
    "Admitted, but fits no node: needs 2 H100 whole on one node, and the most that any node has free is 1 "
    "(3 in all)."
)


@pytest.fixture
def whole(world: World) -> Offer:
    """Two whole GPUs on each of three nodes, all of them vision's."""
    admin, uids = world.door.simulated.client(), {}
    for node in nodes(PAIRS):
        name = node["metadata"]["name"]
        uids[name] = admin.create("nodes", node)["metadata"]["uid"]
        status = {"status": {**node["status"], "conditions": READY}}
        admin.patch("nodes", name, status, subresource="status")
    for published in resource_slices(PAIRS, uids):
        admin.create("resourceslices.resource.k8s.io", published)
    offer = Offer.objects.get(cluster=world.cluster, slug="h100-whole")
    quota_changes.set_quota(
        actor=world.petra, tenant=world.tenant, offer=offer, amounts=Amounts(6), now=world.now
    )
    world.settle()
    return offer


def reads(username: str) -> Callable[[str], str]:
    client = Client()
    client.force_login(User.objects.get(username=username))
    return lambda page: " ".join(client.get(page).content.decode().split())


def status_of(row: Workload) -> dict[str, Any]:
    client = Client()
    client.force_login(User.objects.get(username="rosa"))
    status: dict[str, Any] = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]
    return status


def spread(world: World, whole: Offer) -> list[Workload]:
    """A job of one device on each of the three nodes: three are free, one on each."""
    small = [world.submit(Ask(f"small-{number}", kind="job", offer=whole.slug)) for number in range(3)]
    world.settle()
    assert [world.phase(each) for each in small] == [Phase.RUNNING] * 3
    assert len({pod["node"] for each in small for pod in each.placement}) == 3
    return small


def test_what_fits_no_node_waits_is_explained_and_goes_on_by_itself(
    world: World, whole: Offer, clock: Clock
) -> None:
    small = spread(world, whole)
    row = world.submit(Ask("pair", kind="job", offer=whole.slug, count=2))
    world.settle()

    assert world.phase(row) is Phase.PENDING
    assert is_true(row.conditions, "Admitted")
    counted = figures.counts(Workload.objects.all())
    assert (counted.running, counted.waiting) == (3, 1)
    collect(world.cluster, now=timezone.now())
    assert not Allocation.objects.filter(workload=row).exists(), "nothing is charged before it has devices"

    status = status_of(row)
    assert (status["phase"], status["queue"]["cause"]) == ("Pending", "FitsNoNode")
    assert WORDS in status["queue"]["message"]
    assert "cannot allocate all claims" in status["queue"]["detail"]
    assert "once 2 are free on one node. Nearest: 1 more on " in status["queue"]["frees"]
    assert "of those held by small-" in status["queue"]["frees"]
    assert status["queue"]["smaller"]["count"] == 1

    clock.ahead = announcing.FOR_A_WHILE
    is_on_every_surface(row)
    clock.ahead = timedelta()

    world.act("stop", small[0])
    world.settle()
    assert world.phase(row) is Phase.RUNNING
    assert status_of(row)["queue"] is None

    second = world.submit(Ask("second", kind="job", offer=whole.slug, count=2))
    world.settle()
    assert status_of(second)["queue"]["cause"] == "FitsNoNode"
    resizing.shrink_waiting(actor=world.rosa, workload=second, to=Smaller(1, None, None), now=world.now)
    world.settle()
    assert world.phase(second) is Phase.RUNNING, "it gives its quota back and takes less"


def is_on_every_surface(row: Workload) -> None:
    rosa, petra = reads("rosa"), reads("petra")
    for page in (f"/t/vision/workloads/{row.pk}/", "/t/vision/workloads/?phase=Pending", "/"):
        assert WORDS in rosa(page), page
    for page in ("/console/", "/console/queue/"):
        assert WORDS in petra(page), page
    assert "<strong>1 waits</strong>" in petra("/console/queue/")
    announcing.tell_waits(now=timezone.now())
    assert WORDS in Notice.objects.get(user__username="rosa", url__contains=str(row.pk)).message
