"""Bodies of objects the controller tests create."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
SLICE = "allotment.dev/mig-3g.40gb"
NAMESPACE = "team-a"
ATTRIBUTES = "device.attributes['gpu.nvidia.com']"


def container(limits: Obj | None = None, **more: Any) -> Obj:
    resources: Obj = {"requests": {"cpu": "1", "memory": "4Gi"}}
    if limits:
        resources["limits"] = limits
    return {"name": "c", "image": "python:3.13", "resources": resources, **more}


def job(name: str, *, queue: str = "", limits: Obj | None = None, delay: str = "20s", **spec: Any) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    annotations = {"pod-complete.stage.kwok.x-k8s.io/delay": delay}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container(limits)]},
    }
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


def stateful(name: str, *, queue: str = "", limits: Obj | None = None, **spec: Any) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(limits)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **spec,
        },
    }


def device_class(name: str, extended: str, expression: str) -> Obj:
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": extended}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def kueue(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster_queue(name: str, quota: dict[str, Any], **spec: Any) -> Obj:
    resources = [{"name": r, **(q if isinstance(q, dict) else {"nominalQuota": q})} for r, q in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": "h100", "resources": resources}]}
    return kueue("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec})
