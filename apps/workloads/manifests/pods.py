"""What every kind's objects share: names, labels, a pod template that `restricted` accepts. Pure."""

from typing import Any

from apps.cluster.objects import names, quantities
from apps.cluster.objects.fields import digest
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL, SPOT
from apps.quotas.specs import GPU_NODE_LABELS
from apps.tenants.specs import NOTEBOOKS
from apps.workloads import registry
from apps.workloads.manifests import secrets
from apps.workloads.specs import ALONE, SET, PlacementSpec, Volume, WorkloadSpec

Manifest = dict[str, Any]

CONTAINER = "main"
TEMPLATE = "allotment.dev/template"
"""Annotation on the object that makes pods: the hash of its pod template."""
USER_ID = 1000
GROUP_ID = 100
"""Numeric: a kubelet refuses a named user that it cannot tell from root."""
HOME = "/tmp"  # noqa: S108 - the one folder that every image lets any user write to
SHARED_MEMORY = "shm"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - inside the container


def manifest(api_version: str, kind: str, place: PlacementSpec, *, suffix: str = "") -> Manifest:
    """An object of this workload in its tenant's namespace: owner labels and generation, nothing else yet."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": f"{place.object_name}{suffix}",
            "namespace": place.namespace,
            "labels": labels(place),
            "annotations": {names.ANNOTATION_GENERATION: str(place.generation)},
        },
    }


def labels(place: PlacementSpec) -> dict[str, str]:
    """The labels by which watcher and pruning know whose object it is."""
    return names.owner_labels(owner="workload", uid=place.workload_id, tenant=place.tenant)


def selector(place: PlacementSpec) -> dict[str, str]:
    """What finds this workload's pods; a StatefulSet's selector may never change, and neither does the id."""
    return {names.LABEL_UID: place.workload_id}


def template(spec: WorkloadSpec, place: PlacementSpec, container: Manifest, *, restart: str) -> Manifest:
    """A pod template. RULE: Pod Security Standard `restricted` in full, no service-account token.

    The simulation annotations are those the service let through (simulated clusters only).
    """
    # An empty mapping would be a field that we own and that every annotation of Kueue's changes.
    annotations = {"annotations": dict(place.annotations)} if place.annotations else {}
    pulls = {"imagePullSecrets": [{"name": place.pull_secret}]} if place.pull_secret else {}
    return {
        "metadata": {"labels": {**labels(place), **_cores_label(place)}, **annotations},
        "spec": {
            **_off_gpu_nodes(place),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": 30,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "runAsGroup": GROUP_ID,
                "fsGroup": GROUP_ID,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **pulls,
            "containers": [container],
            "volumes": [
                *(_claimed(volume, place) for volume in spec.volumes),
                *secrets.volumes(place),
                _shared_memory(spec),
            ],
        },
    }


def container(spec: WorkloadSpec, place: PlacementSpec, *, home: str) -> Manifest:
    """The one container. RULE: devices are a limit of the offer's extended resource (KEP-5004); none is no
    limit.

    Memory is request and limit alike, because it cannot be taken back; CPU is a request without a limit.
    """
    memory = quantities.format_bytes(spec.memory_bytes)
    mounts = [{"name": volume.name, "mountPath": volume.mount_path} for volume in spec.volumes]
    found: Manifest = {
        "name": CONTAINER,
        "image": spec.image,
        # Else a node that has another tenant's image would run it for whoever knows its name.
        "imagePullPolicy": "IfNotPresent" if place.keeps_image else "Always",
        "env": secrets.over({"HOME": home, **spec.env}, place),
        "resources": {
            "requests": {"cpu": quantities.format_millis(spec.cpu_millis), "memory": memory},
            "limits": {"memory": memory, **({place.resource_name: str(spec.count)} if spec.count else {})},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            *mounts,
            *secrets.mounts(place),
            {"name": SHARED_MEMORY, "mountPath": SHARED_MEMORY_PATH},
        ],
    }
    if spec.command:
        found["command"] = list(spec.command)
    if spec.args:
        found["args"] = list(spec.args)
    return found


def _cores_label(place: PlacementSpec) -> dict[str, str]:
    return {names.LABEL_CORES: place.cores.flavor} if place.cores else {}


def _off_gpu_nodes(place: PlacementSpec) -> Manifest:
    """Where pods without a device run. RULE: they name the labels of their flavor, and refuse every node, and
    so every flavor, with a label that GPU feature discovery gives, spot nodes and a tenant's own.
    """
    if place.cores is None:
        return {}
    absent = (*GPU_NODE_LABELS, names.LABEL_TENANT)
    refused: list[Manifest] = [{"key": name, "operator": "DoesNotExist"} for name in absent]
    refused.append({"key": CAPACITY_LABEL, "operator": "NotIn", "values": [SPOT]})
    named = [{"key": names.LABEL_CORES, "operator": "In", "values": [place.cores.flavor]}]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": refused}]
        },
        # No node has it. It is for the mirror: Kueue keeps a spec in its Workload, and not always the labels.
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": named}}
        ],
    }
    found: Manifest = {"affinity": {"nodeAffinity": affinity}}
    if place.cores.node_labels:
        found["nodeSelector"] = dict(sorted(place.cores.node_labels.items()))
    return found


def claim_name(volume: Volume, place: PlacementSpec) -> str:
    """The name of a volume's claim."""
    return f"{place.object_name}-{volume.name}"


