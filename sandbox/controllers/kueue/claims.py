"""Quota for claim templates: which mapped resource name each DeviceClass of a workload's templates is
charged to.

Pure. Without a mapping a class is inadmissible, as in Kueue; extended resources need none (they are charged
by their own name).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sandbox.api.meta.objects import Obj, dig

Charges = dict[str, dict[str, int]]


class Inadmissible(Exception):
    """A workload Kueue refuses to queue; the text goes into its conditions."""


def template_charges(
    workload: Obj, template: Callable[[str], Obj | None], mapping: Mapping[str, str]
) -> Charges:
    """Charges per pod set for all its pods. Raises Inadmissible with Kueue's words."""
    found: Charges = {}
    for index, pods in enumerate(workload["spec"]["podSets"]):
        charges = found.setdefault(pods["name"], {})
        for place, item in enumerate(dig(pods, "template", "spec", "resourceClaims", default=[])):
            path = f"spec.podSets[{index}].template.spec.resourceClaims[{place}]"
            if item.get("resourceClaimName"):
                words = "ResourceClaims (non-template) are not supported; use ResourceClaimTemplates instead"
                raise Inadmissible(f"{path}.resourceClaimName: Invalid value: null: {words}")
            name, where = item.get("resourceClaimTemplateName", ""), pods["name"]
            spec = template(name)
            if spec is None:
                words = f'resourceclaimtemplates.resource.k8s.io "{name}" not found'
                raise Inadmissible(
                    f"{path}: Internal error: failed to get claim spec for ResourceClaimTemplate {name} "
                    f"in podset {where}: {words}"
                )
            for device_class, count in _device_counts(spec, f"{path}.devices", name).items():
                if device_class not in mapping:
                    words = (
                        f"DeviceClass {device_class} is not mapped in DRA configuration for podset {where}"
                    )
                    raise Inadmissible(f'{path}.resourceClaimTemplateName: Not found: "{words}"')
                resource = mapping[device_class]
                charges[resource] = charges.get(resource, 0) + count * int(pods["count"])
    return found


def _device_counts(template: Obj, path: str, name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for index, request in enumerate(dig(template, "spec", "spec", "devices", "requests", default=[])):
        here = f"{path}.requests[{index}]"
        exact = request.get("exactly")
        if request.get("firstAvailable"):
            raise _refused(here, "null", name, "FirstAvailable device selection is not supported")
        if not exact:
            raise _refused(here, "null", name, "Exactly must be set if FirstAvailable is nil")
        if exact.get("adminAccess"):
            raise _refused(f"{here}.exactly.adminAccess", "null", name, "AdminAccess is not supported")
        if exact.get("allocationMode", "ExactCount") == "All":
            raise _refused(
                f"{here}.exactly.allocationMode", '"All"', name, "AllocationMode 'All' is not supported"
            )
        device_class = exact["deviceClassName"]
        counts[device_class] = counts.get(device_class, 0) + int(exact.get("count", 1))
    return counts


def _refused(path: str, value: str, name: str, detail: str) -> Inadmissible:
    return Inadmissible(f"{path}: Invalid value: {value}: ResourceClaimTemplate {name}: {detail}")
