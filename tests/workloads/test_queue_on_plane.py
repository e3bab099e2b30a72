"""The queue on a real Kueue: moved, held and released workloads, and the causes that only a cluster makes."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.specs import system_actor
from apps.cluster.models import MirrorObject
from apps.quotas.allowances.services import quota_changes as quotas
from apps.quotas.models import Quota, TenantQueue
from apps.quotas.specs import Priority
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.models import Tenant
from apps.tenants.specs import Role, TrustLevel
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.queue.rules.effects import Arrangement
from apps.workloads.queue.services import arranging
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadRequest
from apps.workloads.waiting.rules.situation import Cause, Explanation
from apps.workloads.waiting.selectors import places, waiting
from tests.factories import begin_deletion
from tests.workloads.on_plane import House, house

__all__ = ["house"]
pytestmark = [pytest.mark.plane, pytest.mark.django_db, pytest.mark.timeout(240)]
ROOT = system_actor("test")
AT = "2026-11-20T09:00:00Z"


def arrange(house: House, row: Workload, arrangement: Arrangement) -> None:
    arranging.arrange_workload(
        actor=ROOT, workload=row, arrangement=arrangement, reason="test", now=timezone.now()
    )


def why(house: House, row: Workload) -> Explanation | None:
    row.refresh_from_db()
    return waiting.explanation_for(house.rosa, row, timezone.now())


def cause(house: House, row: Workload) -> Cause | None:
    found = why(house, row)
    return found.cause if found else None


def place(row: Workload) -> int | None:
    found = places.place(places.entry_of(row))
    return found.position if found else None


def queue_of_three(house: House) -> list[Workload]:
    """Notebooks, jobs and notebooks behind a job that holds the only slice, a second apart each."""
    rows = [house.submit("a"), house.job("b", priority="interactive"), house.submit("c")]
    house.until(lambda: all(place(row) for row in rows), "a place for each")
    return sorted(rows, key=lambda row: place(row) or 0)


def kueues_order(house: House) -> list[str]:
    """What Kueue's own visibility API says."""
    path = (
        f"/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{house.tenant.object_name}/pendingworkloads"
    )
    body = house.plane.kubectl("get", "--raw", path)
    names = [item.split('"')[0] for item in body.split('"name":"')[1:]]
    return [name for name in names if name.startswith(("pod-", "job-"))]


def ours(rows: list[Workload]) -> list[str]:
    entries = sorted(filter(None, map(places.entry_of, rows)), key=lambda entry: entry.queue_rank)
    return [entry.name for entry in entries]


def test_the_last_is_moved_to_the_front_and_starts_first(house: House) -> None:
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    rows = queue_of_three(house)
    assert cause(house, rows[0]) is Cause.QUOTA_USED
    assert ours(rows) == kueues_order(house)
    last = rows[2]
    told = arranging.effect_of(actor=ROOT, workload=last, arrangement=Arrangement.FRONT)
    assert (told.before, told.after, told.of) == (3, 1, 3)
    arrange(house, last, Arrangement.FRONT)
    house.until(lambda: place(last) == 1, "the front")
    assert ours(rows) == kueues_order(house)
    arrange(house, last, Arrangement.USUAL)
    house.until(lambda: place(last) == 3, "its usual place")
    arrange(house, last, Arrangement.FRONT)
    house.until(lambda: place(last) == 1, "the front again")
    house.act("stop", holder, reason="")
    house.reaches(last, Phase.RUNNING)
    assert [house.phase(row) for row in rows[:2]] == [Phase.PENDING, Phase.PENDING]


@pytest.mark.exhaustive
def test_what_is_held_does_not_start_and_keeps_its_place(house: House) -> None:
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    first, second, third = queue_of_three(house)
    arrange(house, first, Arrangement.HOLD)
    house.until(lambda: place(second) == 1, "the others to move up")
    assert (cause(house, first), place(first)) == (Cause.HELD, None)
    assert first.phase == Phase.PENDING
    house.act("stop", holder, reason="")
    house.reaches(second, Phase.RUNNING)
    arrange(house, first, Arrangement.RELEASE)
    house.until(lambda: place(first) == 1, "its old place")
    assert place(third) == 2
    house.act("stop", second, reason="")
    house.reaches(first, Phase.RUNNING)
    assert house.phase(third) == Phase.PENDING