def queued(
    controller: Manifest,
    spec: WorkloadSpec,
    place: PlacementSpec,
    *,
    fixed: tuple[str, ...] = (),
    template: Any = None,
) -> Manifest:
    """Hand the object that makes pods to Kueue with its priority class; mark which template it carries, and
    which values of the other fields that never change (`fixed`). `template`: where it is no `spec.template`.
    """
    metadata, template = controller["metadata"], template or controller["spec"]["template"]
    metadata["labels"] |= {names.LABEL_QUEUE: place.queue, names.LABEL_PRIORITY: spec.priority.value}
    others = {name: controller["spec"][name] for name in fixed}
    marked = {"template": template, **others} if others else template
    metadata["annotations"] |= {TEMPLATE: digest(marked)[:16]}
    return controller


def alone(template: Manifest, spec: WorkloadSpec, place: PlacementSpec) -> Manifest:
    """The pod of a template, which nothing else makes: its name in DNS is its own, below the headless Service
    of its namespace.
    """
    pod, metadata = manifest("v1", ALONE, place), template["metadata"]
    pod["metadata"]["labels"] |= metadata["labels"]
    pod["metadata"]["annotations"] |= metadata.get("annotations", {})
    pod["spec"] = {**template["spec"], "hostname": place.object_name, "subdomain": NOTEBOOKS}
    return queued(pod, spec, place, template=template)


def of_set(template: Manifest, spec: WorkloadSpec, place: PlacementSpec) -> Manifest:
    """The StatefulSet of one pod that is there already, as it is.

    RULE: replicas is never 0, because Kueue admits such a set later on and keeps its quota.
    """
    stateful_set = manifest("apps/v1", SET, place)
    stateful_set["spec"] = {
        "replicas": 1,
        "serviceName": place.named_by,
        "selector": {"matchLabels": selector(place)},
        "template": template,
    }
    return queued(stateful_set, spec, place)


def volume_claims(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """The claims, as objects of their own: they outlive every stop, which removes whatever mounts them."""
    claims = []
    for volume in spec.volumes:
        claim = manifest("v1", "PersistentVolumeClaim", place, suffix=f"-{volume.name}")
        claim["spec"] = {
            "accessModes": ["ReadWriteMany" if registry.of(spec.kind).shares_volumes else "ReadWriteOnce"],
            "resources": {"requests": {"storage": quantities.format_bytes(volume.size_bytes)}},
        }
        claims.append(claim)
    return claims


def _claimed(volume: Volume, place: PlacementSpec) -> Manifest:
    return {"name": volume.name, "persistentVolumeClaim": {"claimName": claim_name(volume, place)}}


def _shared_memory(spec: WorkloadSpec) -> Manifest:
    # Data loaders share batches there; a runtime's default of 64 MiB stops them. It counts as memory.
    limit = quantities.format_bytes(spec.memory_bytes // 2)
    return {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": limit}}
