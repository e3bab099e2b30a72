"""StatefulSet, Deployment and Job: what they make, how they count, how they end."""

from __future__ import annotations

import re
from typing import Any

from tests.contract.answers import Body, conditions, dig, pick
from tests.contract.api import STRATEGIC, Api
from tests.contract.manifests import job, replicated

APP = "app=a"


def _status(api: Api, resource: str, wanted: Any) -> Body:
    return api.wait(resource, "a", lambda body: wanted(body.get("status", {})), seconds=45)


def check_a_stateful_set_makes_its_pods_in_order(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=2))
    _status(api, "statefulsets", lambda status: status.get("readyReplicas") == 2)
    pods = api.list("pods", labelSelector=APP).body["items"]
    keys = ("apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", "app")
    labels = [{key: pod["metadata"]["labels"].get(key) for key in keys} for pod in pods]
    owner = pick(
        pods[0]["metadata"]["ownerReferences"][0],
        "apiVersion",
        "kind",
        "name",
        "controller",
        "blockOwnerDeletion",
    )
    first, second = (pod["metadata"]["creationTimestamp"] for pod in pods)
    assert first <= second
    return {"labels": labels, "owner": owner, "hostname": pods[0]["spec"]["hostname"]}


def check_a_stateful_set_counts_its_pods(api: Api) -> Any:
    made = api.create("statefulsets", replicated("a", replicas=1))
    body = _status(api, "statefulsets", lambda status: status.get("availableReplicas") == 1)
    status = body["status"]
    revision = status["currentRevision"]
    assert revision == status["updateRevision"]
    assert re.fullmatch(r"a-[a-z0-9]+", revision)
    counts = {key: value for key, value in status.items() if not key.endswith("Revision")}
    fields = (
        "spec.podManagementPolicy",
        "spec.updateStrategy",
        "spec.revisionHistoryLimit",
        "spec.persistentVolumeClaimRetentionPolicy",
    )
    return {"defaults": made.pick(*fields), "status": counts}


def check_a_stateful_set_at_zero_has_no_pods(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=2))
    _status(api, "statefulsets", lambda status: status.get("readyReplicas") == 2)
    api.patch("statefulsets", "a", {"spec": {"replicas": 0}})
    body = _status(api, "statefulsets", lambda status: status.get("replicas") == 0)
    api.until(lambda: not api.list("pods", labelSelector=APP).names)
    return pick(body["status"], "replicas", "readyReplicas", "observedGeneration")


def check_a_deleted_pod_of_a_stateful_set_is_made_again(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=1))
    old = api.wait("pods", "a-0", lambda body: conditions(body).get("Ready") == "True")
    api.delete("pods", "a-0")
    new = api.wait("pods", "a-0", lambda body: body["metadata"]["uid"] != old["metadata"]["uid"])
    return new["metadata"]["name"]