@pytest.mark.exhaustive
def test_what_a_hand_set_inactive_is_started_again_by_who_asked_for_it(house: House) -> None:
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    row = house.submit("nb")
    house.until(lambda: place(row) == 1, "a place")
    (name,) = ours([row])
    by_hand = ("--type=merge", "-p", '{"spec": {"active": false}}')
    house.plane.kubectl("-n", house.tenant.object_name, "patch", "workloads.kueue.x-k8s.io", name, *by_hand)
    house.until(lambda: cause(house, row) is Cause.DEACTIVATED, "the cause")
    house.turn()
    assert cause(house, row) is Cause.DEACTIVATED, "nobody has asked for it"
    house.act("resume", row, reason="")
    house.until(lambda: place(row) == 1, "its place again")
    house.act("stop", holder, reason="")
    house.reaches(row, Phase.RUNNING)


@pytest.mark.exhaustive
def test_a_cordoned_node_is_the_cause(house: House) -> None:
    house.plane.kubectl("cordon", "gpu-01")
    try:
        row = house.submit("nb")
        house.until(lambda: cause(house, row) is Cause.NODE_DOWN, "the cause")
        found = why(house, row)
        assert found is not None
        assert "1 node, out of service" in found.sentences[0]
    finally:
        house.plane.kubectl("uncordon", "gpu-01")
    house.reaches(row, Phase.RUNNING)


@pytest.mark.exhaustive
def test_a_quota_cut_below_the_request_is_the_cause(house: House) -> None:
    holder = house.job("holder", command=["sleep", "300"])
    house.reaches(holder, Phase.RUNNING)
    row = house.submit("nb")
    house.until(lambda: place(row) == 1, "a place")
    quota = Quota.objects.get(tenant=house.tenant, offer=house.offer)
    Quota.objects.filter(pk=quota.pk).update(nominal_quota=0, borrowing_limit=0)
    found = why(house, row)
    assert found is not None
    assert found.cause is Cause.TOO_LARGE
    assert "has no quota of it any more" in found.sentences[0]


@pytest.mark.exhaustive
def test_a_second_tenants_use_of_lent_devices_is_the_cause(house: House) -> None:
    """The offer's one device is lent; its guarantor asks, at the borrower's priority, so it must wait."""
    other = _neighbour(house)
    borrower = _submitted(house, other, "borrower")
    house.reaches(borrower, Phase.RUNNING)
    row = house.submit("nb")
    house.until(lambda: cause(house, row) is Cause.LENT, "the cause")
    found = why(house, row)
    assert found is not None
    assert [(holder.tenant, holder.count) for holder in found.holders] == [(other.slug, 1)]
    with house.following("Workload"):
        urgent = house.submit("urgent", priority="protected")
        house.reaches(urgent, Phase.RUNNING)
        house.until(lambda: cause(house, borrower) is Cause.RECLAIMED, "the borrower to say who took it back")
    _leave(house, other)


def _neighbour(house: House) -> Tenant:
    now = timezone.now()
    other = tenants.create_tenant(
        actor=ROOT, slug=f"{house.tenant.slug}-b", name="Speech", department=house.tenant.department,
        trust_level=TrustLevel.STANDARD, now=now,
    )  # fmt: skip
    tenants.set_member(actor=ROOT, tenant=other, username=house.rosa.username, role=Role.LEAD, now=now)
    tenants.set_member(actor=ROOT, tenant=house.tenant, username=house.rosa.username, role=Role.LEAD, now=now)
    amounts = quotas.Amounts(nominal_quota=0, borrowing_limit=1)
    quotas.set_quota(actor=ROOT, tenant=other, offer=house.offer, amounts=amounts, now=now)
    queues = MirrorObject.objects.filter(kind="LocalQueue", namespace=other.object_name, gone_at=None)
    house.until(queues.exists, "the neighbour's queue")
    return other


def _submitted(house: House, tenant: Tenant, slug: str) -> Workload:
    body = {"kind": "notebook", "offer": house.offer.slug, "cpu": "500m", "memory": "1Gi"}
    request = WorkloadRequest(spec=parsing.parse(body), slug=slug)
    return verbs.submit_workload(actor=house.rosa, tenant=tenant, request=request, now=timezone.now())


def _leave(house: House, tenant: Tenant) -> None:
    for row in Workload.objects.filter(deleted_at=None, tenant=tenant):
        house.act("delete", row, keep_volumes=False)
    alive = Workload.objects.filter(deleted_at=None, tenant=tenant)
    house.until(lambda: not alive.exists(), "everything of the neighbour to be gone")
    begin_deletion(tenant, now=timezone.now())
    queue = TenantQueue.objects.filter(tenant=tenant, deleted_at=None)
    house.until(lambda: not queue.exists(), "the neighbour to be gone")


