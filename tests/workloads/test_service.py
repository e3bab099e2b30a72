"""A service: what is asked for, when it runs, what changes under it, and who makes its tokens."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.cluster.objects.names import owner_labels
from apps.cluster.specs import ObjectRef, Observed
from apps.errors import Conflict, Invalid
from apps.tenants.models import Tenant
from apps.workloads.kinds.service import ServiceBlock
from apps.workloads.lifecycle.services import verbs
from apps.workloads.manifests import rendering
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import OpenTo, Phase, PlacementSpec, WorkloadChange
from apps.workloads.status.derivation import Facts, ObservedWorkload, derive
from apps.workloads.status.gathering import gather
from sandbox.notebooks import endpoint
from tests.cluster.doubles import FakeCluster
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.workloads import bodies
from tests.workloads.asking import change, submit
from tests.workloads.in_process import House
from tests.workloads.serving import asked, runs

BODY = {"kind": "service", "offer": "h100", "image": "vllm:1", "cpu": "1", "memory": "1Gi"}
PLACE = PlacementSpec(
    workload_id="0199f3c2-0000-7000-8000-000000000001", object_name="llm-aaaaaaaaaa", tenant="vision",
    namespace="vision-bbbbbbbbbb", queue="gpu", resource_name="allotment.dev/h100", generation=3,
)  # fmt: skip


def spec_of(**more: Any) -> Any:
    return parsing.parse({**BODY, **more})


def rendered(kind: str, **more: Any) -> dict[str, Any]:
    return next(each for each in rendering.render(spec_of(**more), PLACE) if each["kind"] == kind)


def test_it_is_one_replica_at_8000_opened_to_the_team_unless_said_otherwise() -> None:
    spec = spec_of()
    assert spec.block == ServiceBlock()
    assert (spec.open_to, spec.pods, spec.block.health_port) == (OpenTo.TEAM, 1, 8000)
    block = {"port": 9000, "replicas": 3, "health_path": "/health"}
    more = spec_of(count=2, service=block)
    assert (more.devices, more.block.health_port) == (6, 9000)
    for each in (spec, more):
        assert parsing.parse(parsing.as_json(each)) == each


@pytest.mark.parametrize(
    ("block", "code"),
    [({"port": 80}, "out_of_range"), ({"replicas": 0}, "out_of_range"), ({"open_to": "x"}, "invalid_value"),
     ({"health_path": "health"}, "invalid_value"), ({"health_path": "/a b"}, "invalid_value")],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_field(block: dict[str, Any], code: str) -> None:
    with pytest.raises(Invalid) as refused:
        spec_of(service=block)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == (f"/spec/service/{next(iter(block))}", code)


def test_only_another_offer_or_count_is_another_deployment() -> None:
    mark = "allotment.dev/template"

    def marked(**more: Any) -> str:
        return str(rendered("Deployment", **more)["metadata"]["annotations"][mark])

    assert marked() == marked(image="vllm:2", args=["--x"], service={"replicas": 3}, cpu="2")
    assert marked() != marked(count=2)
    (current,) = (each for each in rendering.render(spec_of(), PLACE) if each["kind"] == "Deployment")
    assert rendering.is_current(current, rendering.render(spec_of(image="vllm:2"), PLACE))


def test_who_reaches_it_besides_the_door_is_who_opens_it() -> None:
    def policies(to: str) -> list[Any]:
        every = rendering.render(spec_of(service={"open_to": to}), PLACE)
        return [each["spec"] for each in every if each["kind"] == "NetworkPolicy"]

    assert policies("owner") == [], "its namespace lets the door in"
    (policy,) = policies("team")
    assert policy["ingress"] == [
        {"from": [{"podSelector": {}}], "ports": [{"port": "http", "protocol": "TCP"}]}
    ]


def test_one_replica_waits_for_its_successor_and_several_make_room() -> None:
    for replicas, gone in ((1, 0), (2, 1)):
        rolling = rendered("Deployment", service={"replicas": replicas})["spec"]["strategy"]["rollingUpdate"]
        assert rolling == {"maxSurge": 1, "maxUnavailable": gone}


def seen(kind: str, name: str, maker: str = "", **body: Any) -> Observed:
    whole = {"metadata": {"name": name, "uid": name}, **body}
    ref = ObjectRef(kind, "vision", name)
    return Observed(ref=ref, uid=name, resource_version=1, body=whole, controller_uid=maker)


def admitted(at: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": at}]}}


RUN = [
    seen("Deployment", "d"),
    seen("Pod", "a", "set-1"),
    seen("Pod", "b", "set-2"),
    seen("Workload", "pod-z", "a", **admitted("2026-11-20T08:00:00Z")),
    seen("Workload", "pod-y", "b", **admitted("2026-11-20T09:00:00Z")),
    seen("Workload", "pod-x", "a-pod-that-went"),
]


def test_nothing_of_a_living_deployment_is_left_over_and_the_first_let_in_stands_for_all() -> None:
    found = gather(RUN, controller_kind="Deployment", wanted=True)
    assert (len(found.pods), found.remains) == (2, 0)
    assert found.queued is not None
    assert found.queued["metadata"]["name"] == "pod-z"
    assert gather(RUN, controller_kind="Deployment", wanted=False).remains == 6
    gone = gather(RUN[1:], controller_kind="Deployment", wanted=True)
    assert (gone.remains, gone.pods, gone.queued) == (5, (), None)


FACTS = Facts(
    kind=spec_of().kind, generation=1, cluster="north", flavor="h100", wanted=True, deleting=False,
    phase=Phase.STARTING, asked_at=NOW, pods=2,
)  # fmt: skip


def pod(*, ready: bool = True, **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"conditions": conditions}}


def told(*pods: dict[str, Any], facts: Facts = FACTS, **status: Any) -> Any:
    queued = admitted("2026-11-20T08:00:00Z")
    return derive(ObservedWorkload({"status": status}, queued, pods), facts, now=NOW)


def test_it_runs_with_those_replicas_that_answer() -> None:
    assert told(pod(ready=False)).phase is Phase.STARTING
    found = told(pod(), pod(ready=False, schedulingGates=[{"name": "kueue"}]), updatedReplicas=1)
    assert found.phase is Phase.RUNNING
    assert found.replicas == {"wanted": 2, "ready": 1, "updated": 1, "waiting": 1}
    ready = next(each for each in found.conditions if each["type"] == "Ready")
    assert ready["message"] == "1 of 2 replicas answer. 1 waits in the queue."
    assert told(pod(), facts=replace(FACTS, wanted=False)).replicas is None


def test_its_time_runs_on_while_its_deployment_is_the_same() -> None:
    """After a new version the first that was let in is younger than the run."""
    began = datetime(2026, 11, 20, 7, tzinfo=UTC)
    facts = replace(FACTS, phase=Phase.RUNNING, started_at=began)
    for made_at, kept in (("2026-11-20T06:59:00Z", began), ("2026-11-20T07:30:00Z", None)):
        controller = {"metadata": {"creationTimestamp": made_at}, "status": {}}
        queued = admitted("2026-11-20T08:00:00Z")
        found = derive(ObservedWorkload(controller, queued, (pod(ready=False),)), facts, now=NOW)
        assert (found.phase, found.started_at) == (Phase.STARTING, kept)


def test_what_the_api_server_refuses_is_told() -> None:
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded",
    }
    found = derive(ObservedWorkload({"status": {"conditions": [failure]}}), FACTS, now=NOW)
    reserved = next(each for each in found.conditions if each["type"] == "QuotaReserved")
    assert (reserved["reason"], reserved["message"]) == ("FailedCreate", "exceeded")


def test_a_version_and_replicas_change_while_it_runs_and_its_size_does_not(cast: Cast) -> None:
    row = runs(asked(cast))
    assert row.stops_at is None
    change(cast, row, image="vllm:2", args=["--y"], service={"replicas": 2, "health_path": "/health"})
    row.refresh_from_db()
    assert (row.phase, row.spec["service"]["replicas"]) == (Phase.RUNNING, 2)
    with pytest.raises(Invalid) as refused:
        change(cast, row, count=2)
    assert [problem.pointer for problem in refused.value.problems] == ["/spec/count"]


def test_a_time_limit_is_kept_by_the_portal(cast: Cast) -> None:
    row = runs(asked(cast, max_run_seconds=3600))
    Workload.objects.filter(pk=row.pk).update(stops_at=NOW)
    assert verbs.stop_expired(now=NOW) == 1


def test_a_cluster_whose_kueue_queues_no_deployment_refuses_it(cast: Cast) -> None:
    cluster = cast.vision.cluster
    lacking = {"name": "deployments", "available": False, "message": "Add deployment and pod.", "missing": []}
    cluster.capabilities = [lacking]
    cluster.save()
    with pytest.raises(Conflict) as refused:
        asked(cast)
    assert refused.value.hint == "Add deployment and pod."


DIGEST = f"registry.example/llm@sha256:{'a' * 64}"


def pulls(house: House) -> tuple[str, bool]:
    """How its Deployment pulls, and whether it names the team's pull secret."""
    (found,) = (each for each in house.cluster.objects.values() if each["kind"] == "Deployment")
    spec = found["spec"]["template"]["spec"]
    return spec["containers"][0]["imagePullPolicy"], "imagePullSecrets" in spec


