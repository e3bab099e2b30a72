"""Kueue's words: resources, labels, annotations, gates, and how workloads are named."""

from __future__ import annotations

import hashlib

from sandbox.api.meta.objects import Obj

API_VERSION = "kueue.x-k8s.io/v1beta2"
WORKLOADS = "workloads.kueue.x-k8s.io"
CLUSTER_QUEUES = "clusterqueues.kueue.x-k8s.io"
LOCAL_QUEUES = "localqueues.kueue.x-k8s.io"
COHORTS = "cohorts.kueue.x-k8s.io"
FLAVORS = "resourceflavors.kueue.x-k8s.io"
ADMISSION_CHECKS = "admissionchecks.kueue.x-k8s.io"
PRIORITY_CLASSES = "workloadpriorityclasses.kueue.x-k8s.io"

PREFIX = "kueue.x-k8s.io/"
QUEUE_LABEL = f"{PREFIX}queue-name"
PRIORITY_LABEL = f"{PREFIX}priority-class"
JOB_UID_LABEL = f"{PREFIX}job-uid"
MANAGED = f"{PREFIX}managed"
PODSET_LABEL = f"{PREFIX}podset"
CLUSTER_QUEUE_LABEL = f"{PREFIX}cluster-queue-name"
LOCAL_QUEUE_LABEL = f"{PREFIX}local-queue-name"
WORKLOAD_ANNOTATION = f"{PREFIX}workload"
SUSPENDING_PARENT = f"{PREFIX}pod-suspending-parent"
ROLE_HASH = f"{PREFIX}role-hash"
GROUP_NAME = f"{PREFIX}pod-group-name"
ADMISSION_GATE = f"{PREFIX}admission"
TOPOLOGY_GATE = f"{PREFIX}topology"
IN_USE = f"{PREFIX}resource-in-use"
MAX_TIME_LABEL = f"{PREFIX}max-exec-time-seconds"
INJECTED_LABELS = (PODSET_LABEL, CLUSTER_QUEUE_LABEL, LOCAL_QUEUE_LABEL)

# The label that opts a namespace in; Kueue's configuration calls it managedJobsNamespaceSelector.
MANAGED_NAMESPACE = ("allotment.dev/managed", "true")
MAIN = "main"
_LONGEST = 253


def workload_name(owner: Obj) -> str:
    """<kind>-<owner>-<5 hex of sha1(kind, group, name, uid)>, as Kueue's job framework names workloads."""
    kind, name = owner["kind"], owner["metadata"]["name"]
    group = owner["apiVersion"].rpartition("/")[0]
    digest = hashlib.sha1(
        "\n".join((kind, group, name, owner["metadata"]["uid"])).encode(), usedforsecurity=False
    )
    return f"{kind.lower()}-{name}"[: _LONGEST - 6] + f"-{digest.hexdigest()[:5]}"


def queue_name(obj: Obj) -> str:
    """The LocalQueue an object names, "" for none."""
    return str((obj["metadata"].get("labels") or {}).get(QUEUE_LABEL, ""))


def namespace_managed(namespace: Obj | None) -> bool:
    """Whether Kueue manages jobs of this namespace at all."""
    key, value = MANAGED_NAMESPACE
    return namespace is not None and (namespace["metadata"].get("labels") or {}).get(key) == value