@pytest.mark.exhaustive
def test_kueue_keeps_the_lower_priority_of_what_is_no_longer_protected(house: House, settings: Any) -> None:
    """Nothing is protected for longer than it took to start: the priority goes down while it runs."""
    settings.CONFIG = settings.CONFIG.model_copy(update={"protected_minutes": 0})
    tenants.set_member(
        actor=ROOT, tenant=house.tenant, username=house.rosa.username, role=Role.LEAD, now=timezone.now()
    )
    row = house.job("long", command=["sleep", "300"], priority="protected")
    house.reaches(row, Phase.RUNNING)
    house.until(lambda: kueues_priority(house, row) == Priority.BATCH.rank, "the priority of a usual job")
    pods = house.plane.kubectl("get", "pods", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "name")
    for _ in range(10):  # Kueue goes on reconciling its Workload; it neither raises it nor evicts it
        time.sleep(0.5)
        house.turn()
    assert kueues_priority(house, row) == Priority.BATCH.rank
    assert house.phase(row) == Phase.RUNNING
    assert pods == house.plane.kubectl("get", "pods", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "name")


def kueues_priority(house: House, row: Workload) -> int:
    entry = MirrorObject.objects.get(kind="Workload", owner_id=str(row.pk), gone_at=None)
    path = f"workload.kueue.x-k8s.io/{entry.name}"
    return int(house.plane.kubectl("get", path, "-n", entry.namespace, "-o", "jsonpath={.spec.priority}"))


@pytest.mark.exhaustive
def test_a_notebook_whose_check_is_rejected_as_it_runs_is_not_made_anew_until_it_is_asked(
    house: House,
) -> None:
    """Its Kueue Workload goes with its pod, and with it that Kueue took it out."""
    with asking_a_check(house) as check:
        row = house.submit("nb")
        passes(house, row, check)
        answer(house, row, check, "Rejected")
        with house.following("Workload"):
            house.until(
                lambda: cause(house, row) is Cause.DEACTIVATED and not pods_of(house, row), "the cause"
            )
        for _ in range(6):
            time.sleep(0.5)
            house.turn()
        assert (cause(house, row), pods_of(house, row)) == (Cause.DEACTIVATED, "")
        found = why(house, row)
        assert found is not None
        assert f'"{check}" (by hand)' in found.sentences[0]
        house.act("resume", row, reason="")
        passes(house, row, check)


@contextmanager
def asking_a_check(house: House) -> Iterator[str]:
    """The tenant's queue asks a check that only a hand answers."""
    name, kubectl = f"{house.tenant.object_name}-check", house.plane.kubectl
    meta = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": name}}
    kubectl("apply", "-f", "-", input=json.dumps({**meta, "spec": {"controllerName": "example.com/by-hand"}}))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": AT}
    told = {"status": {"conditions": [active]}}
    kubectl("patch", "admissioncheck", name, "--subresource=status", "--type=merge", "-p", json.dumps(told))
    _ask(house, [{"name": name}])
    try:
        yield name
    finally:
        house.clear_workloads()
        _ask(house, None)
        kubectl("delete", "admissioncheck", name)


def _ask(house: House, checks: Any) -> None:
    spec = {"spec": {"admissionChecksStrategy": {"admissionChecks": checks} if checks else None}}
    queue = f"clusterqueue/{house.tenant.object_name}"
    house.plane.kubectl("patch", queue, "--type=merge", "-p", json.dumps(spec))


def passes(house: House, row: Workload, check: str) -> None:
    house.until(lambda: cause(house, row) is Cause.CHECKED, "the check")
    answer(house, row, check, "Ready")
    house.reaches(row, Phase.RUNNING)


def answer(house: House, row: Workload, check: str, state: str) -> None:
    entry = MirrorObject.objects.get(kind="Workload", owner_id=str(row.pk), gone_at=None)
    said = {"name": check, "state": state, "message": "by hand", "lastTransitionTime": AT}
    patch = json.dumps({"status": {"admissionChecks": [said]}})
    at = ("-n", entry.namespace, f"workload.kueue.x-k8s.io/{entry.name}")
    house.plane.kubectl("patch", *at, "--subresource=status", "--type=merge", "-p", patch)


def pods_of(house: House, row: Workload) -> str:
    return house.plane.kubectl("get", "pods", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "name")
