"""The small objects that several groups of checks begin with. Pure; a check adds what it is about."""

from __future__ import annotations

from typing import Any

from tests.contract.answers import Body

IMAGE = "registry.example/tool:1"
# How long a Job's pod runs, for the kubelet of both servers.
DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Body:
    """A ConfigMap: the plainest object there is."""
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


def pod_spec(*, resources: Body | None = None, **spec: Any) -> Body:
    """One container that never ends by itself; resources are its limits and requests alike."""
    container: Body = {"name": "main", "image": IMAGE, "command": ["serve"]}
    if resources:
        container["resources"] = {"requests": resources, "limits": resources}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}


def pod(
    name: str, *, resources: Body | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> Body:
    """A pod of one container."""
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": pod_spec(resources=resources, **spec)}


def job(
    name: str,
    *,
    seconds: float = 1,
    labels: dict[str, str] | None = None,
    resources: Body | None = None,
    command: tuple[str, ...] = ("work",),
    **spec: Any,
) -> Body:
    """A Job of one pod that runs for some seconds; a command with `exit 1` fails."""
    inner = pod_spec(resources=resources, restartPolicy="Never")
    inner["containers"][0]["command"] = list(command)
    template = {"metadata": {"annotations": {DELAY: f"{seconds}s"}}, "spec": inner}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"template": template, **spec}}


def replicated(name: str, *, replicas: int = 1, labels: dict[str, str] | None = None, **spec: Any) -> Body:
    """A Deployment or StatefulSet without its kind; `resources` go to the container, the rest to its spec."""
    resources = spec.pop("resources", None)
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(resources=resources)}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **spec,
        },
    }
