"""Where a workload's pods are, and on what. Pure."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from apps.workloads.status.arrays import present

if TYPE_CHECKING:
    from apps.workloads.status.derivation import Facts, ObservedWorkload

Body = Mapping[str, Any]


def placement(seen: "ObservedWorkload", facts: "Facts") -> list[dict[str, Any]]:
    """Where its pods are and which devices their claims got, named pool/device as the driver does. Of an
    array only those that have not ended: a thousand items leave a thousand pods.
    """
    rows = []
    for pod in present(seen.pods) if facts.items else seen.pods:
        meta = pod.get("metadata", {})
        node = pod.get("spec", {}).get("nodeName")
        if node:
            rows.append(
                {
                    "cluster": facts.cluster,
                    "namespace": meta.get("namespace", ""),
                    "pod": meta.get("name", ""),
                    "node": node,
                    "flavor": facts.flavor,
                    "devices": [
                        {"id": facts.device_ids.get(name), "name": name}
                        for claim in _claims_of(pod, seen.claims)
                        for name in device_names(claim)
                    ],
                }
            )
    return rows


def device_names(claim: Body) -> list[str]:
    """pool/device of everything a ResourceClaim was given; empty while it is not allocated."""
    allocation = claim.get("status", {}).get("allocation") or {}
    return [f"{r['pool']}/{r['device']}" for r in (allocation.get("devices") or {}).get("results") or []]


def _claims_of(pod: Body, claims: Iterable[Body]) -> list[Body]:
    uid = pod.get("metadata", {}).get("uid")
    return [claim for claim in claims if uid in _owners(claim)]


def _owners(body: Body) -> set[str]:
    """The uids of an object's owners."""
    return {o.get("uid", "") for o in body.get("metadata", {}).get("ownerReferences") or []}
