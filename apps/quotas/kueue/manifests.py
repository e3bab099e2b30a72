"""What flavors, offers and a tenant's quota are in Kubernetes: spec in, whole manifests out.

Pure. Does not decide who may have what (`ledger`, `policies`) and knows nothing of what is in the cluster.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from apps.cluster.mirror.rules.hardware import GPU_DRIVER
from apps.cluster.objects import names, quantities
from apps.cluster.specs import Manifest
from apps.quotas.specs import (
    MOST_OFFERS_PER_QUEUE,
    FlavorSpec,
    OfferQuota,
    OfferSpec,
    QueueSpec,
)
from apps.tenants.specs import MOST_PODS, QUEUE_NAME, RESERVE_SUFFIX, Suspend

KUEUE = "kueue.x-k8s.io/v1beta2"
_CORES = ("cpu", "memory")
_STOP_POLICY = {Suspend.NONE: "None", Suspend.HOLD: "Hold", Suspend.DRAIN: "HoldAndDrain"}


def render_flavor(spec: FlavorSpec) -> list[Manifest]:
    """A flavor is a Kueue ResourceFlavor: admission adds its labels as node selector and its tolerations to
    the pod.

    Source: Kueue v0.19 v1beta2 (at most 8 node labels).
    """
    metadata = _metadata("flavor", spec.id, spec.object_name, spec.generation)
    body: dict[str, Any] = {}
    if spec.node_labels:
        body["nodeLabels"] = dict(sorted(spec.node_labels.items()))
    if spec.tolerations:
        body["tolerations"] = [dict(toleration) for toleration in spec.tolerations]
    return [{"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": metadata, "spec": body}]


def render_offer(spec: OfferSpec) -> list[Manifest]:
    """An offer is a DeviceClass that backs an extended resource, so that a pod asks for it by a plain limit.

    Rule: the expression must be safe on every device of a mixed fleet, because reading an attribute that a
    device lacks stops every allocation of the class: driver first, then `type`, and only then what that type
    surely has. Source: KEP-5004 (DRA extended resource), resource.k8s.io/v1.
    """
    attributes = f"device.attributes['{GPU_DRIVER}']"
    terms = [f"device.driver == '{GPU_DRIVER}'", f"{attributes}.type == '{'mig' if spec.profile else 'gpu'}'"]
    if spec.profile:
        terms.append(f"{attributes}.profile == {_cel(spec.profile)}")
    terms.append(f"{attributes}.productName == {_cel(spec.model)}")
    body = {
        "selectors": [{"cel": {"expression": " && ".join(terms)}}],
        "extendedResourceName": spec.resource_name,
    }
    metadata = _metadata("offer", spec.id, spec.object_name, spec.generation)
    return [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": body}]


def render_queue(spec: QueueSpec) -> list[Manifest]:
    """A tenant's quota is a ClusterQueue in the department's cohort; its namespace gets the LocalQueue and a
    backstop.

    Rules (Kueue v0.19): a ClusterQueue without a resource group admits nothing, so without quota there is no
    queue. One resource group covers cpu, memory and every offer; each flavor lists all of them in that order,
    with 0 for the offers it does not carry; at most 62 offers (ValueError), as a group holds 64 resources.
    Flavors without a GPU come first: Kueue tries them in order, and work for the CPU made with kubectl names
    none. There CPU and memory are the quota itself, guaranteed, borrowed and lent as cores are.
    Elsewhere CPU and memory never bind before the devices do: their quota per flavor is the sum over its
    offers of (guaranteed + what may be borrowed, or the cohort's total when that is unlimited) x what comes
    with one device, and they are neither lent nor borrowed; a request never takes more than comes with its
    devices
    (`apps.workloads` sees to that). The backstop lets no pod pass of an offer without quota; of the others it
    counts above any queue (docs/decisions/0014): what waits has its pods already, and Kueue decides.

    Of an offer that is closed to the tenant the queue has 0 and borrows nothing, so that Kueue lets nothing
    in, whoever made it. Its guarantee stays in the cohort, in a queue that nobody submits to: without that,
    what still runs there would eat the neighbours' guarantee. CPU, memory and backstop stay: a running job's
    new pod must pass.
    """
    if not spec.quotas:
        return []
    if len(spec.quotas) > MOST_OFFERS_PER_QUEUE:
        raise ValueError(
            f"{spec.tenant} has quota of {len(spec.quotas)} offers; a queue covers {MOST_OFFERS_PER_QUEUE}"
        )
    in_namespace = [_backstop(spec), _local_queue(spec)] if spec.namespace_is_there else []
    # The reserve first, so that the cohort never lacks the guarantee while one call follows the other.
    return [*_reserve(spec), _cluster_queue(spec), *in_namespace]


def _cluster_queue(spec: QueueSpec) -> Manifest:
    quotas = spec.quotas
    covered = sorted({quota.resource_name for quota in quotas if not quota.is_cores})
    flavors = _flavors(quotas)
    body = {
        "cohortName": spec.cohort,
        "queueingStrategy": "BestEffortFIFO",
        "namespaceSelector": {"matchLabels": {names.LABEL_TENANT: spec.tenant}},
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory", *covered],
                "flavors": [
                    {"name": flavor, "resources": _resources(flavor, covered, quotas)} for flavor in flavors
                ],
            }
        ],
        "preemption": {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "Never"},
        "stopPolicy": _STOP_POLICY[spec.suspend],
    }
    if spec.fair_weight != 1:
        body["fairSharing"] = {"weight": f"{spec.fair_weight.normalize():f}"}
    metadata = _metadata("queue", spec.id, spec.object_name, spec.generation, tenant=spec.tenant)
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": metadata, "spec": body}


def _reserve(spec: QueueSpec) -> list[Manifest]:
    lent = [quota for quota in spec.quotas if quota.closed and quota.nominal]
    if not lent:
        return []
    own = {(quota.flavor, name): amount for quota in lent for name, amount in _amounts(quota, quota.nominal)}
    covered = sorted({name for _, name in own}, key=lambda name: (name not in _CORES, name))
    flavors = [
        {
            "name": flavor,
            "resources": [
                {"name": name, "nominalQuota": own.get((flavor, name), "0"), "borrowingLimit": "0"}
                for name in covered
            ],
        }
        for flavor in _flavors(lent)
    ]
    body = {
        "cohortName": spec.cohort,
        "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
        # Kueue counts a stopped queue's quota and use not at all: both go together.
        "stopPolicy": _STOP_POLICY[spec.suspend],
    }
    name = f"{spec.object_name}{RESERVE_SUFFIX}"
    metadata = _metadata("queue", spec.id, name, spec.generation, tenant=spec.tenant)
    return [{"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": metadata, "spec": body}]


def _flavors(quotas: Sequence[OfferQuota]) -> list[str]:
    return list(dict.fromkeys(q.flavor for q in sorted(quotas, key=lambda q: (not q.is_cores, q.flavor))))


def _amounts(quota: OfferQuota, count: int) -> list[tuple[str, str]]:
    """What so many of an offer are in Kubernetes, by resource."""
    if not quota.is_cores:
        return [(quota.resource_name, str(count))]
    cpu, memory = count * quota.cpu_millis, count * quota.memory_bytes
    return list(zip(_CORES, (quantities.format_millis(cpu), quantities.format_bytes(memory)), strict=True))


def _resources(flavor: str, covered: Sequence[str], quotas: Sequence[OfferQuota]) -> list[dict[str, str]]:
    own = {quota.resource_name: quota for quota in quotas if quota.flavor == flavor}
    cores = next((quota for quota in own.values() if quota.is_cores), None)
    if cores is not None:
        return [*_shared(cores), *map(_absent, covered)]
    cpu = sum(quota.most * quota.cpu_millis for quota in own.values())
    memory = sum(quota.most * quota.memory_bytes for quota in own.values())
    kept = {"borrowingLimit": "0", "lendingLimit": "0"}
    return [
        {"name": "cpu", "nominalQuota": quantities.format_millis(cpu), **kept},
        {"name": "memory", "nominalQuota": quantities.format_bytes(memory), **kept},
        *(_devices(own[name]) if name in own else _absent(name) for name in covered),
    ]


def _devices(quota: OfferQuota) -> dict[str, str]:
    return _shared(quota)[0]


def _shared(quota: OfferQuota) -> list[dict[str, str]]:
    """Each resource of an offer with what is guaranteed, may be borrowed and must be lent."""
    found = [{"name": name, "nominalQuota": amount} for name, amount in _amounts(quota, quota.nominal)]
    if quota.closed:
        return [_absent(each["name"]) for each in found]
    limits = {
        "borrowingLimit": quota.borrowing_limit,
        "lendingLimit": None if quota.lending_limit is None else quota.lendable,
    }
    for limit, count in limits.items():
        if count is not None:
            for each, (_, amount) in zip(found, _amounts(quota, count), strict=True):
                each[limit] = amount
    return found


def _absent(name: str) -> dict[str, str]:
    return {"name": name, "nominalQuota": "0", "borrowingLimit": "0"}


def _local_queue(spec: QueueSpec) -> Manifest:
    metadata = _metadata("queue", spec.id, QUEUE_NAME, spec.generation, tenant=spec.tenant)
    metadata["namespace"] = spec.object_name
    return {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": metadata,
        "spec": {"clusterQueue": spec.object_name, "stopPolicy": "Hold" if spec.held else "None"},
    }


def _backstop(spec: QueueSpec) -> Manifest:
    metadata = _metadata("queue", spec.id, "devices", spec.generation, tenant=spec.tenant)
    metadata["namespace"] = spec.object_name
    most: Counter[str] = Counter()
    for quota in spec.quotas:
        if quota.is_cores:
            continue
        most[quota.resource_name] += quota.most and quota.most + MOST_PODS
    hard = {f"requests.{name}": "0" for name in sorted(spec.not_given)}
    hard |= {f"requests.{name}": str(count) for name, count in sorted(most.items())}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def _metadata(
    owner: str, uid: str, name: str, generation: int, *, tenant: str | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "labels": names.owner_labels(owner=owner, uid=uid, tenant=tenant),
        "annotations": {names.ANNOTATION_GENERATION: str(generation)},
    }


def _cel(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
