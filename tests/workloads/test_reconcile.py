"""The reconcile against a declared double of the API server: what it applies, removes, and says."""

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.models import Drift, MirrorObject
from apps.cluster.specs import ObjectRef
from apps.cluster.watching.services import capabilities
from apps.sealing import IDE, derived
from apps.tenants.specs import NOTEBOOKS
from apps.workloads import registry
from apps.workloads.kinds import notebook
from apps.workloads.lifecycle.services import verbs
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.opening.services import reaching
from apps.workloads.selectors import reading, routing
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange
from tests.cluster.abilities import FULL
from tests.cluster.doubles import FakeCluster
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.workloads import bodies
from tests.workloads.asking import asked, change, submit
from tests.workloads.in_process import House

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def house(cast: Cast) -> House:
    return House(submit(cast))


def act(house: House, verb: str, **given: Any) -> None:
    actor = as_actor(house.row.owner)
    getattr(verbs, f"{verb}_workload")(actor=actor, workload=house.row, now=timezone.now(), **given)


def test_a_new_notebook_is_applied_and_observed(house: House) -> None:
    row = house.turn()
    assert house.kinds() == ["PersistentVolumeClaim", "Pod", "Secret"]
    assert (row.phase, row.observed_generation) == (Phase.PENDING, 1)


def test_a_gateways_route_comes_and_goes_with_the_run(house: House, settings: Any) -> None:
    """RULE: only in the door's own cluster, and where routes that ask the door can be written."""
    cluster = house.row.cluster
    beside = {"gateway": "edge/public", "door_cluster": cluster.slug, "door_service": "allotment-door"}
    settings.CONFIG = settings.CONFIG.model_copy(update=beside)
    assert routing.gateway_of(house.row) is None, "nobody has looked whether its routes can be written"
    cluster.capabilities = capabilities.judge(FULL, has_gateway=True)
    cluster.save()
    house.start()
    assert {"HTTPRoute", "ReferenceGrant"} <= set(house.kinds())
    act(house, "stop", reason="")
    house.turn()
    assert house.kinds() == ["PersistentVolumeClaim"]
    settings.CONFIG = settings.CONFIG.model_copy(update={"door_cluster": "another"})
    assert routing.gateway_of(house.row) is None


