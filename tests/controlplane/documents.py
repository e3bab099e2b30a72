"""Documents that a plane is set up with: configuration files of components and objects applied as admin.

Pure: reads the manifests that the modules ship, returns dicts. What the product itself applies is not here.
"""

from __future__ import annotations

import copy
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.components import HOST, Layout, exec_identity

Document = dict[str, Any]

# Webhooks for other groups would point at kinds that this plane does not serve.
_INSTALLED_GROUPS = {"", "apps", "batch", "kueue.x-k8s.io"}
_FRAMEWORKS = ["batch/job", "pod", "deployment", "statefulset"]
_COMPLETE = "pod-complete.stage.kwok.x-k8s.io"
_COMMAND = '.spec.containers[0] | ((.command // []) + (.args // [])) | join(" ")'
DEFAULT_JOB_MILLISECONDS = 5000


def configuration_files(layout: Layout, now: datetime) -> dict[str, str]:
    """Name and content of every file that a component reads at its start."""
    return {
        "kueue.yaml": dump([kueue_configuration(layout)]),
        "stages.yaml": dump(stages(layout)),
        "kubelet.yaml": dump(kubelet_streams(layout)),
        "audit-policy.yaml": dump([audit_policy()]),
        "pod.log": pod_log(now),
    }


def kueue_configuration(layout: Layout) -> Document:
    """Kueue out of the cluster: own ports and certificates, only the namespaces that the product labels."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "manageJobsWithoutQueueName": False,
        "managedJobsNamespaceSelector": {"matchLabels": {"allotment.dev/managed": "true"}},
        "waitForPodsReady": {
            "timeout": "2h",
            "recoveryTimeout": "15m",
            "blockAdmission": False,
            "requeuingStrategy": {"timestamp": "Eviction", "backoffLimitCount": 5},
        },
        "integrations": {"frameworks": _FRAMEWORKS},
        "featureGates": {"KueueDRAIntegration": True, "KueueDRAIntegrationExtendedResource": True},
        "resources": {"excludeResourcePrefixes": ["ephemeral-storage"]},
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        # Its default of 20 calls a second is what hundreds of jobs would wait for.
        "clientConnection": {"qps": 300, "burst": 600},
        "webhook": {
            "host": HOST,
            "port": layout.port("kueue-webhook"),
            "certDir": str(layout.pki.folder / "kueue"),
        },
        "metrics": {
            "bindAddress": f"{HOST}:{layout.port('kueue-metrics')}",
            "enableClusterQueueResources": True,
        },
        "health": {"healthProbeBindAddress": f"{HOST}:{layout.port('kueue')}"},
        "visibilityServer": {"bindAddress": HOST, "bindPort": layout.port("kueue-visibility")},
    }


def kueue_webhooks(layout: Layout) -> list[Document]:
    """Kueue's shipped webhooks, led to its process on loopback; they fail closed as shipped."""
    bundle = b64encode(layout.pki.cert("ca").read_bytes()).decode()
    documents = _read(layout.binaries.asset("kueue-webhooks.yaml"))
    for document in documents:
        document["metadata"]["name"] = f"kueue-{document['metadata']['name']}"
        document["webhooks"] = [hook for hook in document["webhooks"] if _installed(hook)]
        for hook in document["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            address = f"https://{HOST}:{layout.port('kueue-webhook')}{path}"
            hook["clientConfig"] = {"url": address, "caBundle": bundle}
            hook["namespaceSelector"] = _outside(["kube-system", "kueue-system"])
    return documents


def visibility_route(layout: Layout) -> list[Document]:
    """Pending positions through the API server: an ExternalName Service leads out of the cluster."""
    port = layout.port("kueue-visibility")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "visibility-server", "namespace": "kueue-system"},
        "spec": {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
    }
    registration = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta2.visibility.kueue.x-k8s.io"},
        "spec": {
            "group": "visibility.kueue.x-k8s.io",
            "version": "v1beta2",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            # As shipped; the certificate folder is shared by every plane of the machine.
            "insecureSkipTLSVerify": True,
            "service": {"name": "visibility-server", "namespace": "kueue-system", "port": port},
        },
    }
    return [service, registration]


