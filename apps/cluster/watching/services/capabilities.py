"""What a cluster can do, found out by asking it, with words for what a missing ability switches off.

`facts` asks (a handful of calls); `judge` is pure. Nothing is assumed from a version number, but of
kubelets, which answer to nobody else. Offers through
claim templates, for clusters without extended resources, are not part of this version.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypedDict

from apps.cluster.errors import Rejected
from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.rules.hardware import GPU_DRIVER
from apps.cluster.mirror.rules.plugin_resources import is_gpu
from apps.cluster.objects.kinds import APPS, DRA, GATEWAY, HELM, JOBSET, KINDS, KUEUE, SOURCE, VISIBILITY
from apps.cluster.objects.names import LABEL_MANAGED, LABEL_QUEUE
from apps.cluster.specs import Body, Manifest, ObjectRef

_PROBE: Manifest = {
    "apiVersion": DRA,
    "kind": "DeviceClass",
    "metadata": {"name": "allotment-probe"},
    "spec": {"extendedResourceName": "allotment.dev/probe"},
}
ACCESS_NAMESPACE, CANARY = "allotment-access", "allotment-canary"
OWN_NAMESPACE = "allotment-system"
NAMESPACES = (OWN_NAMESPACE, ACCESS_NAMESPACE)
_ASKS: Manifest = {"protocol": "HTTP", "http": {}, "backendRef": {"name": "allotment-probe", "port": 1}}
_ROUTE: Manifest = {
    "apiVersion": GATEWAY,
    "kind": "HTTPRoute",
    "metadata": {"name": "allotment-probe", "namespace": OWN_NAMESPACE},
    "spec": {
        "hostnames": ["00000000-0000-0000-0000-000000000000.allotment.invalid"],
        "rules": [{"filters": [{"type": "ExternalAuth", "externalAuth": _ASKS}]}],
    },
}
PRIORITY_CLASSES = ("preemptible", "batch", "interactive", "protected")
"""WorkloadPriorityClasses, as `quotas.specs.Priority` names them."""
KUEUE_KINDS = frozenset(info.plural for info in KINDS.values() if info.api_version == KUEUE)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CANARY: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": CANARY, "namespace": ACCESS_NAMESPACE},
}
_NO_RIGHT = " cannot "
"""`User "u" cannot create resource ...`: how an API server says that a right lacks. What exceeds a quota is
refused with the same status.
"""
_MINOR = re.compile(r"v?(\d+)\.(\d+)")
_TAG = re.compile(r":v?(\d+\.\d+\.\d+)")


class Capability(TypedDict):
    """One ability of a cluster; `message` says what it is for, or what is missing without it and what to do;
    `missing` names the pieces.
    """

    name: str
    available: bool
    version: str | None
    message: str
    missing: list[str]


@dataclass(frozen=True)
class Facts:
    """What a cluster answered."""

    kubernetes: str
    has_dra: bool = False
    has_extended_resources: bool = False
    kueue_kinds: frozenset[str] = frozenset()
    kueue_version: str | None = None
    has_visibility: bool = False
    has_flux: bool = False
    has_job_sets: bool = False
    has_routes: bool = False
    queues_deployments: bool | None = None
    """None: it could not be tried."""
    deployments_denied: str = ""
    """What the server said where the product may make none."""
    evaluates_policies: bool = False
    drivers: frozenset[str] = frozenset()
    plugin_resources: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()
    has_default_storage: bool | None = None
    """None: the product may not look."""
    kubelets: frozenset[str] = frozenset()
    """The versions of its nodes' kubelets."""


