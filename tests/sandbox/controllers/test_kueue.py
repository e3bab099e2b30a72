"""Kueue over the API: queues, workloads, gates, eviction and status, compared with what the real one
writes.
"""

from __future__ import annotations

import pytest

from sandbox.api.meta.errors import ApiError
from sandbox.controllers.kueue.names import WORKLOADS, workload_name
from tests.sandbox.controllers.bodies import NAMESPACE, SLICE, container, job, kueue, stateful
from tests.sandbox.controllers.conftest import World

ONE = {SLICE: 1}
SHORT = f"insufficient unused quota for {SLICE} in flavor h100, 1 more needed"
MISSING = f"couldn't assign flavors to pod set main: {SHORT}"


def test_workloads_are_named_as_the_real_one_names_them() -> None:
    meta = {"name": "nb", "uid": "5abf9643-acdd-451b-84eb-1bddf88ea2c1"}
    assert (
        workload_name({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta})
        == "statefulset-nb-61175"
    )
    meta = {"name": "j", "uid": "dc8e89c6-bd72-4902-9f2a-f6c9df941a6a"}
    assert workload_name({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}) == "job-j-1ea34"


def test_a_queued_job_is_suspended_admitted_given_a_device_and_finishes(queued: World) -> None:
    made = queued.create("jobs.batch", job("j", queue="gpu", limits=ONE))
    queued.wait(4)
    workload = queued.workload("job", "j")
    assert workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == made["metadata"]["uid"]
    assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {
        SLICE: "1",
        "cpu": "1",
        "memory": "4Gi",
    }
    pod = queued.pods_of(made)[0]
    assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]
    queued.wait(30)
    assert queued.conditions("job", "j")["Finished"] == (
        "True",
        "Succeeded",
        "Reached expected number of succeeded pods",
    )
    assert "finalizers" not in queued.workload("job", "j")["metadata"]
    assert queued.manager.failures == 0


def test_a_notebook_waits_gated_with_the_real_message_and_starts_when_the_slice_is_free(
    queued: World,
) -> None:
    queued.create("jobs.batch", job("j", queue="gpu", limits=ONE))
    queued.wait(2)
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    pod = queued.pod("nb-0")
    assert [g["name"] for g in pod["spec"]["schedulingGates"]] == [
        "kueue.x-k8s.io/admission",
        "kueue.x-k8s.io/topology",
    ]
    assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert queued.conditions("statefulset", "nb")["QuotaReserved"] == ("False", "Pending", MISSING)
    queued.wait(40)
    assert queued.pod("nb-0")["status"]["phase"] == "Running"
    assert queued.conditions("statefulset", "nb")["Admitted"][0] == "True"


