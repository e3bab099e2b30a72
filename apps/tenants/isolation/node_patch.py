"""What marks a node as one tenant's, and the change that brings a node there or back. Pure.

A node's taints are one atomic list in server-side apply (core/v1 NodeSpec, listType atomic): whoever applies
one taint owns all of them, those of the node's own life included. So the change is a JSON merge patch that
carries the others' taints along and is tied to the version they were read at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.cluster.objects.names import ANNOTATION_CORDONED, LABEL_TENANT
from apps.cluster.specs import Body

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class NodeWish:
    """How a node should be: whose (empty: everybody's), and cordoned for which assignment (empty: none)."""

    tenant: str = ""
    cordoned_for: str = ""


def change(node: Mapping[str, Any], wish: NodeWish) -> Body:
    """The merge patch that brings the node to the wish; empty where nothing is to be done.

    Rule: touches the label and the taint `allotment.dev/tenant`, and the cordon. The taint keeps others away
    (`NoSchedule`; who runs there already stays), the label leads the tenant there. A cordon is marked as ours
    in the same write, and only a marked one is ever lifted: an operator's own stays.
    """
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    about: Body = {}
    if (metadata.get("labels") or {}).get(LABEL_TENANT, "") != wish.tenant:
        about["labels"] = {LABEL_TENANT: wish.tenant or None}
    changes: Body = {}
    wanted = _taints(spec.get("taints") or (), wish.tenant)
    if wanted != list(spec.get("taints") or ()):
        changes["taints"] = wanted or None
    marked = ANNOTATION_CORDONED in (metadata.get("annotations") or {})
    if wish.cordoned_for and not is_cordoned(node):
        changes["unschedulable"] = True
        about["annotations"] = {ANNOTATION_CORDONED: wish.cordoned_for}
    elif marked and not wish.cordoned_for:
        changes["unschedulable"] = None
        about["annotations"] = {ANNOTATION_CORDONED: None}
    return {key: part for key, part in (("metadata", about), ("spec", changes)) if part}


def taint(tenant: str) -> dict[str, str]:
    """The taint of a tenant's nodes."""
    return {"key": LABEL_TENANT, "value": tenant, "effect": "NoSchedule"}


def _taints(present: Iterable[Mapping[str, Any]], tenant: str) -> list[dict[str, Any]]:
    own = taint(tenant)
    kept = [dict(each) for each in present if each.get("key") != LABEL_TENANT or (tenant and each == own)]
    return kept if not tenant or own in kept else [*kept, own]


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Whether somebody told the scheduler to leave it alone."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def strangers(pods: Iterable[Mapping[str, Any]], namespaces: Iterable[str]) -> list[str]:
    """The pods, as `namespace/name`, of these namespaces that have not ended: what must leave first."""
    wanted = set(namespaces)
    return sorted(
        f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for pod in pods
        if pod["metadata"].get("namespace", "") in wanted
        and (pod.get("status") or {}).get("phase") not in FINISHED
    )