_CURE = "A platform engineer runs `kubectl apply -k k8s` in the product's folder."
_CURE_OF_STORAGE = f"A platform engineer sets the annotation {_DEFAULT_CLASS}=true on one."
_CURE_OF_SETS = "Install JobSet 0.12, and add jobset.x-k8s.io/jobset to Kueue's integrations."
_CURE_OF_DEPLOYMENTS = "Add deployment and pod to the integrations of Kueue's configuration."
_QUEUED: Manifest = {
    "apiVersion": APPS,
    "kind": "Deployment",
    "metadata": {"name": "allotment-probe", "labels": {LABEL_QUEUE: "gpu"}},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "allotment-probe"}},
        "template": {
            "metadata": {"labels": {"app": "allotment-probe"}},
            "spec": {"containers": [{"name": "main", "image": "probe", "imagePullPolicy": "Always"}]},
        },
    },
}
_CHECKS_IMAGES = (1, 35)
"""The first Kubernetes whose kubelet keeps an image from pods that may not pull it, unless it is told not to
(KubeletEnsureSecretPulledImages).
"""
_WORDS: Mapping[str, tuple[str, str]] = {
    "kubernetes": ("The API server answers.", "The API server does not answer."),
    "dra": (
        "Devices are handed out by Dynamic Resource Allocation.",
        "resource.k8s.io/v1 is not served (Kubernetes 1.34 has it): no offer can be made here.",
    ),
    "extended-resources": (
        "Workloads can ask for an offer by its resource name.",
        "The gate DRAExtendedResource is off (1.36 has it on): no offer can be asked for by name here.",
    ),
    "kueue": (
        "Quota, queueing and borrowing work.",
        "Kueue v1beta2 is not served: without quota and queue nothing starts here. Install Kueue 0.19.",
    ),
    "priority-classes": (
        "Kueue knows the product's four priority classes.",
        f"Kueue queues nothing of a priority class that is missing. {_CURE}",
    ),
    "namespaces": (
        "The product's own namespaces are there.",
        f"Without the product's own namespaces nobody gets an account, and no tenant is ready. {_CURE}",
    ),
    "storage-class": (
        "A default StorageClass makes the disks.",
        f"No StorageClass is the default: what needs a disk never starts. {_CURE_OF_STORAGE}",
    ),
    "visibility": (
        "Kueue's visibility API is served; positions still come from priority and time.",
        "Kueue's visibility API is not served: positions come from priority and time.",
    ),
    "gpu-driver": (
        "NVIDIA's DRA driver publishes the GPUs.",
        "No node publishes devices of gpu.nvidia.com: there is nothing to make offers from.",
    ),
    "device-plugin": (
        "Some nodes have a device plugin; time-sliced and MPS offers are sold on nodes of one tenant.",
        "No node has a device plugin; nothing depends on one.",
    ),
    "policies": (
        "Admission policies are enforced: kubectl can do no more than this portal.",
        f"Admission policies are not enforced on this cluster: kubectl can break the rules. {_CURE}",
    ),
    "image-credentials": (
        "Kubelets check who may use an image that a node has: what is named by digest is not pulled twice.",
        "A kubelet is older than 1.35, or there is no node: each start asks the registry again.",
    ),
    "jobset": (
        "JobSet runs training on several nodes.",
        f"JobSet is not installed (jobset.x-k8s.io/v1alpha2): no training can start here. {_CURE_OF_SETS}",
    ),
    "deployments": (
        "Kueue queues Deployments: services run.",
        f"Kueue does not queue Deployments: no service can start here. {_CURE_OF_DEPLOYMENTS}",
    ),
    "routes": (
        "The Gateway leads browsers to what they open and asks the door; WebSockets pass the door.",
        "Every byte of what people open passes the door: no Gateway is set here (ALLOTMENT_GATEWAY).",
    ),
    "flux": (
        "Flux installs the virtual clusters of tenants that ask for one.",
        "Flux is not installed (HelmRelease v2, HelmRepository v1): no tenant can have a virtual cluster.",
    ),
}
_UNSEEN_DEPLOYMENTS = (
    "Whether Kueue queues Deployments is not known: it could not be tried in any tenant's namespace.",
    "",
)
_NO_ROUTES = (
    "Every byte of what people open passes the door: the product cannot write HTTPRoutes with ExternalAuth "
    "here. Install the experimental channel of Gateway API 1.4 or later, and the product's chart."
)
_UNSEEN_STORAGE = ("", f"The product may not see whether there is a default StorageClass. {_CURE}")
NEEDED = frozenset({"kueue", "priority-classes", "namespaces", "storage-class"})
"""What somebody has to bring, and without which work waits for ever."""


