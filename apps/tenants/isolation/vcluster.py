"""A tenant's virtual cluster: a typed wish in, Flux objects for the open-source vCluster chart out. Pure.

Sources: vCluster v0.36.1 chart (values, names), Flux helm.toolkit.fluxcd.io/v2, source.toolkit.fluxcd.io/v1.
The open-source build syncs no DRA objects: devices are asked for by extended-resource names, so nothing of it
needs a licence. What is made inside the virtual cluster: `apps.tenants.virtual_members`.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from apps.cluster.objects import names, quantities
from apps.cluster.specs import ClientKey, Manifest
from apps.errors import FieldProblem
from apps.ranges import SYNCED_OBJECTS
from apps.tenants.specs import MOST_PODS, PRIVATE_NETWORKS, EgressMode, TenantSpec
from apps.words import Word

RELEASE = "virtual"
"""The release and the virtual cluster's name in every tenant's namespace: policies name its accounts so."""

SYNCER_ACCOUNT = f"vc-{RELEASE}"
KEY_SECRET = f"vc-{RELEASE}"
_KEY_PARTS = ("certificate-authority", "client-certificate", "client-key")
HELM, SOURCE = "helm.toolkit.fluxcd.io/v2", "source.toolkit.fluxcd.io/v1"
CHART = "vcluster"
CHART_VERSIONS = ("0.36.1",)
"""The pinned versions this product was tested with, newest first."""

KUBERNETES_VERSION = "v1.36.0"
USER_ID = 12345
API_PORT = 8443
"""Where the control plane's pods answer; its Service has 443."""

_PRODUCT = {"app.kubernetes.io/name": "allotment"}
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}(:|$)){_LABEL}(\.{_LABEL})*(:\d{{1,5}})?")
STUCK = ("InstallFailed", "UpgradeFailed", "RollbackFailed", "RetriesExceeded", "UninstallFailed", "Stalled")


class Synced(Word):
    """What more than pods, services, volume claims, config maps and secrets is copied to the cluster."""

    INGRESSES = "ingresses", "Ingresses"
    NETWORK_POLICIES = "networkPolicies", "Network policies"
    POD_DISRUPTION_BUDGETS = "podDisruptionBudgets", "Pod disruption budgets"


class VClusterPhase(Word):
    """Where a virtual cluster stands."""

    INSTALLING = "Installing", "Being installed"
    READY = "Ready", "Ready"
    ASLEEP = "Asleep", "Asleep"
    FAILED = "Failed", "Failed"


@dataclass(frozen=True)
class HostQuota:
    """What all of it, control plane included, may take of its namespace; devices are the queue's matter."""

    cpu: str = "32"
    memory: str = "128Gi"
    storage: str = "500Gi"
    pods: int = 200
    services: int = 50


@dataclass(frozen=True)
class VClusterSpec:
    """What is asked of a virtual cluster. `asleep`: the control plane is off and its queue is drained.

    `api_host`: `host` or `host:port` where its API is reached from outside; empty: in the cluster only.
    """

    chart_version: str = CHART_VERSIONS[0]
    sync: tuple[Synced, ...] = (Synced.INGRESSES, Synced.NETWORK_POLICIES)
    quota: HostQuota = field(default_factory=HostQuota)
    asleep: bool = False
    api_host: str = ""


def parse(document: Mapping[str, Any]) -> tuple[VClusterSpec, list[FieldProblem]]:
    """A JSON document as a spec, and everything wrong with it; what is left out gets its default.

    Rule: only pinned chart versions, quantities of Kubernetes, counts of 1 to 10000, no unknown field.
    """
    problems = [
        FieldProblem(f"/spec/vcluster/{key}", "unknown_field", f"There is no field {key}.")
        for key in sorted(set(document) - {each.name for each in fields(VClusterSpec)})
    ]
    version = document.get("chart_version", CHART_VERSIONS[0])
    if version not in CHART_VERSIONS:
        words = f"Pinned versions of the chart: {', '.join(CHART_VERSIONS)}."
        problems.append(FieldProblem("/spec/vcluster/chart_version", "invalid_value", words))
    asleep = document.get("asleep", False)
    if not isinstance(asleep, bool):
        problems.append(FieldProblem("/spec/vcluster/asleep", "invalid_value", "true or false."))
    host = document.get("api_host", "")
    if not _is_host(host):
        words = "A host name or IPv4 address, with a port if it is not 443; no scheme, no path."
        problems.append(FieldProblem("/spec/vcluster/api_host", "invalid_value", words))
    sync, wrong_sync = _sync(document.get("sync"))
    quota, wrong_quota = _quota(document.get("quota") or {})
    spec = VClusterSpec(str(version), sync, quota, asleep is True, str(host))
    return spec, [*problems, *wrong_sync, *wrong_quota]


def as_json(spec: VClusterSpec) -> dict[str, Any]:
    """The form that rows store and the API shows; `parse` reads it back."""
    return asdict(spec) | {"sync": [kind.value for kind in spec.sync]}