@pytest.mark.parametrize("named_by", [NOTEBOOKS, "its own"])
def test_a_statefulset_from_before_is_kept_as_it_is_until_it_is_made_anew(
    house: House, settings: Any, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """What names the pods of a StatefulSet is never changed: the API server refuses that."""
    row, space = house.row, house.row.tenant.object_name
    settings.CONFIG = settings.CONFIG.model_copy(update={"door_cluster": row.cluster.slug})
    service = row.object_name if named_by == "its own" else named_by
    with monkeypatch.context() as before:
        before.setattr(reading, "named_by", lambda _: service)
        house.turn()
    assert house.queued["kind"] == "StatefulSet"
    assert house.start().phase == Phase.RUNNING
    applied = len(house.cluster.calls)
    house.turn()
    assert len(house.cluster.calls) == applied
    assert ("Service" in house.kinds()) is (named_by == "its own")
    assert reaching.upstream(row).host == f"{row.object_name}-0.{service}.{space}.svc"
    act(house, "stop", reason="")
    house.turn()
    house.forget("StatefulSet", "Pod", "Workload", "ResourceClaim")
    act(house, "resume", reason="")
    house.turn()
    assert house.kinds() == ["PersistentVolumeClaim", "Pod", "Secret"]
    assert reaching.upstream(row).host == f"{row.object_name}.{NOTEBOOKS}.{space}.svc"


def pause_is_over(house: House) -> None:
    """As if its pod had failed an hour ago."""
    house.row.refresh_from_db()
    run, began = house.row.last_run or {}, (timezone.now() - timedelta(hours=1)).isoformat()
    ready = [c | {"since": began} if c["type"] == "Ready" else c for c in house.row.conditions]
    Workload.objects.update(last_run=run | {"seen_at": began}, conditions=ready)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded", ""])
def test_a_pod_that_goes_or_has_ended_is_made_anew(house: House, phase: str) -> None:
    """RULE: nothing else does, and it is no change by hand."""
    house.start()
    before, kept = house.queued, house.cluster.calls.copy()
    ending = {"status": {"phase": phase}} if phase else {}
    leaving = {} if phase else {"deletionTimestamp": NOW.isoformat()}
    house.tell({**before, **ending, "metadata": {**before["metadata"], **leaving}}, labelled=True)
    house.turn()
    assert ("Pod" in house.kinds()) is not bool(phase), "what has ended is removed, and what goes is let go"
    assert "Secret" in house.kinds()
    assert [call[0] for call in house.cluster.calls[len(kept) :]] == (["delete"] if phase else [])
    house.cluster.objects = {ref: body for ref, body in house.cluster.objects.items() if ref.kind != "Pod"}
    house.tell(before, labelled=True, is_gone=True)
    house.forget("Workload", "ResourceClaim")
    if phase == "Failed":
        pause_is_over(house)
    house.turn()
    assert house.controller["uid"] != before["metadata"]["uid"]
    assert not Drift.objects.exists()


def test_the_token_of_an_ide_is_applied_and_never_shown(house: House) -> None:
    house.turn()
    (sent,) = [each for each in house.cluster.objects.values() if each["kind"] == "Secret"]
    (shown,) = [each for each in reading.manifests_of(house.row) if each["kind"] == "Secret"]
    told, seen = (base64.b64decode(each["data"]["token"]).decode() for each in (sent, shown))
    assert told == derived(IDE, str(house.row.pk))
    assert len(told) == 64
    assert seen == "(not shown)"
    assert "data" not in MirrorObject.objects.get(kind="Secret").body


def test_a_first_reconcile_costs_few_statements(house: House, django_assert_max_num_queries: object) -> None:
    with django_assert_max_num_queries(14):  # type: ignore[operator]
        reconcile(house.row.pk, gateway=house.cluster)


class Counted:
    """How often a spec was parsed and a kind's objects were built."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        monkeypatch.setattr(parsing, "stored", partial(self._call, "stored", parsing.stored))
        counted = replace(notebook.KIND, build=partial(self._call, "build", notebook.KIND.build))
        usual = registry.of
        monkeypatch.setattr(registry, "of", lambda kind: counted if kind == "notebook" else usual(kind))

    def _call(self, name: str, real: Callable[..., Any], *given: Any) -> Any:
        self.calls[name] += 1
        return real(*given)

    def during(self, turn: Callable[[], Workload]) -> tuple[int, int]:
        """Parses and builds of one reconcile."""
        self.calls.clear()
        turn()
        return self.calls["stored"], self.calls["build"]


def test_a_reconcile_parses_the_spec_once_and_builds_the_objects_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    assert counted.during(house.turn) == (1, 1)
    house.tell(bodies.waiting() | {"metadata": bodies.queued(owner=house.controller["uid"])["metadata"]})
    Workload.objects.filter(pk=house.row.pk).update(queue_priority=7)
    assert counted.during(house.turn) == (1, 1), "what waits was moved in the queue"
    house.start()
    assert counted.during(house.turn) == (1, 1), "it runs"
    Workload.objects.filter(pk=house.row.pk).update(spec={**house.row.spec, "env": {"A": "1"}})
    assert counted.during(house.turn) == (1, 1), "its pods are no longer those that are asked for"
    act(house, "stop", reason="")
    assert counted.during(house.turn) == (1, 0), "it stops"


def test_protected_work_is_parsed_once_and_built_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(submit(cast, cast.leon, priority="protected"))
    house.start()
    assert Counted(monkeypatch).during(house.turn) == (1, 1)


def test_nothing_changed_means_no_call(house: House) -> None:
    house.turn()
    house.cluster.calls.clear()
    house.turn()
    assert house.cluster.calls == []


def test_a_started_notebook_runs_with_its_lease(house: House) -> None:
    row = house.start()
    assert row.phase == Phase.RUNNING
    assert row.started_at is not None
    assert row.stops_at == row.started_at + timedelta(seconds=row.spec["max_run_seconds"])
    assert [pod["devices"] for pod in row.placement] == [[{"id": None, "name": "gpu-01/gpu-0-mig-1"}]]
    assert list(WorkloadEvent.objects.order_by("pk").values_list("reason", flat=True)) == [
        "Accepted",
        "Running",
    ]


def test_a_waiting_notebook_that_is_stopped_leaves_nothing_that_could_be_admitted(house: House) -> None:
    house.turn()
    uid = house.controller["uid"]
    house.tell(bodies.waiting() | {"metadata": bodies.queued(owner=uid)["metadata"]})
    act(house, "stop", reason="")
    assert house.turn().phase == Phase.STOPPING
    assert house.kinds() == ["PersistentVolumeClaim"]
    house.forget("Pod", "Workload")
    assert house.turn().phase == Phase.STOPPED


def test_it_is_stopped_only_when_pod_and_queue_entry_are_gone(house: House) -> None:
    house.start()
    act(house, "stop", reason="")
    assert house.turn().phase == Phase.STOPPING
    house.forget("Workload")
    assert house.turn().phase == Phase.STOPPING
    house.forget("Pod", "ResourceClaim")
    row = house.turn()
    assert (row.phase, row.placement, row.stops_at) == (Phase.STOPPED, [], None)
    assert row.ended_at is not None


def test_resume_applies_only_once_the_earlier_run_is_gone(house: House) -> None:
    house.start()
    act(house, "stop", reason="")
    house.turn()
    act(house, "resume", reason="")
    house.forget("Workload")
    assert house.turn().phase == Phase.PENDING
    assert "Pod" not in house.kinds()
    house.forget("Pod", "ResourceClaim")
    house.turn()
    assert "Pod" in house.kinds()


def test_a_changed_request_makes_a_new_pod(house: House, cast: Cast) -> None:
    house.turn()
    before = house.controller["uid"]
    change(cast, house.row, memory="8Gi")
    house.turn()
    assert "Pod" not in house.kinds()
    house.forget("Pod")
    house.turn()
    assert house.controller["uid"] != before


def test_a_renamed_notebook_keeps_its_pod(house: House, cast: Cast) -> None:
    house.start()
    before = house.controller["uid"]
    verbs.update_workload(
        actor=as_actor(cast.rosa), workload=house.row, change=WorkloadChange(name="Ada's"), now=NOW
    )
    assert (house.turn().phase, house.controller["uid"]) == (Phase.RUNNING, before)


@pytest.mark.parametrize("keep", [True, False])
def test_a_deletion_ends_when_nothing_is_left_but_what_is_kept(house: House, *, keep: bool) -> None:
    house.start()
    act(house, "delete", keep_volumes=keep)
    assert house.turn().deleted_at is None
    assert house.kinds() == (["PersistentVolumeClaim"] if keep else [])
    house.forget("Pod", "Workload", "ResourceClaim")
    if not keep:
        assert house.turn().deleted_at is None
        house.forget("PersistentVolumeClaim")
    assert house.turn().deleted_at is not None


def test_a_finished_job_still_tells_where_it_ran(cast: Cast) -> None:
    """Its claim goes with its pod's end: what it ran on is told from what was seen before."""
    house = House(submit(cast, kind="job", command=["true"]))
    ran = house.start().placement
    assert ran[0]["devices"]
    (job,) = [body for ref, body in house.cluster.objects.items() if ref.kind == "Job"]
    house.tell({**job, "status": bodies.controller("Job", bodies.condition("Complete"))["status"]})
    house.forget("ResourceClaim")
    row = house.turn()
    assert (row.phase, row.placement) == (Phase.SUCCEEDED, ran)


def test_a_finished_job_is_never_applied_again(cast: Cast) -> None:
    house = House(submit(cast, kind="job", command=["true"]))
    house.turn()
    (job,) = [body for ref, body in house.cluster.objects.items() if ref.kind == "Job"]
    finished = {**job, "status": bodies.controller("Job", bodies.condition("Complete"))["status"]}
    house.tell(finished, labelled=True)
    assert house.turn().phase == Phase.SUCCEEDED
    house.cluster.objects.clear()
    house.forget("Job")
    house.turn()
    assert (house.kinds(), house.row.phase) == ([], Phase.SUCCEEDED)


def test_a_wait_that_became_too_long_fails_and_gives_up_its_place(cast: Cast) -> None:
    house = House(submit(cast, max_wait_seconds=60))
    house.turn()
    Workload.objects.update(asked_at=timezone.now() - timedelta(minutes=2))
    row = house.turn()
    assert row.phase == Phase.FAILED
    assert house.kinds() == ["PersistentVolumeClaim"]
    assert house.turn().phase == Phase.FAILED


def test_a_silent_cluster_delays_and_says_so(house: House) -> None:
    house.cluster.silent = Unreachable("no route to host")
    row = house.turn()
    assert row.observed_generation == 0
    (synced,) = [c for c in row.conditions if c["type"] == "Synced"]
    assert (synced["status"], synced["reason"]) == ("False", "ClusterUnavailable")
    house.cluster.silent = None
    assert house.turn().observed_generation == 1


def test_a_refusal_of_the_api_server_is_shown_in_its_words(house: House) -> None:
    ref = ObjectRef("Pod", house.row.tenant.object_name, house.row.object_name)
    house.cluster.fail[ref] = Rejected(422, "Invalid", "spec.template: too strange")
    row = house.turn()
    (synced,) = [c for c in row.conditions if c["type"] == "Synced"]
    assert "too strange" in synced["message"]


def test_a_lost_fence_writes_no_status_and_no_story(cast: Cast) -> None:
    house = House(submit(cast, kind="job"))

    class Thief(FakeCluster):
        def apply(self, manifest: Any, **options: Any) -> Any:
            Workload.objects.update(lease_owner="another", fence=99)
            return super().apply(manifest, **options)

    reconcile(house.row.pk, gateway=Thief())
    house.row.refresh_from_db()
    assert (house.row.observed_generation, house.row.conditions) == (0, [])
    assert list(WorkloadEvent.objects.values_list("reason", flat=True)) == ["Accepted"]


def test_requests_carry_what_was_asked(cast: Cast) -> None:
    assert asked(count=2).spec.count == 2
    assert submit(cast, count=2).spec["count"] == 2


@pytest.mark.parametrize("reason", ["DeactivatedDueToRequeuingLimitExceeded", "Deactivated"])
def test_what_was_taken_out_is_put_back_once_it_is_asked_for_again(house: House, reason: str) -> None:
    """By Kueue or by hand."""
    house.turn()
    out = bodies.condition("Evicted", reason=reason)
    queued = bodies.queued(out, owner=house.controller["uid"], active=False)
    house.tell(queued)
    ref = ObjectRef("Workload", house.row.tenant.object_name, "statefulset-w-1")
    house.cluster.objects[ref] = {"metadata": {"uid": "k1"}, "_thieves": ["kueue"]}
    before, after = (datetime.fromisoformat(bodies.AT) + timedelta(seconds=s) for s in (-1, 1))
    for asked_at, held_at in ((before, None), (after, NOW)):
        Workload.objects.filter(pk=house.row.pk).update(asked_at=asked_at, held_at=held_at)
        house.turn()
        assert house.cluster.objects[ref].get("spec", {}).get("active") is not True
    Workload.objects.filter(pk=house.row.pk).update(held_at=None)
    house.turn()
    usual = reading.usual_priority(house.row)
    assert house.cluster.objects[ref]["spec"] == {"active": True, "priority": usual}


def test_a_move_and_a_hold_are_written_on_kueues_own_workload_while_it_waits(house: House) -> None:
    house.turn()
    uid = house.controller["uid"]
    entry = bodies.waiting()
    house.tell(entry | {"metadata": bodies.queued(owner=uid)["metadata"]})
    ref = ObjectRef("Workload", house.row.tenant.object_name, "statefulset-w-1")
    house.cluster.objects[ref] = {"metadata": {"uid": "k1"}, "_thieves": ["kueue"]}
    house.cluster.calls.clear()
    house.turn()
    assert house.cluster.calls == []
    Workload.objects.filter(pk=house.row.pk).update(queue_priority=7, held_at=NOW)
    house.turn()
    assert house.cluster.objects[ref]["spec"] == {"active": False, "priority": 7}
    Workload.objects.filter(pk=house.row.pk).update(queue_priority=None, held_at=None)
    house.turn()
    usual = reading.usual_priority(house.row)
    assert house.cluster.objects[ref]["spec"] == {"active": True, "priority": usual}
    house.cluster.calls.clear()
    house.tell(bodies.admitted() | {"metadata": bodies.queued(owner=uid)["metadata"]})
    Workload.objects.filter(pk=house.row.pk).update(held_at=NOW)
    house.turn()
    assert [call for call in house.cluster.calls if call[1] == ref] == []
