"""From a row of corpus.yaml to the object or the command that is tried. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import yamls
from tests.fence.scene import Manifest, merged, pod_spec

CORPUS = Path(__file__).parent / "corpus.yaml"
_QUEUE = {"kueue.x-k8s.io/queue-name": "gpu"}
_LABELS = {"app": "tried"}


@dataclass(frozen=True)
class Case:
    """One way past the rules: what is tried, what must stop it, words of the answer (`|`: any of them)."""

    case: str
    rule: str
    says: str
    of: str = ""
    run: tuple[str, ...] = ()
    change: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    owner: str = ""

    @property
    def member_may_ask(self) -> bool:
        """Whether a member's role lets the request through to admission: Jobs are made and deleted."""
        return self.of == "job" or self.run[:2] == ("delete", "job")


def corpus() -> list[Case]:
    """Every row of the file."""
    rows = yamls.document(CORPUS.read_text())
    return [Case(**row | {"run": tuple(row.get("run", ()))}) for row in rows]


def body_of(case: Case, offer: str, names: Mapping[str, str], owner: Manifest | None) -> Manifest:
    """The legitimate object with the change of the case."""
    plain = legitimate(case.of, offer)
    spec = _pod_of(plain)
    if spec is not None:
        spec |= merged(spec, case.pod)
        for key in [key for key, value in case.pod.items() if value is None]:
            del spec[key]
        spec["containers"] = [merged(spec["containers"][0], case.container)]
    body: Manifest = merged(plain, case.change)
    if owner:
        body["metadata"]["ownerReferences"] = [owner]
    found: Manifest = filled(body, names)
    return found


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Keys and texts with the scene's names in them."""
    if isinstance(value, dict):
        return {filled(key, names): filled(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, names) for inner in value]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def _pod_of(body: Manifest) -> Manifest | None:
    if body["kind"] == "Pod":
        found: Manifest = body["spec"]
        return found
    spec = body.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    return template["spec"] if isinstance(template, dict) else None


def legitimate(kind: str, offer: str) -> Manifest:
    """An object of that kind that would be accepted, as far as a tenant's people could ever make one."""
    api_version, word, body = (_of_pods(pod_spec(offer)) | _OTHERS)[kind]
    metadata = {"name": "set-0" if kind == "binding" else "tried", "labels": dict(_QUEUE)}
    return {"apiVersion": api_version, "kind": word, "metadata": metadata, **copy.deepcopy(body)}


def _of_pods(pod: Manifest) -> dict[str, tuple[str, str, Manifest]]:
    running = {"metadata": {"labels": _LABELS}, "spec": pod | {"restartPolicy": "Always"}}
    selected = {"spec": {"selector": {"matchLabels": _LABELS}, "template": running}}
    job = {"spec": {"template": {"spec": pod}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": pod}}
    return {
        "job": ("batch/v1", "Job", job),
        "pod": ("v1", "Pod", {"spec": pod}),
        "statefulset": ("apps/v1", "StatefulSet", merged(selected, {"spec": {"serviceName": "tried"}})),
        "deployment": ("apps/v1", "Deployment", selected),
        "replicaset": ("apps/v1", "ReplicaSet", selected),
        "daemonset": ("apps/v1", "DaemonSet", selected),
        "replicationcontroller": (
            "v1",
            "ReplicationController",
            {"spec": {"selector": _LABELS, "template": running}},
        ),
        "cronjob": ("batch/v1", "CronJob", {"spec": {"schedule": "* * * * *", "jobTemplate": job}}),
        "workload": (_KUEUE, "Workload", {"spec": {"queueName": "gpu", "podSets": [pod_set]}}),
    }


_KUEUE, _RBAC = "kueue.x-k8s.io/v1beta2", "rbac.authorization.k8s.io"
_GATEWAY = "gateway.networking.k8s.io"
_PAST_THE_DOOR = {
    "parentRefs": [{"name": "people"}],
    "rules": [{"backendRefs": [{"name": "tried", "port": 80}]}],
}
_LETS_IN = {
    "from": [{"group": _GATEWAY, "kind": "HTTPRoute", "namespace": "default"}],
    "to": [{"group": "", "kind": "Service"}],
}
_LISTENS = {"gatewayClassName": "any", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}
_DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "any"}}]}}
_OPEN = {"podSelector": {}, "ingress": [{}], "egress": [{}], "policyTypes": ["Ingress", "Egress"]}
_FRIEND = {"kind": "User", "name": "friend", "apiGroup": _RBAC}
_VIEW = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "view"}
_OTHERS: dict[str, tuple[str, str, Manifest]] = {
    "service": ("v1", "Service", {"spec": {"ports": [{"port": 80}], "selector": _LABELS}}),
    "resourcequota": ("v1", "ResourceQuota", {"spec": {"hard": {"pods": "9"}}}),
    "networkpolicy": ("networking.k8s.io/v1", "NetworkPolicy", {"spec": _OPEN}),
    "httproute": (f"{_GATEWAY}/v1", "HTTPRoute", {"spec": _PAST_THE_DOOR}),
    "referencegrant": (f"{_GATEWAY}/v1beta1", "ReferenceGrant", {"spec": _LETS_IN}),
    "gateway": (f"{_GATEWAY}/v1", "Gateway", {"spec": _LISTENS}),
    "localqueue": (_KUEUE, "LocalQueue", {"spec": {"clusterQueue": "theirs"}}),
    "claim": ("resource.k8s.io/v1", "ResourceClaim", {"spec": _DEVICES}),
    "claimtemplate": ("resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {"spec": _DEVICES}}),
    "configmap": ("v1", "ConfigMap", {}),
    "serviceaccount": ("v1", "ServiceAccount", {}),
    "namespace": ("v1", "Namespace", {}),
    "deviceclass": ("resource.k8s.io/v1", "DeviceClass", {"spec": {}}),
    "clusterqueue": (_KUEUE, "ClusterQueue", {"spec": {}}),
    "priorityclass": (_KUEUE, "WorkloadPriorityClass", {"value": 1_000_000}),
    "role": (f"{_RBAC}/v1", "Role", {"rules": []}),
    "rolebinding": (f"{_RBAC}/v1", "RoleBinding", {"roleRef": _VIEW, "subjects": [_FRIEND]}),
    "binding": ("v1", "Binding", {"target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-02"}}),
}