def judge(facts: Facts, *, has_gateway: bool = False) -> list[Capability]:
    """The capabilities of a cluster in a fixed order, each in words. `has_gateway`: one of it is to lead to
    what people open.
    """
    missing = {
        "kueue": sorted(KUEUE_KINDS - facts.kueue_kinds),
        "priority-classes": [name for name in PRIORITY_CLASSES if name not in facts.priority_classes],
        "namespaces": [name for name in NAMESPACES if name not in facts.namespaces],
    }
    found = {
        "kubernetes": True,
        "dra": facts.has_dra,
        "extended-resources": facts.has_extended_resources,
        **{name: not names for name, names in missing.items()},
        "storage-class": bool(facts.has_default_storage),
        "visibility": facts.has_visibility,
        "gpu-driver": GPU_DRIVER in facts.drivers,
        "device-plugin": bool(facts.plugin_resources),
        "policies": facts.evaluates_policies,
        "image-credentials": bool(facts.kubelets) and all(map(_checks_images, facts.kubelets)),
        "routes": has_gateway and facts.has_routes,
        "flux": facts.has_flux,
        "jobset": facts.has_job_sets,
        "deployments": bool(facts.kueue_kinds) and facts.queues_deployments is not False,
    }
    versions = {"kubernetes": facts.kubernetes.removeprefix("v"), "kueue": facts.kueue_version}
    words = {**_WORDS, **_other_words(facts), **_words_of_routes(facts, has_gateway=has_gateway)}
    return [
        Capability(
            name=name,
            available=there,
            version=versions.get(name),
            message=_named(missing.get(name, ())) + words[name][0 if there else 1],
            missing=missing.get(name, []),
        )
        for name, there in found.items()
    ]


def _other_words(facts: Facts) -> dict[str, tuple[str, str]]:
    """What is said instead where something could not be seen, or not be tried."""
    found = {}
    if facts.has_default_storage is None:
        found["storage-class"] = _UNSEEN_STORAGE
    if facts.queues_deployments is None and facts.kueue_kinds:
        found["deployments"] = _UNSEEN_DEPLOYMENTS
    if facts.deployments_denied:
        words = "The product may make no Deployment here: no service can start."
        found["deployments"] = ("", f"{words} {_CURE} The server says: {facts.deployments_denied}")
    return found


def _words_of_routes(facts: Facts, *, has_gateway: bool) -> dict[str, tuple[str, str]]:
    return {"routes": ("", _NO_ROUTES)} if has_gateway and not facts.has_routes else {}


def _named(missing: Iterable[str]) -> str:
    names = ", ".join(missing)
    return f"Missing: {names}. " if names else ""


def is_curable(facts: Facts) -> bool:
    """Whether something or a right is missing that work needs, and that somebody may be bringing just now."""
    lacks = any(not each["available"] for each in judge(facts) if each["name"] in NEEDED)
    return lacks or bool(facts.deployments_denied)


def facts(gateway: Gateway) -> Facts:
    """Ask the cluster; raises `Unreachable` where it does not answer."""
    has_dra = "deviceclasses" in gateway.api_resources(DRA)
    kueue_kinds = frozenset(gateway.api_resources(KUEUE)) & KUEUE_KINDS
    slices = gateway.list("ResourceSlice")[0] if has_dra else []
    nodes = gateway.list("Node")[0]
    queues_deployments, denied = _queues_deployments(gateway) if kueue_kinds else (None, "")
    return Facts(
        kubernetes=gateway.server_version(),
        has_dra=has_dra,
        has_extended_resources=has_dra and _keeps_extended_name(gateway),
        kueue_kinds=kueue_kinds,
        kueue_version=_kueue_version(gateway) if kueue_kinds else None,
        has_visibility="clusterqueues/pendingworkloads" in gateway.api_resources(VISIBILITY),
        has_flux=_has_flux(gateway),
        has_job_sets=KINDS["JobSet"].plural in gateway.api_resources(JOBSET),
        has_routes=_takes_routes(gateway),
        queues_deployments=queues_deployments,
        deployments_denied=denied,
        evaluates_policies=evaluates_policies(gateway),
        drivers=frozenset(body["spec"]["driver"] for body in slices),
        plugin_resources=frozenset(_plugin_resources(nodes)),
        namespaces=frozenset(name for name in NAMESPACES if gateway.get(ObjectRef("Namespace", "", name))),
        priority_classes=_priority_classes(gateway, kueue_kinds),
        has_default_storage=_has_default_storage(gateway),
        kubelets=frozenset(_kubelet_of(node) for node in nodes),
    )


