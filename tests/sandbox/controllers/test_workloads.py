"""StatefulSets, Deployments, Jobs, the scheduler and the kubelet on simulated nodes."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.api.meta.objects import Obj
from sandbox.controllers.indexed import read_indexes, write_indexes
from tests.sandbox.controllers.bodies import (
    ATTRIBUTES,
    NAMESPACE,
    SLICE,
    container,
    device_class,
    job,
    stateful,
)
from tests.sandbox.controllers.conftest import World
from tests.sandbox.controllers.pods import plain_pod


def scheduled(world: World, name: str) -> tuple[str, str]:
    condition = next(c for c in world.pod(name)["status"]["conditions"] if c["type"] == "PodScheduled")
    return condition.get("reason", ""), condition.get("message", "")


def test_a_stateful_set_starts_its_pods_one_after_the_other_with_volumes(world: World) -> None:
    claim = {
        "metadata": {"name": "home"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    }
    made = world.create("statefulsets.apps", stateful("db", replicas=3, volumeClaimTemplates=[claim]))
    assert [p["metadata"]["name"] for p in world.pods_of(made)] == ["db-0"]
    world.wait(15)
    assert sorted(p["metadata"]["name"] for p in world.pods_of(made)) == ["db-0", "db-1", "db-2"]
    bound = world.client.get("persistentvolumeclaims", "home-db-2", NAMESPACE)
    assert bound is not None
    assert (bound["status"]["phase"], bound["status"]["capacity"]) == ("Bound", {"storage": "10Gi"})
    kept = world.client.get("statefulsets.apps", "db", NAMESPACE)
    assert kept is not None
    assert {k: kept["status"][k] for k in ("replicas", "readyReplicas", "updatedReplicas")} == {
        "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
    }  # fmt: skip


def test_scaling_down_takes_the_highest_ordinal_and_keeps_the_volume_claim(world: World) -> None:
    claim = {
        "metadata": {"name": "home"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = world.create("statefulsets.apps", stateful("db", replicas=2, volumeClaimTemplates=[claim]))
    world.wait(10)
    world.client.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}}, namespace=NAMESPACE)
    world.wait(5)
    assert [p["metadata"]["name"] for p in world.pods_of(made)] == ["db-0"]
    assert world.client.get("persistentvolumeclaims", "home-db-1", NAMESPACE) is not None


def test_a_new_template_rolls_a_stateful_set_from_the_top(world: World) -> None:
    made = world.create("statefulsets.apps", stateful("db", replicas=2))
    world.wait(10)
    template = {"spec": {"template": {"spec": {"containers": [container(image="python:3.14")]}}}}
    world.client.patch("statefulsets.apps", "db", template, namespace=NAMESPACE)
    world.wait(30)
    assert {p["spec"]["containers"][0]["image"] for p in world.pods_of(made)} == {"python:3.14"}


def deployment(name: str, **spec: Any) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": whole}


def test_a_deployment_that_rolls_always_has_as_many_that_answer_as_it_says(world: World) -> None:
    """By maxUnavailable, also between a scale and the status that tells of it."""
    rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    world.create("deployments.apps", deployment("web", replicas=3, strategy=rolling))
    world.wait(10)
    change = {"spec": {"template": {"spec": {"containers": [container(image="python:3.14")]}}}}
    world.client.patch("deployments.apps", "web", change, namespace=NAMESPACE)
    asked = []
    for _ in range(30):
        world.wait(1)
        sets = world.client.list("replicasets.apps", NAMESPACE)
        asked.append(sum(min(r["spec"]["replicas"], r["status"].get("availableReplicas", 0)) for r in sets))
    assert (min(asked), asked[-1]) == (2, 3)


def test_a_deployment_rolls_to_a_new_replica_set_and_leaves_the_old_one_empty(world: World) -> None:
    world.create("deployments.apps", deployment("web", replicas=2))
    world.wait(10)
    change = {"spec": {"template": {"spec": {"containers": [container(image="python:3.14")]}}}}
    world.client.patch("deployments.apps", "web", change, namespace=NAMESPACE)
    world.wait(30)
    sets = world.client.list("replicasets.apps", NAMESPACE)
    assert sorted(r["spec"]["replicas"] for r in sets) == [0, 2]
    found = world.client.get("deployments.apps", "web", NAMESPACE)
    assert found is not None
    assert found["status"]["updatedReplicas"] == found["status"]["availableReplicas"] == 2
    conditions = {c["type"]: c["reason"] for c in found["status"]["conditions"]}
    assert conditions == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}


def test_a_job_runs_its_completions_in_parallel_and_says_when_it_is_complete(world: World) -> None:
    made = world.create("jobs.batch", job("j", completions=3, parallelism=2, delay="10s"))
    assert len(world.pods_of(made)) == 2
    world.wait(40)
    done = world.client.get("jobs.batch", "j", NAMESPACE)
    assert done is not None
    assert (done["status"]["succeeded"], "active" in done["status"]) == (3, False)
    assert [c["type"] for c in done["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert "finalizers" not in world.pods_of(made)[0]["metadata"]


def test_an_indexed_job_completes_every_index_once(world: World) -> None:
    made = world.create(
        "jobs.batch", job("j", completions=3, parallelism=3, completionMode="Indexed", delay="5s")
    )
    assert sorted(p["metadata"]["name"].split("-")[1] for p in world.pods_of(made)) == ["0", "1", "2"]
    world.wait(20)
    done = world.client.get("jobs.batch", "j", NAMESPACE)
    assert done is not None
    assert done["status"]["completedIndexes"] == "0-2"


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "0,2-4,7"])
def test_completed_indexes_read_back_as_they_were_written(text: str) -> None:
    assert write_indexes(read_indexes(text)) == text


def test_a_crashing_job_backs_off_and_fails_at_its_limit(world: World) -> None:
    body = job("j", backoffLimit=1)
    body["spec"]["template"]["metadata"]["annotations"] = {"sandbox.allotment.dev/behaviour": "crash-loop"}
    world.create("jobs.batch", body)
    world.wait(120)
    failed = world.client.get("jobs.batch", "j", NAMESPACE)
    assert failed is not None
    assert failed["status"]["failed"] == 2
    assert [c["reason"] for c in failed["status"]["conditions"]] == [
        "BackoffLimitExceeded",
        "BackoffLimitExceeded",
    ]


def test_suspending_a_job_deletes_its_pods_and_resuming_starts_it_again(world: World) -> None:
    made = world.create("jobs.batch", job("j", delay="1h"))
    world.wait(5)
    for value, pods, reason in ((True, 0, "JobSuspended"), (False, 1, "JobResumed")):
        world.client.patch("jobs.batch", "j", {"spec": {"suspend": value}}, namespace=NAMESPACE)
        world.wait(5)
        found = world.client.get("jobs.batch", "j", NAMESPACE)
        assert found is not None
        assert len(world.pods_of(made)) == pods
        assert found["status"]["conditions"][0]["reason"] == reason
        assert ("startTime" in found["status"]) is not value


def test_a_finished_job_goes_after_its_time_to_live(world: World) -> None:
    world.create("jobs.batch", job("j", ttlSecondsAfterFinished=30, delay="5s"))
    world.wait(20)
    assert world.client.get("jobs.batch", "j", NAMESPACE) is not None
    world.wait(30)
    assert world.client.get("jobs.batch", "j", NAMESPACE) is None


def test_a_job_over_its_deadline_fails(world: World) -> None:
    world.create("jobs.batch", job("j", activeDeadlineSeconds=10, delay="1h"))
    world.wait(15)
    failed = world.client.get("jobs.batch", "j", NAMESPACE)
    assert failed is not None
    assert failed["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"


def test_a_pod_that_fits_nowhere_says_what_every_node_lacks(world: World) -> None:
    body = plain_pod("big")
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000"
    world.create("pods", body)
    assert scheduled(world, "big") == (
        "Unschedulable",
        (
            "0/4 nodes are available: 4 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/4 nodes are available: 4 Preemption is not helpful for scheduling."
        ),
    )


def test_a_waiting_pod_is_scheduled_when_another_makes_room(world: World) -> None:
    selector = {"kubernetes.io/hostname": "t4-0"}
    for name in ("first", "second"):
        body = plain_pod(name, nodeSelector=selector)
        body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "10"
        world.create("pods", body)
    assert (
        "1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector"
        in scheduled(world, "second")[1]
    )
    world.client.delete("pods", "first", NAMESPACE)
    world.wait(40)
    assert world.pod("second")["spec"]["nodeName"] == "t4-0"


def test_a_cordoned_or_tainted_node_is_left_out(world: World) -> None:
    world.client.patch("nodes", "t4-0", {"spec": {"unschedulable": True}})
    world.client.patch("nodes", "l4-0", {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})
    world.create("pods", plain_pod("a", nodeSelector={"kubernetes.io/hostname": "t4-0"}))
    world.create("pods", plain_pod("b", nodeSelector={"kubernetes.io/hostname": "l4-0"}))
    assert "1 node(s) were unschedulable" in scheduled(world, "a")[1]
    assert "1 node(s) had untolerated taint(s)" in scheduled(world, "b")[1]
    world.client.patch("nodes", "t4-0", {"spec": {"unschedulable": None}})
    world.wait(1)
    assert world.pod("a")["spec"]["nodeName"] == "t4-0"


def test_one_unsafe_selector_stops_allocation_of_its_class_with_the_schedulers_words(world: World) -> None:
    unsafe = device_class("bad-class", "allotment.dev/bad", f"{ATTRIBUTES}.profile == '1g.10gb'")
    world.create("deviceclasses.resource.k8s.io", unsafe, "")
    world.create("pods", plain_pod("p", containers=[container({"allotment.dev/bad": 1})]))
    assert scheduled(world, "p") == (
        "SchedulerError",
        (
            'running "DynamicResources" filter plugin: class bad-class: selector #0: CEL runtime error: '
            "no such key: profile"
        ),
    )
    fixed = {
        "spec": {
            "selectors": [
                {"cel": {"expression": f"{ATTRIBUTES}.type == 'mig' && {ATTRIBUTES}.profile == '1g.10gb'"}}
            ]
        }
    }
    world.client.patch("deviceclasses.resource.k8s.io", "bad-class", fixed)
    world.wait(1)
    assert world.pod("p")["spec"]["nodeName"] == "h100-0"


def test_an_extended_resource_makes_a_claim_and_the_end_of_the_pod_releases_it(queued: World) -> None:
    made = queued.create("jobs.batch", job("j", limits={SLICE: 1}, delay="10s"))
    queued.wait(3)
    pod = queued.pods_of(made)[0]
    status = pod["status"]["extendedResourceClaimStatus"]
    assert status["requestMappings"] == [
        {"containerName": "c", "resourceName": SLICE, "requestName": "container-0-request-0"}
    ]
    claim = queued.client.get("resourceclaims.resource.k8s.io", status["resourceClaimName"], NAMESPACE)
    assert claim is not None
    assert claim["metadata"]["name"].startswith(f"{pod['metadata']['name']}-extended-resources-")
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert claim["status"]["allocation"]["devices"]["results"] == [
        {
            "request": "container-0-request-0",
            "driver": "gpu.nvidia.com",
            "pool": "h100-0",
            "device": "gpu-1-mig-3g40gb-9-4",
        }
    ]
    assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
    queued.wait(20)
    assert queued.client.list("resourceclaims.resource.k8s.io", NAMESPACE) == []


@pytest.mark.parametrize(("version", "says_when"), [("v1.36.3", True), ("v1.35.4", False)])
def test_an_allocation_says_when_it_was_made_since_kubernetes_1_36(
    queued: World, version: str, *, says_when: bool
) -> None:
    info = {"status": {"nodeInfo": {"kubeletVersion": version}}}
    queued.client.patch("nodes", "h100-0", info, subresource="status")
    queued.create("pods", plain_pod("a", containers=[container({SLICE: 1})]))
    (claim,) = queued.client.list("resourceclaims.resource.k8s.io", NAMESPACE)
    assert ("allocationTimestamp" in claim["status"]["allocation"]) is says_when


def test_a_device_is_given_to_one_pod_at_a_time(queued: World) -> None:
    for name in ("a", "b"):
        queued.create("pods", plain_pod(name, containers=[container({SLICE: 1})]))
    assert queued.pod("a")["spec"]["nodeName"] == "h100-0"
    assert "4 cannot allocate all claims" in scheduled(queued, "b")[1]
    queued.client.delete("pods", "a", NAMESPACE)
    queued.wait(5)
    assert queued.pod("b")["spec"]["nodeName"] == "h100-0"


def test_a_claim_template_makes_a_claim_even_for_a_gated_pod(world: World) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "mig.nvidia.com", "count": 2}}
    spec = {
        "devices": {"requests": [request], "constraints": [{"matchAttribute": "gpu.nvidia.com/parentUUID"}]}
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two"},
        "spec": {"spec": spec},
    }
    world.create("resourceclaimtemplates.resource.k8s.io", template)
    claims = [{"name": "g", "resourceClaimTemplateName": "two"}]
    body = plain_pod("p", resourceClaims=claims, schedulingGates=[{"name": "example.com/wait"}])
    world.create("pods", body)
    name = world.pod("p")["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    assert name.startswith("p-g-")
    world.client.patch("pods", "p", {"spec": {"schedulingGates": None}}, namespace=NAMESPACE)
    world.wait(2)
    claim = world.client.get("resourceclaims.resource.k8s.io", name, NAMESPACE)
    assert claim is not None
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2
    assert world.pod("p")["spec"]["nodeName"] in ("h100-0", "a100-0")


def test_a_pod_goes_through_the_phases_with_the_events_of_a_kubelet(world: World) -> None:
    world.create("pods", plain_pod("p"))
    assert world.pod("p")["status"]["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "ContainerCreating"}
    }
    world.wait(5)
    status = world.pod("p")["status"]
    assert (status["phase"], status["containerStatuses"][0]["ready"]) == ("Running", True)
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    for reason in ("Scheduled", "Pulling", "Pulled", "Created", "Started"):
        assert world.events(reason), reason


def test_a_crash_loop_restarts_with_growing_pauses(world: World) -> None:
    body = plain_pod("p")
    body["metadata"]["annotations"] = {"sandbox.allotment.dev/behaviour": "crash-loop"}
    world.create("pods", body)
    world.wait(300)
    status = world.pod("p")["status"]["containerStatuses"][0]
    assert 3 <= status["restartCount"] <= 8
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert world.events("BackOff")


def test_a_slow_start_is_running_but_not_ready_for_minutes(world: World) -> None:
    body = plain_pod("p")
    body["metadata"]["annotations"] = {"sandbox.allotment.dev/behaviour": "slow-start"}
    world.create("pods", body)
    world.wait(60)
    status = world.pod("p")["status"]
    assert (status["phase"], status["containerStatuses"][0]["ready"]) == ("Running", False)
    world.wait(600)
    assert world.pod("p")["status"]["containerStatuses"][0]["ready"] is True


def test_a_deleted_pod_ends_within_its_grace_and_is_remade_by_its_set(world: World) -> None:
    world.create("statefulsets.apps", stateful("db"))
    world.wait(5)
    before = world.pod("db-0")["metadata"]["uid"]
    world.client.delete("pods", "db-0", NAMESPACE)
    assert world.pod("db-0")["metadata"]["deletionGracePeriodSeconds"] == 30
    world.wait(5)
    assert world.pod("db-0")["metadata"]["uid"] != before