def check_volumes_of_a_stateful_set_outlive_it(api: Api) -> Any:
    claim = {
        "metadata": {"name": "home"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    api.create("statefulsets", replicated("a", replicas=1, volumeClaimTemplates=[claim]))
    _status(api, "statefulsets", lambda status: status.get("readyReplicas") == 1)
    made = api.read("persistentvolumeclaims", "home-a-0")
    volumes = [volume for volume in api.read("pods", "a-0").get("spec.volumes") if volume["name"] == "home"]
    api.delete("statefulsets", "a", propagationPolicy="Background")
    api.gone("pods", "a-0")
    kept = api.read("persistentvolumeclaims", "home-a-0")
    return {
        "claim": made.pick("metadata.labels", "metadata.ownerReferences", "status.phase"),
        "volumes": volumes,
        "kept": kept.status,
    }


def check_a_changed_stateful_set_replaces_its_pods(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=1))
    before = _status(api, "statefulsets", lambda status: status.get("readyReplicas") == 1)
    containers = [{"name": "main", "image": "registry.example/tool:2"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    api.patch("statefulsets", "a", patch, media=STRATEGIC)
    after = _status(
        api,
        "statefulsets",
        lambda s: (
            s.get("observedGeneration") == 2
            and s.get("readyReplicas") == 1
            and s["currentRevision"] == s["updateRevision"]
        ),
    )
    image = api.read("pods", "a-0").get("spec.containers.0.image")
    return {
        "image": image,
        "same_revision": before["status"]["updateRevision"] == after["status"]["updateRevision"],
    }


def check_most_of_a_stateful_set_cannot_be_changed(api: Api) -> Any:
    api.create("statefulsets", replicated("a", replicas=0))
    service = api.patch("statefulsets", "a", {"spec": {"serviceName": "other"}})
    wrong = api.create("statefulsets", replicated("b", selector={"matchLabels": {"app": "x"}}))
    return {"service": service.refusal, "selector": wrong.refusal}


def check_a_deployment_makes_a_replica_set(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=2))
    body = _status(api, "deployments", lambda status: status.get("availableReplicas") == 2)
    sets = api.list("replicasets", labelSelector=APP).body["items"]
    assert len(sets) == 1
    digest = sets[0]["metadata"]["labels"]["pod-template-hash"]
    assert sets[0]["metadata"]["name"] == f"a-{digest}"
    names = api.list("pods", labelSelector=f"pod-template-hash={digest}").names
    assert all(re.fullmatch(rf"a-{digest}-[a-z0-9]{{5}}", name) for name in names)
    fields = ("metadata.annotations", "spec.replicas", "status.availableReplicas")
    conditions_told = conditions(body, "reason", "message")
    told = {
        name: {**entry, "message": entry["message"].replace(digest, "HASH")}
        for name, entry in conditions_told.items()
    }
    counts = {key: value for key, value in body["status"].items() if key != "conditions"}
    return {"set": pick(sets[0], *fields), "pods": len(names), "conditions": told, "counts": counts}


def check_a_deployment_gets_its_defaults(api: Api) -> Any:
    spec = api.create("deployments", replicated("a", replicas=0)).body["spec"]
    spec["template"]["spec"].pop("containers")
    return spec


def check_a_changed_deployment_rolls_over(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=1))
    _status(api, "deployments", lambda status: status.get("availableReplicas") == 1)
    containers = [{"name": "main", "image": "registry.example/tool:2"}]
    api.patch(
        "deployments", "a", {"spec": {"template": {"spec": {"containers": containers}}}}, media=STRATEGIC
    )
    done = _status(
        api,
        "deployments",
        lambda s: (
            s.get("observedGeneration") == 2 and s.get("updatedReplicas") == 1 and s.get("replicas") == 1
        ),
    )
    sets = api.list("replicasets", labelSelector=APP).body["items"]
    seen = {
        entry["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: entry["spec"]["replicas"]
        for entry in sets
    }
    return {"sets": seen, "revision": dig(done, "metadata.annotations")["deployment.kubernetes.io/revision"]}


def check_a_deployment_is_scaled_down_and_removed(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=2))
    _status(api, "deployments", lambda status: status.get("availableReplicas") == 2)
    api.patch("deployments", "a", {"spec": {"replicas": 1}}, sub="scale")
    api.until(lambda: len(api.list("pods", labelSelector=APP).names) == 1)
    answer = api.delete("deployments", "a", propagationPolicy="Foreground")
    api.gone("deployments", "a")
    left = [api.list(resource, labelSelector=APP).names for resource in ("replicasets", "pods")]
    return {"answer": answer.get("metadata.finalizers"), "left": left}


def check_a_paused_deployment_makes_nothing(api: Api) -> Any:
    api.create("deployments", replicated("a", replicas=1, paused=True))
    body = _status(
        api, "deployments", lambda status: status.get("observedGeneration") == 1 and status.get("conditions")
    )
    return {"conditions": conditions(body, "reason"), "pods": api.list("pods", labelSelector=APP).names}


def check_a_job_runs_and_completes(api: Api) -> Any:
    made = api.create("jobs", job("a", seconds=1)).body
    done = _status(api, "jobs", lambda status: status.get("completionTime"))
    uid = made["metadata"]["uid"]
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert made["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    fields = (
        "backoffLimit",
        "completions",
        "parallelism",
        "completionMode",
        "suspend",
        "manualSelector",
        "podReplacementPolicy",
    )
    status = {
        key: value
        for key, value in done["status"].items()
        if not key.endswith("Time") and key != "conditions"
    }
    told = conditions(done, "reason", "message")
    return {"spec": pick(made["spec"], *fields), "labels": labels, "conditions": told, "status": status}


def check_a_pod_of_a_job_belongs_to_it(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1))
    _status(api, "jobs", lambda status: status.get("succeeded") == 1)
    pod = api.list("pods", labelSelector="job-name=a").body["items"][0]
    assert re.fullmatch(r"a-[a-z0-9]{5}", pod["metadata"]["name"])
    owner = pick(
        pod["metadata"]["ownerReferences"][0],
        "apiVersion",
        "kind",
        "name",
        "controller",
        "blockOwnerDeletion",
    )
    ended = dig(pod, "status.containerStatuses.0.state.terminated") or {}
    terminated = pick(ended, "exitCode", "reason")
    # Where a node tells its zone, the server copies it to the pod.
    labels = {
        key: value for key, value in pod["metadata"]["labels"].items() if not key.startswith("topology.")
    }
    return {
        "owner": owner,
        "labels": labels,
        "phase": pod["status"]["phase"],
        "ended": terminated,
        "generateName": pod["metadata"]["generateName"],
    }


