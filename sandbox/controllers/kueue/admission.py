"""What admission puts into pods, and how it is taken out again: selectors, tolerations, labels, gates.

Pure edits of private copies.
"""

from __future__ import annotations

from collections.abc import Callable

from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.controllers.kueue import names


def pod_info(workload: Obj, flavor: Callable[[str], Obj | None], place: int = 0) -> Obj:
    """What the admission of a pod set injects: labels, annotation, nodeSelector, tolerations."""
    admission = workload["status"]["admission"]
    assignment = admission["podSetAssignments"][place]
    selector: dict[str, str] = {}
    tolerations: list[Obj] = []
    for name in dict.fromkeys((assignment.get("flavors") or {}).values()):
        spec = (flavor(name) or {}).get("spec") or {}
        selector |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or []
    return {
        "labels": {
            names.PODSET_LABEL: assignment["name"],
            names.LOCAL_QUEUE_LABEL: workload["spec"].get("queueName", ""),
            names.CLUSTER_QUEUE_LABEL: admission["clusterQueue"],
        },
        "annotations": {names.WORKLOAD_ANNOTATION: workload["metadata"]["name"]},
        "nodeSelector": selector,
        "tolerations": tolerations,
    }


def inject(meta: Obj, spec: Obj, info: Obj) -> None:
    """Merge admission's information into a pod or a pod template, and open Kueue's gates."""
    for key in ("labels", "annotations"):
        meta[key] = {**(meta.get(key) or {}), **info[key]}
    if info["nodeSelector"]:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info["nodeSelector"]}
    known = spec.get("tolerations") or []
    fresh = [t for t in info["tolerations"] if t not in known]
    if fresh:
        spec["tolerations"] = [*known, *fresh]
    ungate(spec)


def ungate(spec: Obj) -> None:
    """Remove Kueue's scheduling gates, keep foreign ones."""
    gates = [
        g
        for g in spec.get("schedulingGates") or ()
        if g["name"] not in (names.ADMISSION_GATE, names.TOPOLOGY_GATE)
    ]
    if gates:
        spec["schedulingGates"] = gates
    else:
        spec.pop("schedulingGates", None)


def gate(spec: Obj) -> None:
    """Hold a pod back until it is admitted."""
    gates = spec.setdefault("schedulingGates", [])
    known = {g["name"] for g in gates}
    gates += [{"name": n} for n in (names.ADMISSION_GATE, names.TOPOLOGY_GATE) if n not in known]


def is_held(pod: Obj) -> bool:
    """Whether Kueue's admission gate is still on the pod."""
    return any(g["name"] == names.ADMISSION_GATE for g in pod["spec"].get("schedulingGates") or ())


def restore(template: Obj, original: Obj) -> None:
    """Bring a Job's template back to what it was before admission, from the workload's copy."""
    meta, spec = template.setdefault("metadata", {}), template["spec"]
    kept = {k: v for k, v in (meta.get("labels") or {}).items() if k not in names.INJECTED_LABELS}
    meta["labels"] = {**kept, **(dig(original, "metadata", "labels", default={}))}
    meta["annotations"] = copy_of(dig(original, "metadata", "annotations", default={}))
    if not meta["annotations"]:
        del meta["annotations"]
    for key in ("nodeSelector", "tolerations", "schedulingGates"):
        value = dig(original, "spec", key)
        if value:
            spec[key] = copy_of(value)
        else:
            spec.pop(key, None)
