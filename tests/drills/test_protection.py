"""Protected work on a simulated Kueue that takes lent devices back: not at first, and later like from any."""

import copy
from datetime import timedelta
from typing import Any

import pytest

from apps.cluster.models import MirrorObject
from apps.quotas.allowances.services import quota_changes as quotas
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Offer
from apps.quotas.specs import Priority
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.models import Tenant
from apps.tenants.specs import Role, TrustLevel
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadRequest
from tests import factories
from tests.conftest import as_actor
from tests.drills.world import Ask, World
from tests.tenants.in_process import resource

pytestmark = pytest.mark.django_db


class Department:
    """vision (rosa, a lead now) guarantees nothing of the one whole offer; speech all of it, and lends it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.offer = Offer.objects.get(slug="h100-whole")
        now = world.now
        self.speech = tenants.create_tenant(
            actor=world.petra, slug="speech", name="", department=world.tenant.department,
            trust_level=TrustLevel.STANDARD, now=now,
        )  # fmt: skip
        otto = factories.make_user("otto")
        tenants.set_member(actor=world.petra, tenant=self.speech, username="otto", role=Role.LEAD, now=now)
        tenants.set_member(actor=world.petra, tenant=world.tenant, username="rosa", role=Role.LEAD, now=now)
        self.otto = as_actor(otto)
        self._give(world.tenant, Amounts(0, 2))
        self._give(self.speech, Amounts(2, 0))
        world.settle()

    def _give(self, tenant: Tenant, amounts: Amounts) -> None:
        quotas.set_quota(
            actor=self.world.petra, tenant=tenant, offer=self.offer, amounts=amounts, now=self.world.now
        )

    def borrow(self) -> Workload:
        """A protected job of vision on both devices."""
        body = Ask("long", kind="job", offer="h100-whole").body | {"priority": "protected", "count": 2}
        request = WorkloadRequest(
            parsing.parse(body), slug="long", labels=Ask("long", kind="job", seconds=90_000).labels
        )
        row = verbs.submit_workload(
            actor=self.world.rosa, tenant=self.world.tenant, request=request, now=self.world.now
        )
        self.world.settle()
        return row

    def want_back(self) -> Workload:
        """Its own tenant asks for one of the lent devices, for a notebook."""
        body = Ask("ours", offer="h100-whole").body
        request = WorkloadRequest(parsing.parse(body), slug="ours")
        row = verbs.submit_workload(actor=self.otto, tenant=self.speech, request=request, now=self.world.now)
        self.world.settle()
        return row

    def reserved_since(self, row: Workload, ago: timedelta) -> None:
        """Kueue reserved its quota so long ago."""
        found = self.kueues(row)
        for condition in found["status"]["conditions"]:
            if condition["type"] == "QuotaReserved":
                condition["lastTransitionTime"] = (self.world.now - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"status": {"conditions": found["status"]["conditions"]}}
        kueue = self.world.door.simulated.client("kueue", "kueue")
        meta = found["metadata"]
        kueue.patch(
            resource("Workload"), meta["name"], status, namespace=meta["namespace"], subresource="status"
        )

    def kueues(self, row: Workload) -> dict[str, Any]:
        """Kueue's Workload of the row, as it is in the cluster."""
        entry = MirrorObject.objects.get(kind="Workload", owner_id=str(row.pk), gone_at=None)
        found = self.world.door.client.get(resource("Workload"), entry.name, entry.namespace)
        assert found is not None
        return copy.deepcopy(found)


def test_what_is_protected_keeps_borrowed_devices_at_first_and_gives_them_back_later(world: World) -> None:
    department = Department(world)
    row = department.borrow()
    assert world.phase(row) == Phase.RUNNING
    until, due = row.protected_until, row.due_at
    assert until is not None
    assert due is not None
    assert due <= until  # looked at again without any hint
    ours = department.want_back()
    assert (world.phase(row), world.phase(ours)) == (Phase.RUNNING, Phase.PENDING)
    assert department.kueues(row)["spec"]["priority"] == 10_000
    department.reserved_since(row, timedelta(minutes=61))
    world.settle()
    assert (world.phase(row), world.phase(ours)) == (Phase.PENDING, Phase.RUNNING)
    assert Workload.objects.get(pk=row.pk).protected_until is None
    assert department.kueues(row)["spec"]["priority"] == 10_000  # it waits, and is protected anew


def test_a_lowered_priority_is_written_once_and_put_back_if_somebody_raises_it(world: World) -> None:
    department = Department(world)
    row = department.borrow()
    department.reserved_since(row, timedelta(minutes=61))
    world.settle()
    assert world.phase(row) == Phase.RUNNING
    assert department.kueues(row)["spec"]["priority"] == Priority.BATCH.rank
    world.door.calls.clear()
    world.reconcile("workload", row.pk)
    assert world.door.calls == []
    found = department.kueues(row)
    person = world.door.simulated.client("person", "kubectl")
    person.patch(
        resource("Workload"), found["metadata"]["name"], {"spec": {"priority": 9_000}},
        namespace=found["metadata"]["namespace"],
    )  # fmt: skip
    world.settle()
    assert department.kueues(row)["spec"]["priority"] == Priority.BATCH.rank
