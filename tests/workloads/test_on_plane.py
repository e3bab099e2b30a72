"""Workloads on a real control plane: API server, scheduler, controllers, Kueue; only containers are played.

There is no watcher here: `House.look` lists what a watcher would have told, so each test is one thread. What
comes and goes between two lists is followed where a test says so (`House.following`).
"""

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from asgiref.sync import async_to_sync
from django.utils import timezone

from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.kinds import KINDS
from apps.cluster.watching.services import capabilities
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.services import pricing_run as metering
from apps.metering.models import Allocation
from apps.tenants.lifecycle.services import tenancy as tenants
from apps.tenants.specs import DOOR_NAMESPACE, NOTEBOOKS, Suspend
from apps.workloads.lifecycle.services import live, verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange
from apps.workloads.waiting.selectors import waiting
from portal.api.base.writing import merged
from tests.controlplane.plane import cluster_lines
from tests.workloads.on_plane import ROOT, House, house

__all__ = ["house"]

pytestmark = [pytest.mark.plane, pytest.mark.django_db, pytest.mark.timeout(240)]


def test_a_waiting_notebook_starts_when_the_job_ends_and_a_stopped_one_takes_nothing(house: House) -> None:
    job = house.job("burst", command=["sleep", "30"])
    house.reaches(job, Phase.RUNNING)
    rows = [house.submit("one"), house.submit("two")]

    def place(row: Workload) -> tuple[Any, Any]:
        queue: Any = waiting.queue_of(house.rosa, row, timezone.now()) or {}
        return queue.get("position"), queue.get("of")

    # Made within one second, so either may be first; the one in front gives up.
    house.until(lambda: {place(row) for row in rows} == {(1, 2), (2, 2)}, "a place for each")
    given_up, patient = sorted(rows, key=lambda row: place(row)[0])
    queue: Any = waiting.queue_of(house.rosa, patient, timezone.now()) or {}
    assert [(h["tenant"], h["count"]) for h in queue["holders"] if h["tenant"] == house.tenant.slug] == [
        (house.tenant.slug, 1)
    ]
    house.act("stop", given_up, reason="")
    house.reaches(given_up, Phase.STOPPED)
    assert [name.split("/")[0] for name in house.left(given_up)] == ["persistentvolumeclaim"]
    house.reaches(job, Phase.SUCCEEDED)
    house.reaches(patient, Phase.RUNNING)
    assert house.phase(given_up) == Phase.STOPPED
    assert [d["name"].split("/")[0] for d in patient.placement[0]["devices"]] == ["gpu-01"]
    house.until(lambda: patient.object_name in _named(house), "its pod's name, as DNS serves it")
    assert live.logs(patient, tail=5)
    assert async_to_sync(first_lines)(live.follow(patient, tail=1))


def _named(house: House) -> set[str]:
    """The pods of notebooks that answer by name: DNS makes its records of these slices."""
    about = ("endpointslices", "-l", f"kubernetes.io/service-name={NOTEBOOKS}", "-o", "json")
    slices = json.loads(house.plane.kubectl("-n", house.tenant.object_name, "get", *about))["items"]
    return {each["hostname"] for one in slices for each in one["endpoints"] if "hostname" in each}


def test_a_service_is_let_in_pod_by_pod_and_leaves_nothing(house: House) -> None:
    row = house.submit("llm", kind="service", image="vllm:1", volumes=[], service={"replicas": 1})
    house.reaches(row, Phase.RUNNING)
    assert row.replicas is not None
    assert (row.replicas["wanted"], row.replicas["ready"]) == (1, 1)
    house.act("stop", row, reason="")
    house.reaches(row, Phase.STOPPED)
    house.act("delete", row, keep_volumes=False)
    house.until(lambda: not house.left(row), "nothing of it to be left")


async def first_lines(followed: AsyncGenerator[Sequence[str], None]) -> Sequence[str]:
    try:
        return await anext(followed)
    finally:
        await followed.aclose()