def _sync(value: Any) -> tuple[tuple[Synced, ...], list[FieldProblem]]:
    if value is None:
        return VClusterSpec.sync, []
    known = {kind.value: kind for kind in Synced}
    if not isinstance(value, list) or not all(isinstance(each, str) and each in known for each in value):
        words = f"A list of {', '.join(known)}."
        return (), [FieldProblem("/spec/vcluster/sync", "invalid_value", words)]
    return tuple(kind for name, kind in known.items() if name in value), []


def _quota(document: Any) -> tuple[HostQuota, list[FieldProblem]]:
    if not isinstance(document, Mapping):
        return HostQuota(), [FieldProblem("/spec/vcluster/quota", "invalid_value", "An object.")]
    whole = asdict(HostQuota()) | dict(document)
    checks = {
        "cpu": _is_cpu,
        "memory": _is_memory,
        "storage": _is_memory,
        "pods": _is_count,
        "services": _is_count,
    }
    problems = [
        FieldProblem(f"/spec/vcluster/quota/{key}", "unknown_field", f"There is no field {key}.")
        for key in sorted(set(whole) - set(checks))
    ]
    problems += [
        FieldProblem(
            f"/spec/vcluster/quota/{key}", "invalid_value", "Kubernetes does not accept this amount."
        )
        for key, fits in checks.items()
        if not fits(whole[key])
    ]
    return (HostQuota(), problems) if problems else (HostQuota(**whole), [])


def _is_host(value: Any) -> bool:
    if not isinstance(value, str) or not (value == "" or _HOST.fullmatch(value)):
        return False
    port = value.partition(":")[2]
    return not port or 1 <= int(port) <= 65_535


def _is_cpu(value: Any) -> bool:
    return isinstance(value, str) and _is_positive(quantities.cpu_millis, value)


def _is_memory(value: Any) -> bool:
    return isinstance(value, str) and _is_positive(quantities.memory_bytes, value)


def _is_positive(read: Any, value: str) -> bool:
    try:
        return bool(read(value) > 0)
    except ValueError:
        return False


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and SYNCED_OBJECTS.holds(value)


def render(tenant: TenantSpec, spec: VClusterSpec, *, chart_url: str, ingress: str = "") -> list[Manifest]:
    """The chart's source, its release, and what the whole may take of the namespace. `ingress`: the namespace
    from which people are led to an API with an address outside.

    Rules: everything lies in the tenant's namespace, so that Flux needs no reference across namespaces; the
    release waits until the control plane answers, so its Ready is the virtual cluster's; the chart makes no
    ClusterRole and no quota of its own, for the quota is ours to see and to repair.
    """
    return [
        _object(tenant, "v1", "ResourceQuota", RELEASE) | {"spec": {"hard": _hard(spec.quota)}},
        _object(tenant, SOURCE, "HelmRepository", CHART) | {"spec": _repository(chart_url)},
        _object(tenant, HELM, "HelmRelease", RELEASE) | {"spec": _release(tenant, spec, ingress)},
    ]


def _object(tenant: TenantSpec, api_version: str, kind: str, name: str) -> Manifest:
    metadata = {
        "name": name,
        "namespace": tenant.object_name,
        "labels": names.owner_labels(owner="tenant", uid=tenant.id, tenant=tenant.slug),
        "annotations": {names.ANNOTATION_GENERATION: str(tenant.generation)},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _hard(quota: HostQuota) -> dict[str, str]:
    """RULE: besides what is asked for, every kind that somebody inside may make as many of as he likes, and
    that the syncer then makes here.
    """
    return {
        "configmaps": "200",
        "count/resourceclaims.resource.k8s.io": str(MOST_PODS),
        "persistentvolumeclaims": str(quota.pods),
        "pods": str(quota.pods),
        "requests.cpu": quota.cpu,
        "requests.memory": quota.memory,
        "requests.storage": quota.storage,
        "secrets": "200",
        "services": str(quota.services),
        "services.loadbalancers": "0",
        "services.nodeports": "0",
    }


def _repository(url: str) -> Manifest:
    plain = {"interval": "1h", "url": url}
    return plain | {"type": "oci"} if url.startswith("oci://") else plain


def _release(tenant: TenantSpec, spec: VClusterSpec, ingress: str) -> Manifest:
    source = {"kind": "HelmRepository", "name": CHART}
    chart = {"chart": CHART, "version": spec.chart_version, "interval": "1h", "sourceRef": source}
    return {
        "interval": "10m",
        "timeout": "10m",
        "releaseName": RELEASE,
        "chart": {"spec": chart},
        "install": {"createNamespace": False, "remediation": {"retries": 3}},
        "upgrade": {"remediation": {"retries": 3}},
        "driftDetection": {"mode": "enabled"},
        "values": _values(tenant, spec, ingress),
    }


def _values(tenant: TenantSpec, spec: VClusterSpec, ingress: str) -> Manifest:
    return {
        "controlPlane": _control_plane(_names(tenant.object_name, spec), asleep=spec.asleep),
        "sync": {
            "toHost": {kind.value: {"enabled": kind in spec.sync} for kind in Synced},
            "fromHost": {"nodes": {"enabled": False}},
        },
        # Its rights end at the namespace: nothing that would need a ClusterRole is switched on.
        "rbac": {"clusterRole": {"enabled": False}},
        "policies": {
            "resourceQuota": {"enabled": False},
            "limitRange": {"enabled": False},
            "networkPolicy": _network(tenant, spec, ingress),
        },
        "telemetry": {"enabled": False},
    }


def _names(namespace: str, spec: VClusterSpec) -> list[str]:
    """By which names its certificate is good; the chart itself adds none that ends in `.svc`."""
    outside = spec.api_host.partition(":")[0]
    return [_inside(namespace), *([outside] if outside else [])]


def _control_plane(sans: list[str], *, asleep: bool) -> Manifest:
    container = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsGroup": USER_ID,
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
    }
    pod = {"fsGroup": USER_ID, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "backingStore": {"database": {"embedded": {"enabled": True}}},
        "coredns": {"security": {"podSecurityContext": pod, "containerSecurityContext": container}},
        "distro": {
            "k8s": {"enabled": True, "image": {"tag": KUBERNETES_VERSION}, "securityContext": container}
        },
        "proxy": {"extraSANs": sans},
        "statefulSet": {
            "enableServiceLinks": False,
            "highAvailability": {"replicas": 0 if asleep else 1},
            "image": {"registry": "ghcr.io", "repository": "loft-sh/vcluster-oss"},
            # Kept when the release goes: the tenant's deletion takes the namespace after it.
            "persistence": {"volumeClaim": {"retentionPolicy": "Retain", "size": "10Gi"}},
            "resources": {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "4Gi"}},
            "security": {"containerSecurityContext": container, "podSecurityContext": pod},
        },
    }


