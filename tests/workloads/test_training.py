"""Training on several nodes: what is asked for, what it becomes, when it runs and ends, where it cannot."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.cluster.specs import ObjectRef, Observed
from apps.errors import Conflict, Invalid
from apps.workloads import registry
from apps.workloads.kinds import training
from apps.workloads.kinds.training import TrainingBlock
from apps.workloads.lifecycle.services import verbs
from apps.workloads.manifests import rendering
from apps.workloads.models import Workload
from apps.workloads.secret_specs import Into, SecretKey, SecretWish
from apps.workloads.secrets.rules import wishes
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind, Phase, PlacementSpec
from apps.workloads.status.derivation import Derived, Facts, ObservedWorkload, derive
from apps.workloads.status.gathering import gather
from portal.pages.team.workloads import workload_forms
from tests.conftest import Cast
from tests.factories import NOW
from tests.workloads.asking import submit

KIND = Kind("training")
PLACE = PlacementSpec(
    workload_id="0199f3c2-0000-7000-8000-000000000001", object_name="train-aaaaaaaaaa", tenant="vision",
    namespace="vision-bbbbbbbbbb", queue="gpu", resource_name="allotment.dev/h100", generation=3,
)  # fmt: skip
BODY = {"kind": "training", "offer": "h100", "image": "pytorch:2.9", "count": 4}


def spec_of(**more: Any) -> Any:
    return parsing.parse({**BODY, **more})


def problems_of(**more: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        spec_of(**more)
    return {problem.pointer: problem.code for problem in refused.value.problems}


def test_it_is_two_nodes_with_a_process_for_each_device_unless_said_otherwise() -> None:
    spec = spec_of()
    assert spec.block == TrainingBlock(nodes=2, processes_per_node=4, restarts=0)
    assert (spec.pods, spec.devices) == (2, 8)
    asked = spec_of(training={"nodes": 8, "processes_per_node": 1, "restarts": 3})
    assert asked.block == TrainingBlock(8, 1, 3)
    for each in (spec, asked):
        assert parsing.parse(parsing.as_json(each)) == each


@pytest.mark.parametrize("name", ["MASTER_ADDR", "PET_NNODES", "PET_MASTER_ADDR"])
def test_no_secret_is_one_of_them_either(name: str) -> None:
    (problem,) = wishes.problems_of(SecretWish(name, Into.ENV, "v"))
    assert problem.code == "reserved_name"


def test_a_secret_of_the_name_is_where_its_checkpoints_are() -> None:
    spec = spec_of(volumes=[{"name": "checkpoints", "size": "1Ti", "mount_path": "/kept"}])
    place = replace(PLACE, secrets=(SecretKey("CHECKPOINT_DIR", Into.ENV),))
    found = next(each for each in rendering.render(spec, place) if each["kind"] == "JobSet")
    (role,) = found["spec"]["replicatedJobs"]
    (container,) = role["template"]["spec"]["template"]["spec"]["containers"]
    names = [each["name"] for each in container["env"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["MASTER_ADDR", "RANK", "WORLD_SIZE", "PET_NNODES"])
def test_a_request_sets_none_of_the_variables_by_which_nodes_find_each_other(name: str) -> None:
    assert problems_of(env={name: "1"}) == {f"/spec/env/{name}": "reserved_name"}


def test_its_numbers_have_bounds_and_its_block_is_its_own() -> None:
    assert problems_of(training={"nodes": 257, "processes_per_node": 0, "restarts": 101}) == {
        "/spec/training/nodes": "out_of_range",
        "/spec/training/processes_per_node": "out_of_range",
        "/spec/training/restarts": "out_of_range",
    }
    assert problems_of(job={}) == {"/spec/job": "invalid_value"}
    with pytest.raises(Invalid):
        parsing.parse({"kind": "notebook", "offer": "h100", "training": {}})


def job_set_of(**more: Any) -> dict[str, Any]:
    rendered = rendering.render(spec_of(cpu="1", memory="1Gi", **more), PLACE)
    return next(each for each in rendered if each["kind"] == "JobSet")


def test_a_process_learns_rank_world_size_and_the_masters_address() -> None:
    found = job_set_of(training={"nodes": 3})
    (role,) = found["spec"]["replicatedJobs"]
    (container,) = role["template"]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    name = found["metadata"]["name"]
    assert variables["MASTER_ADDR"] == variables["PET_MASTER_ADDR"] == f"{name}-node-0-0.{name}"
    assert (variables["WORLD_SIZE"], variables["NNODES"], variables["NPROC_PER_NODE"]) == ("12", "3", "4")
    ranks = {each["name"]: each["valueFrom"] for each in container["env"] if "valueFrom" in each}
    rank = {"fieldRef": {"fieldPath": training.INDEX}}
    assert ranks == {"RANK": rank, "NODE_RANK": rank, "PET_NODE_RANK": rank}


def test_a_program_is_told_where_its_checkpoints_are_unless_it_says_so_itself() -> None:
    disk = [{"name": "checkpoints", "size": "1Ti", "mount_path": "/kept"}]

    def told(**more: Any) -> list[str]:
        (role,) = job_set_of(volumes=disk, **more)["spec"]["replicatedJobs"]
        (container,) = role["template"]["spec"]["template"]["spec"]["containers"]
        return [each["value"] for each in container["env"] if each["name"] == "CHECKPOINT_DIR"]

    assert told() == ["/kept"]
    assert told(env={"CHECKPOINT_DIR": "/kept/run-7"}) == ["/kept/run-7"]


def test_the_longest_name_of_a_pod_is_one() -> None:
    longest = f"{'a' * 40}-bbbbbbbbbb"
    name = training.name_of(longest)
    assert name.endswith("-bbbbbbbbbb")
    assert len(f"{name}-node-0-255-abcde") <= 63
    assert training.name_of("nb-bbbbbbbbbb") == "nb-bbbbbbbbbb"


def test_neither_suspension_nor_a_time_limit_is_applied_and_any_change_is_a_new_set() -> None:
    found = job_set_of(max_run_seconds=3600)
    assert "suspend" not in found["spec"]
    assert "activeDeadlineSeconds" not in str(found)
    mark = "allotment.dev/template"
    marks = {job_set_of(training={"restarts": n})["metadata"]["annotations"][mark] for n in (0, 1)}
    assert len(marks) == 2


FACTS = Facts(
    kind=KIND, generation=1, cluster="north", flavor="h100", wanted=True, deleting=False,
    phase=Phase.STARTING, asked_at=NOW, pods=2,
)  # fmt: skip
ADMITTED = {"status": {"conditions": [{"type": "Admitted", "status": "True"}]}}


def pod(phase: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **meta}, "status": {"phase": phase}}


def phase_of(*pods: dict[str, Any], **conditions: str) -> Phase:
    told = [{"type": name, "status": status} for name, status in conditions.items()]
    seen = ObservedWorkload(controller={"status": {"conditions": told}}, queued=ADMITTED, pods=pods)
    return derive(seen, FACTS, now=NOW).phase


def test_it_runs_once_every_node_does() -> None:
    assert phase_of(pod("Running"), pod("Pending")) is Phase.STARTING
    leaving = pod("Running", deletionTimestamp="2026-01-01T00:00:00Z")
    assert phase_of(pod("Running"), leaving) is Phase.STARTING
    assert phase_of(pod("Running"), pod("Running")) is Phase.RUNNING
    assert phase_of(pod("Succeeded"), pod("Running")) is Phase.RUNNING


def test_its_time_runs_on_while_it_begins_again_and_anew_once_it_had_to_queue() -> None:
    began = NOW - timedelta(hours=3)
    facts = replace(FACTS, phase=Phase.RUNNING, started_at=began)

    def told(admitted: datetime) -> Derived:
        fact = {"type": "Admitted", "status": "True", "lastTransitionTime": admitted.isoformat()}
        queued = {"status": {"conditions": [fact]}}
        running = ObservedWorkload(controller={"status": {}}, queued=queued, pods=(pod("Running"),))
        return derive(running, facts, now=NOW)

    again = told(began - timedelta(minutes=1))
    assert (again.phase, again.started_at) == (Phase.STARTING, began)
    assert told(began + timedelta(hours=1)).started_at is None


@pytest.mark.django_db
def test_its_time_ends_also_while_it_begins_again(cast: Cast) -> None:
    row = submit(cast, kind="training", image="pytorch:2.9", volumes=[], training={"nodes": 2})
    Workload.objects.filter(pk=row.pk).update(phase=Phase.STARTING, started_at=NOW, stops_at=NOW)
    assert verbs.stop_expired(now=NOW) == 1
    row.refresh_from_db()
    assert row.suspended


def test_its_end_is_what_the_set_says() -> None:
    assert phase_of(Completed="True") is Phase.SUCCEEDED
    assert phase_of(Failed="True") is Phase.FAILED
    assert phase_of(pod("Running"), pod("Running"), Completed="False", Suspended="False") is Phase.RUNNING


def seen(kind: str, name: str, uid: str, maker: str = "") -> Observed:
    ref = ObjectRef(kind, "vision", name)
    body = {"metadata": {"name": name, "uid": uid}}
    return Observed(ref=ref, uid=uid, resource_version=1, body=body, controller_uid=maker)


def test_its_pods_are_those_of_its_sets_jobs_and_nothing_of_a_run_before_is_taken_for_it() -> None:
    run = [
        seen("JobSet", "t", "set"),
        seen("Job", "t-node-0", "job", "set"),
        seen("Pod", "t-node-0-0", "a", "job"),
        seen("Pod", "t-node-0-1", "b", "job"),
        seen("Workload", "jobset-t", "w", "set"),
    ]
    found = gather(run, controller_kind="JobSet", wanted=True)
    assert [each["metadata"]["uid"] for each in found.pods] == ["a", "b"]
    assert found.queued is not None
    assert found.remains == 0
    assert gather(run, controller_kind="JobSet", wanted=False).remains == 5
    before = [seen("Job", "old-node-0", "old", "gone"), seen("Pod", "old-node-0-0", "c", "old")]
    assert gather([*run, *before], controller_kind="JobSet", wanted=True).remains == 2


def test_a_pod_that_is_seen_before_its_job_or_after_it_is_of_the_present_run() -> None:
    label = "jobset.sigs.k8s.io/jobset-uid"
    early = seen("Pod", "t-node-0-0", "a", "not-seen-yet")
    early.body["metadata"]["labels"] = {label: "set"}
    late = seen("Pod", "t-node-0-1", "b", "a-job-that-went")
    late.body["metadata"]["labels"] = {label: "set-of-before"}
    found = gather([seen("JobSet", "t", "set"), early], controller_kind="JobSet", wanted=True)
    assert ([each["metadata"]["uid"] for each in found.pods], found.remains) == (["a"], 0)
    found = gather([seen("JobSet", "t", "set"), early, late], controller_kind="JobSet", wanted=True)
    assert (len(found.pods), found.remains) == (1, 1)
    assert gather([early], controller_kind="JobSet", wanted=True).remains == 1


def test_the_form_asks_in_its_own_words() -> None:
    form = workload_forms.WorkloadForm(
        {"image": "pytorch:2.9", "count": "4", "command": "torchrun train.py", "nodes": "4", "restarts": "2",
         "checkpoints": "1Ti"},
        kind=KIND, offer="h100",
    )  # fmt: skip
    assert form.is_valid(), form.errors
    assert form.spec is not None
    assert form.spec.block == TrainingBlock(4, 4, 2)
    assert [volume.mount_path for volume in form.spec.volumes] == ["/checkpoints"]
    again = workload_forms.typed("t", form.spec)
    assert (again["nodes"], again["restarts"], again["checkpoints"]) == ("4", "2", "1Ti")
    wrong = workload_forms.WorkloadForm({"image": "a/b:1", "nodes": "0"}, kind=KIND, offer="h100")
    assert list(wrong.errors) == ["nodes"]


def test_a_cluster_without_job_sets_refuses_it_with_what_to_install(cast: Cast) -> None:
    cluster = cast.vision.cluster
    cluster.capabilities = [
        {"name": "jobset", "available": False, "message": "Install JobSet 0.12.", "missing": []}
    ]
    cluster.save()
    with pytest.raises(Conflict) as refused:
        submit(cast, kind="training", image="pytorch:2.9", volumes=[], training={"nodes": 2})
    assert refused.value.hint == "Install JobSet 0.12."
    assert registry.of("job").needs == ""
