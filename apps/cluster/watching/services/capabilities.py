"""What a cluster can do, found out by asking it, with words for what a missing ability switches off.

`facts` asks (a handful of calls); `judge` is pure. Nothing is assumed from a version number. Offers through
claim templates, for clusters without extended resources, are not part of this version.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from apps.cluster.errors import Rejected
from apps.cluster.gateway.port import Gateway
from apps.cluster.objects.kinds import DRA, HELM, KUEUE, SOURCE, VISIBILITY
from apps.cluster.specs import Body, Manifest, ObjectRef

GPU_DRIVER = "gpu.nvidia.com"
_PROBE: Manifest = {
    "apiVersion": DRA,
    "kind": "DeviceClass",
    "metadata": {"name": "allotment-probe"},
    "spec": {"extendedResourceName": "allotment.dev/probe"},
}
ACCESS_NAMESPACE, CANARY = "allotment-access", "allotment-canary"
_CANARY: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": CANARY, "namespace": ACCESS_NAMESPACE},
}
_TAG = re.compile(r":v?(\d+\.\d+\.\d+)")


class Capability(TypedDict):
    """One ability of a cluster; `message` says what it is for, or what is missing without it."""

    name: str
    available: bool
    version: str | None
    message: str


@dataclass(frozen=True)
class Facts:
    """What a cluster answered."""

    kubernetes: str
    has_dra: bool = False
    has_extended_resources: bool = False
    has_kueue: bool = False
    kueue_version: str | None = None
    has_visibility: bool = False
    has_flux: bool = False
    evaluates_policies: bool = False
    drivers: frozenset[str] = frozenset()
    plugin_resources: frozenset[str] = frozenset()


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
        "Kueue v1beta2 is not served: without quota and queue nothing starts here.",
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
        "Admission policies are not enforced on this cluster: kubectl can break the rules.",
    ),
    "flux": (
        "Flux installs the virtual clusters of tenants that ask for one.",
        "Flux is not installed (HelmRelease v2, HelmRepository v1): no tenant can have a virtual cluster.",
    ),
}


def judge(facts: Facts) -> list[Capability]:
    """The capabilities of a cluster in a fixed order, each in words."""
    found: dict[str, tuple[bool, str | None]] = {
        "kubernetes": (True, facts.kubernetes.removeprefix("v")),
        "dra": (facts.has_dra, None),
        "extended-resources": (facts.has_extended_resources, None),
        "kueue": (facts.has_kueue, facts.kueue_version),
        "visibility": (facts.has_visibility, None),
        "gpu-driver": (GPU_DRIVER in facts.drivers, None),
        "device-plugin": (bool(facts.plugin_resources), None),
        "policies": (facts.evaluates_policies, None),
        "flux": (facts.has_flux, None),
    }
    return [
        Capability(name=name, available=there, version=version, message=_WORDS[name][0 if there else 1])
        for name, (there, version) in found.items()
    ]


def facts(gateway: Gateway) -> Facts:
    """Ask the cluster; raises `Unreachable` where it does not answer."""
    has_dra = "deviceclasses" in gateway.api_resources(DRA)
    has_kueue = "clusterqueues" in gateway.api_resources(KUEUE)
    slices = gateway.list("ResourceSlice")[0] if has_dra else []
    return Facts(
        kubernetes=gateway.server_version(),
        has_dra=has_dra,
        has_extended_resources=has_dra and _keeps_extended_name(gateway),
        has_kueue=has_kueue,
        kueue_version=_kueue_version(gateway) if has_kueue else None,
        has_visibility="clusterqueues/pendingworkloads" in gateway.api_resources(VISIBILITY),
        has_flux=_has_flux(gateway),
        evaluates_policies=evaluates_policies(gateway),
        drivers=frozenset(body["spec"]["driver"] for body in slices),
        plugin_resources=frozenset(_plugin_resources(gateway.list("Node")[0])),
    )


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
        if name.startswith("nvidia.com/") and count != "0"
    }