def test_the_queues_report_what_is_reserved_used_and_pending(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    queued.create("jobs.batch", job("j", queue="gpu", limits=ONE))
    cluster = queued.client.get("clusterqueues.kueue.x-k8s.io", "team-a")
    local = queued.client.get("localqueues.kueue.x-k8s.io", "gpu", NAMESPACE)
    assert cluster is not None
    assert local is not None
    resources = [
        {"name": SLICE, "total": "1", "borrowed": "0"},
        {"name": "cpu", "total": "1", "borrowed": "0"},
        {"name": "memory", "total": "4Gi", "borrowed": "0"},
    ]
    assert cluster["status"]["flavorsReservation"] == [{"name": "h100", "resources": resources}]
    assert (cluster["status"]["pendingWorkloads"], local["status"]["pendingWorkloads"]) == (1, 1)
    assert local["status"]["conditions"][0]["message"] == "Can submit new workloads to localQueue"
    assert "borrowed" not in local["status"]["flavorsUsage"][0]["resources"][0]


def test_hold_and_drain_stops_what_runs_and_none_starts_it_again(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    queued.wait(10)
    first = queued.pod("nb-0")["metadata"]["uid"]
    queued.client.patch(
        "localqueues.kueue.x-k8s.io", "gpu", {"spec": {"stopPolicy": "HoldAndDrain"}}, namespace=NAMESPACE
    )
    queued.wait(5)
    conditions = queued.conditions("statefulset", "nb")
    assert conditions["Evicted"] == ("True", "LocalQueueStopped", "The LocalQueue is stopped")
    assert conditions["Requeued"] == ("False", "LocalQueueStopped", "The LocalQueue is stopped")
    assert conditions["QuotaReserved"] == ("False", "Inadmissible", "LocalQueue gpu is inactive")
    assert queued.pod("nb-0")["metadata"]["uid"] != first
    queued.client.patch(
        "localqueues.kueue.x-k8s.io", "gpu", {"spec": {"stopPolicy": "None"}}, namespace=NAMESPACE
    )
    queued.wait(10)
    conditions = queued.conditions("statefulset", "nb")
    assert conditions["Requeued"][1:] == (
        "LocalQueueRestarted",
        "The LocalQueue was restarted after being stopped",
    )
    assert conditions["Evicted"] == ("False", "QuotaReserved", "Previously: The LocalQueue is stopped")
    assert queued.pod("nb-0")["status"]["phase"] == "Running"


def test_hold_lets_running_work_run_and_keeps_new_work_out(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu"))
    queued.client.patch(
        "localqueues.kueue.x-k8s.io", "gpu", {"spec": {"stopPolicy": "Hold"}}, namespace=NAMESPACE
    )
    queued.create("jobs.batch", job("j", queue="gpu"))
    queued.wait(5)
    assert queued.pod("nb-0")["status"]["phase"] == "Running"
    assert queued.conditions("job", "j")["QuotaReserved"] == (
        "False",
        "Inadmissible",
        "LocalQueue gpu is inactive",
    )


def test_urgent_work_preempts_and_the_victim_queues_again(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    queued.wait(10)
    urgent = job("urg", queue="gpu", limits=ONE, delay="8s")
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
    queued.create("jobs.batch", urgent)
    queued.wait(4)
    conditions = queued.conditions("statefulset", "nb")
    assert conditions["Preempted"][1] == "InClusterQueue"
    assert conditions["Requeued"][:2] == ("True", "Preempted")
    assert (
        "due to prioritization in the ClusterQueue; preemptor path: /research/team-a"
        in conditions["Evicted"][2]
    )
    assert queued.workload("statefulset", "nb")["status"]["schedulingStats"]["evictions"][0]["count"] == 1
    queued.wait(20)
    assert queued.conditions("job", "urg")["Finished"][1] == "Succeeded"
    assert queued.pod("nb-0")["status"]["phase"] == "Running"


def test_a_preempted_job_is_suspended_and_its_template_is_restored(queued: World) -> None:
    queued.create("jobs.batch", job("low", queue="gpu", limits=ONE, delay="1h"))
    queued.wait(5)
    urgent = job("urg", queue="gpu", limits=ONE, delay="1h")
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
    queued.create("jobs.batch", urgent)
    queued.wait(5)
    low = queued.client.get("jobs.batch", "low", NAMESPACE)
    assert low is not None
    assert low["spec"]["suspend"] is True
    assert "nodeSelector" not in low["spec"]["template"]["spec"]
    assert "kueue.x-k8s.io/podset" not in low["spec"]["template"]["metadata"]["labels"]
    assert queued.pods_of(low) == []


def test_at_zero_replicas_the_workload_is_on_hold_and_frees_its_quota(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    queued.wait(5)
    queued.client.patch("statefulsets.apps", "nb", {"spec": {"replicas": 0}}, namespace=NAMESPACE)
    queued.wait(5)
    words = "StatefulSet scaled to zero; workload on hold"
    assert queued.conditions("statefulset", "nb")["QuotaReserved"] == ("False", "OnHold", words)
    queue = queued.client.get("clusterqueues.kueue.x-k8s.io", "team-a")
    assert queue is not None
    assert (queue["status"]["reservingWorkloads"], queue["status"]["pendingWorkloads"]) == (0, 0)
    queued.client.patch("statefulsets.apps", "nb", {"spec": {"replicas": 1}}, namespace=NAMESPACE)
    queued.wait(5)
    assert queued.pod("nb-0")["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"replicas": 3}}, "spec.replicas: Invalid value: 3: field is immutable"),
        ({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}, "field is immutable"),
    ],
)
def test_kueues_webhook_refuses_changes_of_a_running_set(
    queued: World, patch: dict[str, object], words: str
) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu"))
    queued.wait(5)
    with pytest.raises(
        ApiError, match=r'admission webhook "vstatefulset\.kb\.io" denied the request'
    ) as caught:
        queued.client.patch("statefulsets.apps", "nb", patch, namespace=NAMESPACE)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("queue", "words"),
    [("nope", "LocalQueue nope doesn't exist"), ("lost", "ClusterQueue gone doesn't exist")],
)
def test_work_for_a_queue_that_is_not_there_says_so(queued: World, queue: str, words: str) -> None:
    queued.create("localqueues.kueue.x-k8s.io", kueue("LocalQueue", "lost", {"clusterQueue": "gone"}))
    queued.create("jobs.batch", job("j", queue=queue))
    assert queued.conditions("job", "j")["QuotaReserved"] == ("False", "Inadmissible", words)


def test_a_namespace_outside_the_selector_waits_and_an_unmanaged_one_gets_no_workload(queued: World) -> None:
    queued.client.patch(
        "clusterqueues.kueue.x-k8s.io", "team-a", {"spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}
    )
    queued.create("jobs.batch", job("j", queue="gpu"))
    assert (
        queued.conditions("job", "j")["QuotaReserved"][2]
        == "workload namespace doesn't match ClusterQueue selector"
    )
    queued.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "free"}}, "")
    made = queued.create("jobs.batch", job("free", queue="gpu"), "free")
    assert made["spec"]["suspend"]
    assert queued.client.list("workloads.kueue.x-k8s.io", "free") == []


def test_claims_without_a_mapping_are_inadmissible_and_with_one_charged(queued: World) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "mig.nvidia.com", "count": 1}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    queued.create("resourceclaimtemplates.resource.k8s.io", template)
    body = job("j", queue="gpu")
    spec = body["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "one"}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "g"}]
    queued.create("jobs.batch", body)
    conditions = queued.conditions("job", "j")
    assert (
        "DeviceClass mig.nvidia.com is not mapped in DRA configuration for podset main"
        in conditions["QuotaReserved"][2]
    )
    assert conditions["Requeued"][:2] == ("False", "Inadmissible")


def test_each_pod_of_a_queued_deployment_is_a_workload_of_its_own(queued: World) -> None:
    labels = {"app": "dep"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(ONE)]}},
    }
    meta = {"name": "dep", "labels": {"kueue.x-k8s.io/queue-name": "gpu"}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    queued.create("deployments.apps", body)
    queued.wait(6)
    found = queued.client.list("workloads.kueue.x-k8s.io", NAMESPACE)
    assert len(found) == 2
    assert sorted(bool(w.get("status", {}).get("admission")) for w in found) == [False, True]
    phases = sorted(p["status"]["phase"] for p in queued.client.list("pods", NAMESPACE))
    assert phases == ["Pending", "Running"]


def test_a_deleted_owner_takes_its_workload_along_and_a_used_queue_stays_until_free(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu"))
    queued.create("jobs.batch", job("j", queue="gpu", delay="1h"))
    queued.client.delete("clusterqueues.kueue.x-k8s.io", "team-a")
    queued.wait(2)
    kept = queued.client.get("clusterqueues.kueue.x-k8s.io", "team-a")
    assert kept is not None
    assert kept["status"]["conditions"][0]["reason"] == "Terminating"
    queued.client.delete("statefulsets.apps", "nb", NAMESPACE)
    queued.client.delete("jobs.batch", "j", NAMESPACE)
    queued.wait(10)
    for resource in ("pods", "workloads.kueue.x-k8s.io", "resourceclaims.resource.k8s.io"):
        assert queued.client.list(resource, NAMESPACE) == []
    assert queued.client.get("clusterqueues.kueue.x-k8s.io", "team-a") is None


def test_pending_positions_count_from_zero_in_queue_order(queued: World) -> None:
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    for name in ("first", "second"):
        queued.wait(2)
        queued.create("jobs.batch", job(name, queue="gpu", limits=ONE))
    base = "/apis/visibility.kueue.x-k8s.io/v1beta2"
    for path in (
        f"{base}/clusterqueues/team-a/pendingworkloads",
        f"{base}/namespaces/{NAMESPACE}/localqueues/gpu/pendingworkloads",
    ):
        found = queued.cluster.views.find(path)
        assert found is not None
        answer = found[0](found[1], {})
        names = [
            (i["metadata"]["name"].rsplit("-", 1)[0], i["positionInLocalQueue"]) for i in answer["items"]
        ]
        assert names == [("job-first", 0), ("job-second", 1)]
        assert answer["items"][0]["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert found is not None
    page = found[0](found[1], {"limit": "1", "offset": "1"})
    assert [i["positionInClusterQueue"] for i in page["items"]] == [1]


def test_work_over_its_maximum_execution_time_is_deactivated(queued: World) -> None:
    body = job("j", queue="gpu", delay="1h")
    body["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "60"
    queued.create("jobs.batch", body)
    queued.wait(30)
    assert queued.workload("job", "j")["spec"]["active"] is True
    queued.wait(60)
    assert queued.workload("job", "j")["spec"]["active"] is False
    conditions = queued.conditions("job", "j")
    assert conditions["Evicted"][1] == "DeactivatedDueToMaximumExecutionTimeExceeded"
    assert queued.events("MaximumExecutionTimeExceeded") == ["The maximum execution time (60s) exceeded"]
    stopped = queued.client.get("jobs.batch", "j", NAMESPACE)
    assert stopped is not None
    assert stopped["spec"]["suspend"] is True


def test_pods_that_are_done_give_their_quota_back_before_the_job_ends(queued: World) -> None:
    body = job("j", queue="gpu", parallelism=2, completions=3, delay="20s")
    queued.create("jobs.batch", body)
    queue = queued.client.get("clusterqueues.kueue.x-k8s.io", "team-a")
    assert queue is not None
    assert queue["status"]["flavorsUsage"][0]["resources"][1] == {
        "name": "cpu",
        "total": "2",
        "borrowed": "0",
    }
    queued.wait(30)
    assert queued.workload("job", "j")["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    queue = queued.client.get("clusterqueues.kueue.x-k8s.io", "team-a")
    assert queue is not None
    assert queue["status"]["flavorsUsage"][0]["resources"][1]["total"] == "1"


def test_a_limit_ranges_defaults_are_charged_where_a_container_asks_for_nothing(queued: World) -> None:
    limit = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "500m", "memory": "1Gi"}}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "d"}, "spec": {"limits": [limit]}}
    queued.create("limitranges", body)
    bare = job("j", queue="gpu", delay="1h")
    bare["spec"]["template"]["spec"]["containers"][0].pop("resources")
    queued.create("jobs.batch", bare)
    assignment = queued.workload("job", "j")["status"]["admission"]["podSetAssignments"][0]
    assert assignment["resourceUsage"] == {"cpu": "500m", "memory": "1Gi"}


def test_a_priority_written_on_the_workload_itself_stays(queued: World) -> None:
    """Seen on Kueue 0.19.2: it follows the class's name, and leaves a number that somebody wrote alone."""
    queued.create("jobs.batch", job("first", queue="gpu", limits=ONE, delay="1h"))
    queued.wait(5)
    queued.create("statefulsets.apps", stateful("nb", queue="gpu", limits=ONE))
    queued.wait(5)
    name = queued.workload("statefulset", "nb")["metadata"]["name"]
    queued.client.patch(WORKLOADS, name, {"spec": {"priority": 7}}, namespace=NAMESPACE)
    queued.wait(5)
    assert queued.workload("statefulset", "nb")["spec"]["priority"] == 7