@pytest.mark.exhaustive
@pytest.mark.timeout(480)
def test_whatever_waits_has_its_pod_and_starts_as_soon_as_it_is_let_in(house: House) -> None:
    """A pod that the namespace's quota of devices refused would be tried again after up to a minute, and what
    has no pod has no place in the queue.
    """
    rows = [house.submit(f"n{number}") for number in range(6)]
    house.until(lambda: len(_pods(house)) == len(rows), "a pod for each of six that ask for the only device")
    for _ in rows[1:]:
        house.until(lambda: _in_phase(house, Phase.RUNNING), "one of them to run")
        (running,) = _in_phase(house, Phase.RUNNING)
        house.act("delete", running, keep_volumes=False)
        house.until(lambda gone=running: not _alive(gone), "it to be gone")  # type: ignore[misc]
    (last,) = house.until(lambda: _in_phase(house, Phase.RUNNING), "the last to run")
    assert [row.pk for row in rows if _alive(row)] == [last.pk]


def _pods(house: House) -> list[str]:
    return house.plane.kubectl("-n", house.tenant.object_name, "get", "pods", "-o", "name").split()


def _in_phase(house: House, phase: Phase) -> list[Workload]:
    return list(Workload.objects.filter(tenant=house.tenant, deleted_at=None, phase=phase))


def _alive(row: Workload) -> bool:
    return Workload.objects.filter(pk=row.pk, deleted_at=None).exists()


def test_a_notebook_is_stopped_resumed_resized_and_deleted_without_a_trace(
    house: House, settings: Any
) -> None:
    """Behind a Gateway, whose route and grant come and go with each run."""
    beside = {"gateway": "edge/public", "door_cluster": house.cluster.slug, "door_service": "allotment-door"}
    settings.CONFIG = settings.CONFIG.model_copy(update=beside)
    look(house)
    row = house.submit("nb")
    house.reaches(row, Phase.RUNNING)
    assert {"httproute.gateway.networking.k8s.io", "referencegrant.gateway.networking.k8s.io"} <= {
        name.split("/")[0] for name in house.left(row)
    }
    first = row.started_at
    house.act("stop", row, reason="lunch")
    house.reaches(row, Phase.STOPPED)
    assert [name.split("/")[0] for name in house.left(row)] == ["persistentvolumeclaim"]
    assert row.last_run is not None
    assert [(log["container"], log["problem"]) for log in row.last_run["logs"]] == [("main", "")]
    kept = live.last_lines(row, tail=5)
    assert kept.kept is not None
    assert kept.text
    assert "Started" in {line.reason for line in reading.events_of(row)}, "what the cluster said of it too"
    house.act("resume", row, reason="")
    house.reaches(row, Phase.RUNNING)
    assert row.started_at is not None
    assert first is not None
    assert row.started_at > first
    house.act("delete", row, keep_volumes=False)
    house.until(lambda: Workload.objects.get(pk=row.pk).deleted_at, "the deletion")
    assert house.left(row) == []
    metering.price_workloads(collect(house.cluster, now=timezone.now()).workloads, now=timezone.now())
    held = Allocation.objects.filter(workload=row).order_by("started_at")
    assert [(a.share_numerator, a.share_denominator, a.ended_at is None) for a in held] == [(1, 7, False)] * 2


@pytest.mark.exhaustive
def test_a_request_that_is_changed_while_it_waits_is_queued_anew(house: House) -> None:
    burst = house.job("burst", command=["sleep", "600"])
    house.reaches(burst, Phase.RUNNING)
    row = house.submit("nb")
    house.until(
        lambda: MirrorObject.objects.filter(owner_id=str(row.pk), kind="Workload").exists(), "the queue"
    )
    spec = parsing.parse(merged(row.spec, {"memory": "2Gi"}))
    change = WorkloadChange(spec=spec)
    verbs.update_workload(actor=house.rosa, workload=row, change=change, now=timezone.now())
    house.act("stop", burst, reason="")
    house.reaches(row, Phase.RUNNING)
    body = yaml.safe_load(
        house.plane.kubectl("get", "pod", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "yaml")
    )
    (pod,) = body["items"]
    assert pod["spec"]["containers"][0]["resources"]["requests"]["memory"] == "2Gi"


@pytest.mark.exhaustive
def test_a_statefulset_from_before_runs_on_until_a_stop_takes_it_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """See docs/decisions/0161. It needs rights that nothing else uses."""
    row = house.submit("old")

    def kinds() -> set[str]:
        return {name.split("/")[0] for name in house.left(row)}

    with monkeypatch.context() as before:
        before.setattr(reading, "named_by", lambda _: NOTEBOOKS)
        house.until(lambda: "statefulset.apps" in kinds(), "the set")
        house.reaches(row, Phase.RUNNING)
    house.turn()
    assert "statefulset.apps" in kinds()
    house.act("stop", row, reason="")
    house.reaches(row, Phase.STOPPED)
    assert kinds() == {"persistentvolumeclaim"}
    house.act("resume", row, reason="")
    house.reaches(row, Phase.RUNNING)
    assert "statefulset.apps" not in kinds()