def answers(house: House) -> None:
    """One replica was let in, and answers."""
    labels = {"labels": owner_labels(owner="workload", uid=house.row.pk)}
    entry = bodies.admitted()
    house.tell(entry | {"metadata": entry["metadata"] | labels})
    house.tell(bodies.ready_pod())


def test_another_image_is_pulled_as_it_is_named_and_nothing_else_rolls_what_runs(cast: Cast) -> None:
    able = {"name": "image-credentials", "available": True, "version": None, "message": "", "missing": []}
    Cluster.objects.update(capabilities=[able])
    house = House(asked(cast, image=DIGEST))
    house.turn()
    answers(house)
    assert house.turn().phase == Phase.RUNNING
    Tenant.objects.update(has_registries=True)
    house.turn()
    assert pulls(house) == ("IfNotPresent", False), "a login that is there now replaces no replica"
    change(cast, house.row, image="vllm:2")
    house.turn()
    assert pulls(house) == ("Always", True)


def test_a_login_that_is_added_helps_a_new_version_while_the_old_one_answers(cast: Cast) -> None:
    house = House(asked(cast))
    house.turn()
    answers(house)
    stuck = bodies.pod(phase="Pending", uid="p2")
    stuck["metadata"]["name"] = "w-1"
    stuck["status"]["containerStatuses"] = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    house.tell(stuck)
    Tenant.objects.update(has_registries=True)
    assert house.turn().phase == Phase.RUNNING
    house.turn()
    assert pulls(house) == ("Always", True)


