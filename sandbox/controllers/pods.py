"""Pods as the workload controllers see them: made from a template, ready, active, ended.

Pure predicates and constructors. Schedules and runs nothing.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

import orjson

from sandbox.api.meta.objects import Obj, copy_of, parse_time
from sandbox.api.storage.clock import SUFFIX_ALPHABET
from sandbox.controllers.conditions import controller_reference, find

PODS = "pods"


def pod_from_template(template: Obj, owner: Obj) -> Obj:
    """A pod with the template's labels, annotations and spec, controlled by `owner`; the caller names it."""
    source = copy_of(template)
    meta = source.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner["metadata"]["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [controller_reference(owner)],
            **({"finalizers": meta["finalizers"]} if meta.get("finalizers") else {}),
        },
        "spec": source["spec"],
    }


def template_hash(template: Obj, length: int = 10) -> str:
    """A hash of a pod template in the alphabet of generated names; equal templates, equal hash."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in digest[:length])


def phase(pod: Obj) -> str:
    """status.phase; a pod without one is Pending."""
    return str(pod.get("status", {}).get("phase") or "Pending")


def is_terminal(pod: Obj) -> bool:
    """Succeeded or Failed: it will never run again and holds no node resources."""
    return phase(pod) in ("Succeeded", "Failed")


def is_deleting(pod: Obj) -> bool:
    """Whether deletion was asked for."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_active(pod: Obj) -> bool:
    """Neither ended nor being deleted."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_gated(pod: Obj) -> bool:
    """Whether scheduling gates hold the pod."""
    return bool(pod["spec"].get("schedulingGates"))


def is_ready(pod: Obj) -> bool:
    """The Ready condition is True."""
    ready = find(pod.get("status", {}).get("conditions"), "Ready")
    return ready is not None and ready["status"] == "True"


def is_available(pod: Obj, min_ready_seconds: int, now: datetime) -> bool:
    """Ready for at least minReadySeconds."""
    ready = find(pod.get("status", {}).get("conditions"), "Ready")
    if ready is None or ready["status"] != "True":
        return False
    since = parse_time(ready["lastTransitionTime"])
    return (now - since).total_seconds() >= min_ready_seconds


def replica_counts(pods: list[Obj], min_ready_seconds: int, now: datetime) -> Obj:
    """replicas, readyReplicas and availableReplicas of a set of pods."""
    return {
        "replicas": len(pods),
        "readyReplicas": sum(is_ready(pod) for pod in pods),
        "availableReplicas": sum(is_available(pod, min_ready_seconds, now) for pod in pods),
    }