def test_a_job_that_fails_ends_as_failed_and_is_not_run_again(house: House) -> None:
    broken = house.job("broken", command=["sh", "-c", "sleep 1; exit 1"])
    house.reaches(broken, Phase.FAILED)
    assert broken.last_run is not None
    assert broken.last_run["cause"].startswith("It ended with exit code 1.")
    assert [log["problem"] for log in broken.last_run["logs"]] == [""]
    (ready,) = [c for c in broken.conditions if c["type"] == "Ready"]
    assert ready["reason"] == "BackoffLimitExceeded"
    house.turn()
    assert [name.split("/")[0] for name in house.left(broken)].count("pod") == 1


@pytest.mark.exhaustive
def test_a_drained_tenant_evicts_and_starts_again_when_it_may(house: House) -> None:
    row = house.submit("nb")
    house.reaches(row, Phase.RUNNING)
    drain = tenants.TenantChange(suspend=Suspend.DRAIN)

    def evictions() -> list[tuple[str, str]]:
        row.refresh_from_db()
        return [(c["status"], c["reason"]) for c in row.conditions if c["type"] == "Evicted"]

    with house.following("Workload"):
        tenants.update_tenant(actor=ROOT, tenant=house.tenant, change=drain, now=timezone.now())
        house.reaches(row, Phase.PENDING)
        # Pods and places in the queue are watched apart: that the pod went may be seen first.
        house.until(lambda: bool(evictions()), "its eviction")
    assert evictions() == [("True", "ClusterQueueStopped")]
    assert row.last_run is not None
    assert row.last_run["outcome"] == "evicted"
    assert row.last_run["cause"].startswith("ClusterQueueStopped: ")
    free = tenants.TenantChange(suspend=Suspend.NONE)
    tenants.update_tenant(actor=ROOT, tenant=house.tenant, change=free, now=timezone.now())
    house.reaches(row, Phase.RUNNING)


def test_the_golden_manifests_are_accepted_by_the_api_server(house: House) -> None:
    folder = Path(__file__).parent.parent / "golden" / "workloads"
    for file in folder.glob("*.yaml"):
        for manifest in yaml.safe_load_all(file.read_text()):
            info = KINDS[manifest["kind"]]
            # JobSet is not part of this plane.
            if info.optional and info.plural not in house.gateway.api_resources(info.api_version):
                continue
            if manifest["metadata"]["namespace"] != DOOR_NAMESPACE:
                manifest["metadata"]["namespace"] = house.tenant.object_name
            answer = house.gateway.apply(manifest, dry_run=True)
            assert answer["metadata"]["name"] == manifest["metadata"]["name"]


@pytest.mark.exhaustive
def test_without_kueue_the_request_is_stored_and_the_page_says_why(house: House) -> None:
    house.plane.stop_component("kueue")
    try:
        row = house.submit("nb")

        def words() -> str:
            row.refresh_from_db()
            queue: Any = waiting.queue_of(house.rosa, row, timezone.now())
            return str(queue["message"])

        house.until(lambda: "Kueue does not answer: no pod can start." in words(), "the sentence")
        assert house.phase(row) == Phase.PENDING
    finally:
        house.plane.start_component("kueue")
    house.reaches(row, Phase.RUNNING, seconds=90)


@pytest.mark.exhaustive
def test_a_priority_class_that_is_missing_is_named_with_its_cure_which_cures_it(house: House) -> None:
    house.plane.kubectl("delete", "workloadpriorityclass", "interactive")
    try:
        look(house)
        row = house.submit("nb")

        def words() -> str:
            row.refresh_from_db()
            queue: Any = waiting.queue_of(house.rosa, row, timezone.now())
            return str(queue["message"])

        house.until(lambda: "Missing: interactive." in words(), "its name")
        assert "`kubectl apply -k k8s`" in words()
        assert "does not answer" not in words()
    finally:
        for line in cluster_lines():
            house.plane.kubectl(*line)
    look(house)
    house.reaches(row, Phase.RUNNING, seconds=90)


def look(house: House) -> None:
    """What the watcher does every few minutes."""
    found = capabilities.judge(capabilities.facts(house.gateway), has_gateway=True)
    Cluster.objects.update(capabilities=found)