def _queues_deployments(gateway: Gateway) -> tuple[bool | None, str]:
    """Whether Kueue marks the pod template of a Deployment, by a dry run in any tenant's namespace: its
    webhook looks at those alone. None too where the probe is refused for a reason of that namespace, such as
    its quota. With it the server's words where the product has no right to make one.
    """
    spaces = gateway.list("Namespace", label_selector=f"{LABEL_MANAGED}=true")[0]
    staying = [each["metadata"] for each in spaces if "deletionTimestamp" not in each["metadata"]]
    if not staying:
        return None, ""
    place = {"namespace": staying[0]["name"]}
    try:
        answer = gateway.apply({**_QUEUED, "metadata": _QUEUED["metadata"] | place}, dry_run=True)
    except Rejected as error:
        if error.status == HTTPStatus.FORBIDDEN and _NO_RIGHT in error.message:
            return False, error.message
        return (False if "does not queue Deployments" in error.message else None), ""
    return LABEL_QUEUE in answer["spec"]["template"]["metadata"]["labels"], ""


def _kubelet_of(node: Body) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""))


def _checks_images(kubelet: str) -> bool:
    found = _MINOR.match(kubelet)
    return found is not None and (int(found[1]), int(found[2])) >= _CHECKS_IMAGES


def _priority_classes(gateway: Gateway, kinds: frozenset[str]) -> frozenset[str]:
    if KINDS["WorkloadPriorityClass"].plural not in kinds:
        return frozenset()
    return frozenset(body["metadata"]["name"] for body in gateway.list("WorkloadPriorityClass")[0])


def _has_default_storage(gateway: Gateway) -> bool | None:
    """None where the cluster has rights of before the product looked at this."""
    try:
        found = gateway.list("StorageClass")[0]
    except Rejected:
        return None
    told = (body["metadata"].get("annotations") or {} for body in found)
    return any(each.get(_DEFAULT_CLASS) == "true" for each in told)


def evaluates_policies(gateway: Gateway) -> bool:
    """Whether the chart's policies are in force: one of them refuses an object that nobody needs.

    That the kinds are served proves nothing: a policy may be absent, unbound, or stored and not evaluated.
    """
    try:
        gateway.apply(_CANARY, dry_run=True)
    except Rejected as error:
        return CANARY in error.message and "Policy" in error.message
    return False


def identity(gateway: Gateway) -> str:
    """The uid of the namespace kube-system: it lives exactly as long as the cluster; empty where there is
    none.
    """
    home = gateway.get(ObjectRef("Namespace", "", "kube-system"))
    return str(home["metadata"]["uid"]) if home else ""


def _has_flux(gateway: Gateway) -> bool:
    served = gateway.api_resources(HELM) | gateway.api_resources(SOURCE)
    return {"helmreleases", "helmrepositories"} <= served


def _keeps_extended_name(gateway: Gateway) -> bool:
    """Where the gate is off, the field vanishes from the answer to a dry run, or is refused as unknown."""
    try:
        answer = gateway.apply(_PROBE, dry_run=True)
    except Rejected:
        return False
    return "extendedResourceName" in answer["spec"]


def _takes_routes(gateway: Gateway) -> bool:
    """Whether the product may write routes that ask the door; the experimental channel has the filter."""
    try:
        gateway.apply(_ROUTE, dry_run=True)
    except Rejected:
        return False
    return True


def _kueue_version(gateway: Gateway) -> str | None:
    """From its Deployment's image, if it runs in the cluster as usual; None where it cannot be seen."""
    deployment = gateway.get(ObjectRef("Deployment", "kueue-system", "kueue-controller-manager"))
    containers = deployment["spec"]["template"]["spec"]["containers"] if deployment else []
    tags = [match.group(1) for c in containers if (match := _TAG.search(c.get("image", "")))]
    return tags[0] if tags else None


def _plugin_resources(nodes: Iterable[Body]) -> set[str]:
    return {
        name
        for node in nodes
        for name, count in ((node.get("status") or {}).get("allocatable") or {}).items()
        if is_gpu(name) and count != "0"
    }