def check_a_failing_job_fails_after_its_attempts(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1, command=("sh", "-c", "exit 1"), backoffLimit=0))
    body = _status(
        api, "jobs", lambda status: any(c["type"] == "Failed" for c in status.get("conditions", []))
    )
    pods = api.list("pods", labelSelector="job-name=a").body["items"]
    phases = [pod["status"]["phase"] for pod in pods]
    return {
        "conditions": conditions(body, "reason", "message"),
        "failed": body["status"]["failed"],
        "phases": phases,
    }


def check_a_suspended_job_makes_no_pod_until_resumed(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1, suspend=True))
    held = _status(api, "jobs", lambda status: status.get("conditions"))
    pods = api.list("pods", labelSelector="job-name=a").names
    api.patch("jobs", "a", {"spec": {"suspend": False}})
    done = _status(api, "jobs", lambda status: status.get("succeeded") == 1)
    keys = ("reason", "message")
    return {
        "held": conditions(held, *keys),
        "start": dig(held, "status.startTime"),
        "pods": pods,
        "resumed": conditions(done, *keys)["Suspended"],
    }


def check_a_running_job_is_suspended(api: Api) -> Any:
    api.create("jobs", job("a", seconds=60))
    _status(api, "jobs", lambda status: status.get("active") == 1)
    api.patch("jobs", "a", {"spec": {"suspend": True}})
    body = _status(api, "jobs", lambda status: conditions({"status": status}).get("Suspended") == "True")
    api.until(lambda: not api.list("pods", labelSelector="job-name=a").names)
    return {"conditions": conditions(body, "reason"), "start": dig(body, "status.startTime")}


def check_a_job_of_several_runs_them_side_by_side(api: Api) -> Any:
    api.create("jobs", job("a", seconds=3, completions=3, parallelism=2))
    body = _status(api, "jobs", lambda status: status.get("active") == 2)
    done = _status(api, "jobs", lambda status: status.get("completionTime"))
    return {"active": body["status"]["active"], "done": pick(done["status"], "succeeded", "active", "failed")}


def check_an_indexed_job_numbers_its_pods(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1, completions=2, parallelism=2, completionMode="Indexed"))
    done = _status(api, "jobs", lambda status: status.get("completionTime"))
    pods = api.list("pods", labelSelector="job-name=a").body["items"]
    key = "batch.kubernetes.io/job-completion-index"
    indices = sorted(pod["metadata"]["annotations"][key] for pod in pods)
    return {
        "completed": dig(done, "status.completedIndexes"),
        "indices": indices,
        "hosts": sorted(pod["spec"]["hostname"] for pod in pods),
    }


def check_a_job_has_a_deadline(api: Api) -> Any:
    api.create("jobs", job("a", seconds=60, activeDeadlineSeconds=1))
    body = _status(
        api, "jobs", lambda status: any(c["type"] == "Failed" for c in status.get("conditions", []))
    )
    return conditions(body, "reason", "message")


def check_a_finished_job_goes_after_its_time(api: Api) -> Any:
    api.create("jobs", job("a", seconds=1, ttlSecondsAfterFinished=0))
    return [api.gone("jobs", "a"), api.until(lambda: not api.list("pods", labelSelector="job-name=a").names)]


def check_most_of_a_job_cannot_be_changed(api: Api) -> Any:
    api.create("jobs", job("a", suspend=True))
    completions = api.patch("jobs", "a", {"spec": {"completions": 5}})
    selector = api.patch("jobs", "a", {"spec": {"selector": {"matchLabels": {"x": "y"}}}})
    policy = api.create(
        "jobs", {**job("b"), "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}}
    )
    told = (completions, selector)
    return {"changed": [[a.status, a.get("details.causes.0.field")] for a in told], "policy": policy.refusal}


def check_a_deleted_job_orphans_its_pods_unless_told(api: Api) -> Any:
    api.create("jobs", job("a", seconds=60))
    _status(api, "jobs", lambda status: status.get("active") == 1)
    answer = api.delete("jobs", "a", dryRun="All")
    gone = api.delete("jobs", "a", propagationPolicy="Background")
    api.until(lambda: not api.list("pods", labelSelector="job-name=a").names)
    return {"warned": answer.warnings, "gone": gone.status}
