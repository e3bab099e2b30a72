"""JobSets: all or nothing through Kueue, one name for each rank, restarts as a whole, and their end."""

from __future__ import annotations

from typing import Any

from sandbox.controllers.jobsets import ATTEMPT, JOBSETS
from sandbox.controllers.kubelet import FAILING_INDEXES
from tests.sandbox.controllers.bodies import NAMESPACE, cluster_queue, container, kueue
from tests.sandbox.controllers.conftest import World

Obj = dict[str, Any]


def job_set(name: str, nodes: int, *, queue: str = "", failing: str = "", **policy: Any) -> Obj:
    annotations = {"pod-complete.stage.kwok.x-k8s.io/delay": "30s"}
    annotations |= {FAILING_INDEXES: failing} if failing else {}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container()]},
    }
    spec = {"completions": nodes, "parallelism": nodes, "backoffLimit": 0, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {}},
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": name},
            "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": spec}}],
            **({"failurePolicy": policy} if policy else {}),
        },
    }


def found(world: World, name: str) -> Obj:
    here = world.client.get(JOBSETS, name, NAMESPACE)
    assert here is not None
    return here


def pods_of(world: World, name: str) -> list[Obj]:
    return world.client.list("pods", NAMESPACE, labels=f"jobset.sigs.k8s.io/jobset-name={name}")


def true(obj: Obj) -> dict[str, str]:
    told = obj.get("status", {}).get("conditions", [])
    return {c["type"]: c["reason"] for c in told if c["status"] == "True"}


def with_cpu(world: World, cores: int) -> None:
    world.create("resourceflavors.kueue.x-k8s.io", kueue("ResourceFlavor", "h100", {}), "")
    queue = cluster_queue("team-a", {"cpu": str(cores), "memory": "256Gi"})
    world.create("clusterqueues.kueue.x-k8s.io", queue, "")
    world.create("localqueues.kueue.x-k8s.io", kueue("LocalQueue", "gpu", {"clusterQueue": "team-a"}))


def test_eight_nodes_with_quota_for_seven_start_none_and_with_eight_all(world: World) -> None:
    with_cpu(world, 7)
    world.create(JOBSETS, job_set("train", 8, queue="gpu"))
    world.wait(20)
    assert pods_of(world, "train") == []
    assert found(world, "train")["spec"]["suspend"] is True
    status, reason, message = world.conditions("jobset", "train")["QuotaReserved"]
    assert (status, reason) == ("False", "Pending")
    assert message.startswith("couldn't assign flavors to pod set node: insufficient quota for cpu")
    groups = cluster_queue("team-a", {"cpu": "8", "memory": "256Gi"})["spec"]["resourceGroups"]
    world.client.patch("clusterqueues.kueue.x-k8s.io", "team-a", {"spec": {"resourceGroups": groups}})
    world.wait(10)
    assert len(pods_of(world, "train")) == 8
    assert {pod["status"]["phase"] for pod in pods_of(world, "train")} == {"Running"}
    assert world.conditions("jobset", "train")["PodsReady"][0] == "True"
    world.wait(60)
    assert true(found(world, "train")) == {"Completed": "AllJobsCompleted"}
    assert found(world, "train")["status"]["terminalState"] == "Completed"
    assert world.conditions("jobset", "train")["Finished"][:2] == ("True", "Succeeded")


def test_each_rank_has_a_name_under_one_headless_service(world: World) -> None:
    made = world.create(JOBSETS, job_set("train", 2))
    world.wait(5)
    spec = [pod["spec"] for pod in pods_of(world, "train")]
    assert {(each["hostname"], each["subdomain"]) for each in spec} == {
        ("train-node-0-0", "train"),
        ("train-node-0-1", "train"),
    }
    service = world.client.get("services", "train", NAMESPACE)
    assert service is not None
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "train"}
    assert service["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]


def test_a_node_that_fails_begins_the_whole_set_again_until_that_was_too_often(world: World) -> None:
    world.create(JOBSETS, job_set("train", 2, failing="1", maxRestarts=2))
    attempts = set()
    for _ in range(60):
        world.wait(4)
        attempts |= {pod["metadata"]["labels"][ATTEMPT] for pod in pods_of(world, "train")}
    assert attempts == {"0", "1", "2"}
    here = found(world, "train")
    assert true(here)["Failed"] == "ReachedMaxRestarts"
    assert (here["status"]["restarts"], here["status"]["restartsCountTowardsMax"]) == (2, 2)
    assert not [pod for pod in pods_of(world, "train") if pod["status"]["phase"] == "Running"]


def test_without_restarts_it_has_failed_at_the_first(world: World) -> None:
    world.create(JOBSETS, job_set("train", 2, failing="0"))
    world.wait(60)
    assert true(found(world, "train"))["Failed"] == "FailedJobs"


def test_what_is_taken_back_waits_again_as_a_whole(world: World) -> None:
    with_cpu(world, 8)
    world.create(JOBSETS, job_set("train", 8, queue="gpu"))
    world.wait(5)
    assert len(pods_of(world, "train")) == 8
    name = world.workload("jobset", "train")["metadata"]["name"]
    world.client.patch("workloads.kueue.x-k8s.io", name, {"spec": {"active": False}}, namespace=NAMESPACE)
    world.wait(60)
    assert pods_of(world, "train") == []
    assert "QuotaReserved" not in {
        kind for kind, (status, _, _) in world.conditions("jobset", "train").items() if status == "True"
    }
    world.client.patch("workloads.kueue.x-k8s.io", name, {"spec": {"active": True}}, namespace=NAMESPACE)
    world.wait(10)
    assert len(pods_of(world, "train")) == 8


def test_one_that_is_deleted_leaves_nothing(world: World) -> None:
    world.create(JOBSETS, job_set("train", 2))
    world.wait(5)
    world.client.delete(JOBSETS, "train", NAMESPACE)
    world.wait(60)
    assert pods_of(world, "train") == []
    assert world.client.list("jobs.batch", NAMESPACE) == []
    assert world.client.get("services", "train", NAMESPACE) is None
