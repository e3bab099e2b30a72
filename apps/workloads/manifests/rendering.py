"""From a request to the Kubernetes objects it needs: values in, plain dicts out. Pure.

A kind is one module of `apps.workloads.kinds`; how to add one: docs/adding-a-workload-kind.md.
"""

from collections.abc import Mapping
from typing import Any

from apps.cluster.objects.kinds import KINDS as KIND_INFO
from apps.cluster.specs import ObjectRef
from apps.workloads import registry
from apps.workloads.manifests import pods, secrets
from apps.workloads.manifests.pods import TEMPLATE, Manifest
from apps.workloads.specs import Kind, PlacementSpec, WorkloadSpec


def render(spec: WorkloadSpec, place: PlacementSpec, *, running: bool = True) -> list[Manifest]:
    """All objects of a workload that should run; only its volume claims of one that should not.

    RULE: whatever takes quota is absent while it is stopped, so that nothing of it can be admitted meanwhile.
    """
    claims = pods.volume_claims(spec, place)
    return (
        [*claims, *secrets.render(place), *registry.of(spec.kind).build(spec, place)] if running else claims
    )


def arrange(queued: ObjectRef, place: PlacementSpec, *, active: bool, priority: int) -> Manifest:
    """Whether Kueue's own Workload queues, and how early: all that we ever write on it.

    RULE: server-side apply of `spec.active` and `spec.priority` alone; Kueue keeps both as they are, also for
    a pod group (v0.19). The owner labels say whose it is once we manage fields of it.
    """
    return {
        "apiVersion": KIND_INFO["Workload"].api_version,
        "kind": "Workload",
        "metadata": {"name": queued.name, "namespace": queued.namespace, "labels": pods.labels(place)},
        "spec": {"active": active, "priority": priority},
    }


def is_current(controller: Mapping[str, Any] | None, rendered: list[Manifest]) -> bool:
    """Whether the pods of what is there are those that were rendered now; what is absent may be made.

    RULE: a pod template is never changed in place. A Job's is immutable, and Kueue has reserved quota for the
    StatefulSet's as it is; so a changed one means a new object. So does another number of a Job's runs.
    """
    if controller is None:
        return True
    annotations = controller.get("metadata", {}).get("annotations") or {}
    runs = (controller.get("spec") or {}).get("completions")
    return any(
        annotations.get(TEMPLATE) == _template_of(manifest)
        and runs in (None, manifest["spec"].get("completions"))
        for manifest in rendered
        if makes_pods(manifest)
    )


def makes_pods(manifest: Manifest) -> bool:
    """Whether this is the object that Kueue queues."""
    return _template_of(manifest) is not None


def _template_of(manifest: Manifest) -> str | None:
    template: str | None = manifest["metadata"]["annotations"].get(TEMPLATE)
    return template


def controller_kind(kind: Kind) -> str:
    """The Kubernetes kind that Kueue queues: what makes a workload's pods, or its only pod."""
    return registry.of(kind).controller