def _network(tenant: TenantSpec, spec: VClusterSpec, ingress: str) -> Manifest:
    """Policies add up: the chart's must not open what the tenant's own egress keeps shut. Its API is reached
    by the product, and where it has an address outside, from the namespace that leads people there.
    """
    internet = tenant.egress.mode is EgressMode.INTERNET
    out = {"enabled": internet} | ({"except": list(PRIVATE_NETWORKS)} if internet else {})
    product = _all_of("allotment-system") | {"podSelector": {"matchLabels": _PRODUCT}}
    callers = [product, *([_all_of(ingress)] if spec.api_host and ingress else [])]
    reached = [{"from": callers, "ports": [{"port": API_PORT, "protocol": "TCP"}]}]
    return {"enabled": True, "controlPlane": {"ingress": reached}, "workload": {"publicEgress": out}}


def _all_of(namespace: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


@dataclass(frozen=True)
class Standing:
    """What a HelmRelease says of the virtual cluster, in words for a page."""

    phase: VClusterPhase
    reason: str
    message: str

    @property
    def is_settled(self) -> bool:
        """Whether it is as asked for: it answers, or it sleeps."""
        return self.phase in (VClusterPhase.READY, VClusterPhase.ASLEEP)


def standing(release: Mapping[str, Any] | None, spec: VClusterSpec) -> Standing:
    """The phase by the release's condition Ready, if it speaks of the generation that was asked for.

    Source: Flux helm.toolkit.fluxcd.io/v2 status (`conditions`, `observedGeneration`).
    """
    if release is None:
        return Standing(VClusterPhase.INSTALLING, "NotApplied", "The release is not in the cluster yet.")
    status, metadata = release.get("status") or {}, release.get("metadata") or {}
    ready = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    if ready is None:
        return Standing(VClusterPhase.INSTALLING, "Unknown", "Flux has not looked at the release yet.")
    is_current = status.get("observedGeneration") == metadata.get("generation")
    reason, message = str(ready.get("reason", "")), str(ready.get("message", ""))
    if ready.get("status") == "True" and is_current:
        phase = VClusterPhase.ASLEEP if spec.asleep else VClusterPhase.READY
        return Standing(phase, reason, message)
    if ready.get("status") == "False" and reason in STUCK:
        return Standing(VClusterPhase.FAILED, reason, message)
    return Standing(VClusterPhase.INSTALLING, reason, message)


def syncer(namespace: str) -> str:
    """The account that makes the virtual cluster's pods in the namespace."""
    return f"system:serviceaccount:{namespace}:{SYNCER_ACCOUNT}"


def address(namespace: str, spec: VClusterSpec) -> str:
    """Where its API answers: the product and the members' kubeconfigs go there alike."""
    return f"https://{spec.api_host or f'{_inside(namespace)}:443'}"


def key(secret: Mapping[str, Any], server: str) -> ClientKey | None:
    """What the Secret `vc-virtual` holds, for that address; None where it is not whole.

    Source: vCluster v0.36.1 `pkg/util/kubeconfig`. Its own kubeconfig names `localhost`, so it is not used.
    """
    data = secret.get("data") or {}
    try:
        authority, certificate, private_key = (base64.b64decode(data[name]) for name in _KEY_PARTS)
    except (KeyError, ValueError):
        return None
    return ClientKey(server, authority, certificate, private_key)


def _inside(namespace: str) -> str:
    return f"{RELEASE}.{namespace}.svc"