class Whole(FakeCluster):
    """Answers with the status that was told, as an API server does."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, Any] = {}

    def apply(self, manifest: Any, **options: Any) -> Any:
        return super().apply(manifest, **options) | self.told.get(manifest["metadata"]["name"], {})


def test_the_protection_of_each_replica_ends_in_time(cast: Cast, settings: Any) -> None:
    house = House(submit(cast, cast.leon, kind="service", image="vllm:1", volumes=[], priority="protected"))
    house.cluster = cluster = Whole()
    house.turn()
    lasts, now = settings.CONFIG.protection, timezone.now().replace(microsecond=0)
    for name, since in (("a", now - 2 * lasts), ("b", now)):
        at = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = bodies.queued(bodies.condition("QuotaReserved", at=at), bodies.condition("Admitted", at=at))
        mine = {"name": name, "uid": name, "labels": owner_labels(owner="workload", uid=house.row.pk)}
        cluster.told[name] = {"status": entry["status"]}
        house.tell(entry | {"metadata": entry["metadata"] | mine})
    assert house.turn().due_at == now + lasts


def test_who_changes_what_somebody_else_has_changed_is_told(cast: Cast) -> None:
    row = runs(asked(cast))
    change(cast, row, service={"replicas": 2})
    old = WorkloadChange(spec=parsing.parse({**row.spec, "image": "vllm:2"}), seen=row.generation)
    with pytest.raises(Conflict, match="changed it meanwhile"):
        verbs.update_workload(actor=as_actor(cast.rosa), workload=row, change=old, now=NOW)


def test_a_simulated_replica_answers_as_an_endpoint_does() -> None:
    template = rendered("Deployment")["spec"]["template"]
    replica = {"metadata": {"name": "llm-1"}, "spec": template["spec"]}
    assert endpoint.is_served_by(replica)
    status, media, body = endpoint.answer(replica, "/v1/chat/completions", NOW)
    assert (status, media) == (200, "application/json")
    assert "llm-1" in json.loads(body)["choices"][0]["message"]["content"]
    assert endpoint.answer(replica, "/health", NOW)[0] == 200
    assert endpoint.answer(replica, "/nothing", NOW)[0] == 404
