"""Pods on nodes: defaults, placement, quota, limits, pod security, ending."""

from __future__ import annotations

import re
from typing import Any

from tests.contract.answers import Body, conditions, dig, pick
from tests.contract.api import Api
from tests.contract.manifests import IMAGE, pod

WAITING = "PodScheduled"


def _unplaced(api: Api, name: str = "a") -> Body:
    """What the scheduler says; numbers of nodes are the fleet's affair."""
    body = api.wait("pods", name, lambda found: conditions(found, "reason").get(WAITING, {}).get("reason"))
    told = conditions(body, "reason", "message")[WAITING]
    message = re.sub(r"\d+", "N", told["message"] or "")
    return {**told, "message": message, "phase": body["status"]["phase"]}


def check_a_pod_gets_its_defaults(api: Api) -> Any:
    body = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "tool"}], "schedulerName": "nobody"},
    }
    spec = api.create("pods", body).body["spec"]
    spec.pop("volumes", None)
    spec["containers"][0].pop("volumeMounts", None)
    return {**spec, "serviceAccount": None, "serviceAccountName": None}


def check_the_pull_policy_follows_the_tag(api: Api) -> Any:
    images = {"a": "tool", "b": "tool:latest", "c": "tool:1", "d": "tool@sha256:" + "0" * 64}
    body = pod("a", schedulerName="nobody")
    body["spec"]["containers"] = [{"name": name, "image": image} for name, image in images.items()]
    made = api.create("pods", body).get("spec.containers")
    return {container["image"][:11]: container["imagePullPolicy"] for container in made}


def check_limits_are_requests_unless_told(api: Api) -> Any:
    body = pod("a", schedulerName="nobody")
    body["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "1500m", "memory": "1Gi", "example.com/a": 1}
    }
    return api.create("pods", body).pick("spec.containers.0.resources")