def base_objects(*, real_nodes: bool = False) -> list[Document]:
    """What any cluster has before the product comes: Kueue's namespace and a default storage class.

    Real nodes bring volumes of their own, which honour a pod's group: a path on the host does not.
    """
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner" if real_nodes else "kubernetes.io/host-path",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    ]


def stages(layout: Layout) -> list[Document]:
    """How nodes and pods behave: kwok's own stages, the end of a Job's pod read from its command.

    A pod of a Job runs for its annotation `pod-complete.stage.kwok.x-k8s.io/delay`, else for the seconds of a
    `sleep N` in its command, else for DEFAULT_JOB_MILLISECONDS. A command with `exit N`, N > 0, fails.
    """
    folder = layout.binaries.asset("stages")
    plain = [
        _read(folder / name)[0] for name in ("node-initialize.yaml", "pod-ready.yaml", "pod-delete.yaml")
    ]
    heartbeat = _read(folder / "node-heartbeat.yaml")[0]
    complete = _read(folder / "pod-complete.yaml")[0]
    sleep = f'({_COMMAND} | capture("sleep +(?<n>[0-9]+)") | .n + "s")'
    complete["spec"]["delay"] = {
        "durationMilliseconds": DEFAULT_JOB_MILLISECONDS,
        "durationFrom": {"expressionFrom": f'.metadata.annotations["{_COMPLETE}/delay"] // {sleep}'},
    }
    fail = copy.deepcopy(complete)
    fail["metadata"]["name"] = "pod-fail"
    _require_exit_code(complete, "NotIn")
    _require_exit_code(fail, "In")
    template = fail["spec"]["next"]["statusTemplate"]
    fail["spec"]["next"]["statusTemplate"] = (
        template.replace("exitCode: 0", "exitCode: 1")
        .replace("reason: Completed", "reason: Error")
        .replace("phase: Succeeded", "phase: Failed")
    )
    return [*plain, heartbeat, complete, fail]


def kubelet_streams(layout: Layout) -> list[Document]:
    """`kubectl logs` reads one file for every pod; `kubectl exec` runs a local command as nobody."""
    local: Document = {"envs": [{"name": "HOME", "value": "/"}], "securityContext": exec_identity()}
    version = "kwok.x-k8s.io/v1alpha1"
    return [
        {
            "apiVersion": version,
            "kind": "ClusterLogs",
            "metadata": {"name": "all-pods"},
            "spec": {"logs": [{"logsFile": str(layout.file("pod.log")), "follow": True}]},
        },
        {
            "apiVersion": version,
            "kind": "ClusterExec",
            "metadata": {"name": "all-pods"},
            "spec": {"execs": [{"local": local}]},
        },
    ]


def pod_log(now: datetime) -> str:
    """A few lines in the container runtime's format, one second apart, ending at `now` (UTC)."""
    lines = [
        "Container started as uid 1000, working directory /home/user",
        "1 CUDA device visible: NVIDIA H100 80GB HBM3",
        "Loading data from the data",
        "Ready",
    ]
    begin = now.astimezone(UTC) - timedelta(seconds=len(lines))
    stamps = [begin + timedelta(seconds=index) for index in range(len(lines))]
    return "".join(
        f"{stamp:%Y-%m-%dT%H:%M:%S.%f}000Z stdout F {line}\n"
        for stamp, line in zip(stamps, lines, strict=True)
    )


def audit_policy() -> Document:
    """Who called what, once per call and without bodies: enough to count writes and to compare RBAC."""
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }


def dump(documents: list[Document]) -> str:
    """Several documents in one file."""
    return yaml.safe_dump_all(documents, sort_keys=False)


def _read(path: Path) -> list[Document]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _installed(hook: Document) -> bool:
    return {group for rule in hook["rules"] for group in rule["apiGroups"]} <= _INSTALLED_GROUPS


def _outside(namespaces: list[str]) -> Document:
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": namespaces}]}


def _require_exit_code(stage: Document, operator: str) -> None:
    key = f'{_COMMAND} | test("exit +[1-9]")'
    stage["spec"]["selector"]["matchExpressions"].append(
        {"key": key, "operator": operator, "values": ["true"]}
    )