def check_a_pod_has_its_class_of_service(api: Api) -> Any:
    resources: dict[str, Body] = {
        "besteffort": {},
        "burstable": {"requests": {"cpu": "1"}},
        "guaranteed": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    seen = {}
    for name, wanted in resources.items():
        body = pod(name, schedulerName="nobody")
        body["spec"]["containers"][0]["resources"] = wanted
        seen[name] = api.create("pods", body).get("status.qosClass")
    return seen


def check_a_pod_runs_and_is_ready(api: Api) -> Any:
    api.create("pods", pod("a"))
    body = api.wait("pods", "a", lambda found: conditions(found).get("Ready") == "True")
    status = body["status"]["containerStatuses"][0]
    assert dig(status, "state.running.startedAt")
    shown = pick(status, "name", "ready", "restartCount", "image")
    # A real kubelet also says PodReadyToStartContainers; the one of the test plane does not.
    told = {name: value for name, value in conditions(body).items() if name != "PodReadyToStartContainers"}
    return {"phase": body["status"]["phase"], "conditions": told, "container": shown}


def check_a_pod_too_large_for_every_node_waits(api: Api) -> Any:
    api.create("pods", pod("a", resources={"cpu": "100000"}))
    return {**_unplaced(api), "message": "Insufficient cpu" in _unplaced(api)["message"]}


def check_a_pod_for_another_node_waits(api: Api) -> Any:
    api.create("pods", pod("a", nodeSelector={"example.com/absent": "yes"}))
    told = _unplaced(api)
    return {**told, "message": "didn't match Pod's node affinity/selector" in told["message"]}


def check_a_pod_goes_where_its_selector_leads(api: Api) -> Any:
    node = _free_node(api)
    selector = {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
    api.create("pods", pod("a", nodeSelector=selector))
    body = api.wait("pods", "a", lambda found: found["spec"].get("nodeName"))
    return body["spec"]["nodeName"] == node["metadata"]["name"]


def check_a_gate_keeps_a_pod_from_the_scheduler(api: Api) -> Any:
    api.create("pods", pod("a", schedulingGates=[{"name": "example.com/gate"}]))
    gated = _unplaced(api)
    added = api.patch("pods", "a", {"spec": {"schedulingGates": [{"name": "example.com/more"}]}})
    opened = api.patch("pods", "a", {"spec": {"schedulingGates": []}})
    api.wait("pods", "a", lambda found: found["status"]["phase"] == "Running")
    return {"gated": gated, "added": [added.status, added.get("reason")], "opened": opened.status}


def check_most_of_a_pod_cannot_be_changed(api: Api) -> Any:
    api.create("pods", pod("a", schedulerName="nobody"))
    command = api.patch(
        "pods",
        "a",
        [{"op": "replace", "path": "/spec/containers/0/command", "value": ["x"]}],
        media="application/json-patch+json",
    )
    image = api.patch(
        "pods",
        "a",
        [{"op": "replace", "path": "/spec/containers/0/image", "value": "b:2"}],
        media="application/json-patch+json",
    )
    told = str(command.refusal["message"]).partition("\n")[0]
    return {
        "command": [command.status, command.get("details.causes.0.field"), told[:150]],
        "image": image.status,
    }


def check_a_wrong_pod_is_refused(api: Api) -> Any:
    wrong: dict[str, Body] = {
        "containers": {"containers": []},
        "image": {"containers": [{"name": "main"}]},
        "names": {"containers": [{"name": "a", "image": IMAGE}, {"name": "a", "image": IMAGE}]},
        "policy": {"containers": [{"name": "a", "image": IMAGE}], "restartPolicy": "Sometimes"},
        "quantity": {
            "containers": [
                {"name": "a", "image": IMAGE, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
            ]
        },
        "mount": {
            "containers": [{"name": "a", "image": IMAGE, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
        },
    }
    answers = {
        what: api.create("pods", {"metadata": {"name": "a"}, "spec": spec}) for what, spec in wrong.items()
    }
    assert {answer.status for answer in answers.values()} == {422}
    return {what: answer.refusal for what, answer in answers.items()}


def check_a_quantity_that_is_none_is_refused(api: Api) -> Any:
    answer = api.create("pods", pod("a", resources={"cpu": "much"}))
    return [answer.status, answer.get("reason")]


def check_a_deleted_pod_gets_its_grace(api: Api) -> Any:
    node = _free_node(api)["metadata"]["name"]
    api.create(
        "pods",
        {**pod("a"), "spec": {**pod("a")["spec"], "terminationGracePeriodSeconds": 30, "nodeName": node}},
    )
    api.wait("pods", "a", lambda found: found["status"]["phase"] == "Running")
    answer = api.delete("pods", "a")
    assert answer.get("metadata.deletionTimestamp")
    forced = api.delete("pods", "a", gracePeriodSeconds="0")
    fields = ("kind", "metadata.deletionGracePeriodSeconds")
    # The kubelet may have been quicker.
    assert forced.status in (200, 404)
    return {"answer": answer.pick(*fields), "gone": api.gone("pods", "a")}


def check_a_deleted_pod_goes_by_itself(api: Api) -> Any:
    api.create("pods", {**pod("a"), "spec": {**pod("a")["spec"], "terminationGracePeriodSeconds": 1}})
    api.wait("pods", "a", lambda found: found["status"]["phase"] == "Running")
    api.delete("pods", "a")
    return api.gone("pods", "a")


def check_a_quota_refuses_what_is_too_much(api: Api) -> Any:
    hard = {"pods": "1", "requests.cpu": "2", "count/configmaps": "2"}
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    api.wait("resourcequotas", "q", lambda body: body.get("status", {}).get("used"))
    silent = api.create("pods", pod("s", schedulerName="nobody"))
    first = api.create("pods", pod("a", resources={"cpu": "500m"}, schedulerName="nobody"))
    second = api.create("pods", pod("b", resources={"cpu": "500m"}, schedulerName="nobody"))
    counted = {"pods": "1", "count/configmaps": "1"}  # the cluster's own authority, in every namespace
    used = api.wait("resourcequotas", "q", lambda body: counted.items() <= body["status"]["used"].items())
    return {
        "silent": silent.refusal,
        "first": first.status,
        "second": second.refusal,
        "status": used["status"],
        "large": api.create("pods", pod("c", resources={"cpu": "9"})).refusal,
    }


def check_a_quota_counts_down_again(api: Api) -> Any:
    hard = {"count/secrets": "1", "count/services": "0"}
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    # Admission may not know the quota yet, though the controller has counted. It would charge nobody for the
    # first secret, let the second one in, and no later one.
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    api.until(lambda: api.create("services", service, dryRun="All").status == 403)
    api.create("secrets", {"metadata": {"name": "a"}})
    full = api.create("secrets", {"metadata": {"name": "b"}})
    api.delete("secrets", "a")
    # The controller is in no hurry when many namespaces change; every 5 minutes it counts anew.
    api.until(lambda: api.create("secrets", {"metadata": {"name": "b"}}).status == 201, 330)
    return full.refusal


def check_a_limit_range_fills_in_and_refuses(api: Api) -> Any:
    limits = {
        "type": "Container",
        "defaultRequest": {"cpu": "250m"},
        "default": {"cpu": "500m", "memory": "1Gi"},
        "max": {"cpu": "2"},
    }
    api.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limits]}})
    made = api.until(
        lambda: (
            (a := api.create("pods", pod("a", schedulerName="nobody"), dryRun="All")).get(
                "spec.containers.0.resources"
            )
            and a
        )
    )
    large = api.create("pods", pod("b", resources={"cpu": "3"}))
    annotation = made.get("metadata.annotations")
    return {"made": made.pick("spec.containers.0.resources"), "noted": annotation, "large": large.refusal}


def check_a_restricted_namespace_takes_only_restricted_pods(api: Api) -> Any:
    api.namespace_labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    plain = api.create("pods", pod("a"))
    body = pod(
        "b",
        schedulerName="nobody",
        securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    )
    body["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    good = api.create("pods", body)
    baseline = api.create("pods", {**pod("c"), "spec": {**pod("c")["spec"], "hostNetwork": True}})
    return {"plain": plain.refusal, "good": good.status, "host": baseline.status}


def check_a_claim_for_a_volume_is_bound_with_its_pod(api: Api) -> Any:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = api.create("persistentvolumeclaims", {"metadata": {"name": "v"}, "spec": spec})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]
    api.create("pods", pod("a", volumes=volumes))
    bound = api.wait("persistentvolumeclaims", "v", lambda body: body["status"]["phase"] == "Bound")
    fields = (
        "spec.storageClassName",
        "spec.volumeMode",
        "status.capacity",
        "status.accessModes",
        "metadata.finalizers",
    )
    return {"before": made.get("status.phase"), "bound": pick(bound, *fields)}


def check_every_node_is_ready_and_tells_what_it_has(api: Api) -> Any:
    nodes = api.list("nodes").body["items"]
    assert nodes
    ready = {conditions(node)["Ready"] for node in nodes}
    labels = {"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"}
    named = all(labels <= set(node["metadata"]["labels"]) for node in nodes)
    sizes = all({"cpu", "memory", "pods"} <= set(node["status"]["allocatable"]) for node in nodes)
    return {"ready": ready, "named": named, "sizes": sizes}


def _free_node(api: Api) -> Body:
    nodes = api.list("nodes", ns="*").body["items"]
    return dict(next(node for node in nodes if not node["spec"].get("taints")))
