"""Pod security levels by namespace label: baseline and restricted, for pods (enforce) and for templates
(warn). Part of the standard's rules only.
"""

from __future__ import annotations

from typing import Any

from sandbox.api.admission.chain import Review
from sandbox.api.meta import errors
from sandbox.api.meta.objects import Obj, dig
from sandbox.api.validation.podspecs import containers_of

_LABEL = "pod-security.kubernetes.io/"
_TEMPLATES = frozenset({"deployments.apps", "statefulsets.apps", "replicasets.apps", "jobs.batch"})
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "name",
    }
)
_BASELINE_CAPS = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)


def _names(found: list[Obj]) -> str:
    quoted = ", ".join(f'"{item["name"]}"' for item in found)
    return f"container {quoted}" if len(found) == 1 else f"containers {quoted}"


def _security(container: Obj, *path: str) -> Any:
    return dig(container, "securityContext", *path)


def baseline(spec: Obj) -> list[str]:
    """Violations of the baseline level."""
    found, containers = [], containers_of(spec)
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    if shared:
        found.append(f"host namespaces ({', '.join(shared)})")
    privileged = [item for item in containers if _security(item, "privileged")]
    if privileged:
        found.append(f"privileged ({_names(privileged)} must not set securityContext.privileged=true)")
    capable = [
        item for item in containers if set(_security(item, "capabilities", "add") or ()) - _BASELINE_CAPS
    ]
    if capable:
        extra = sorted(
            {cap for item in capable for cap in _security(item, "capabilities", "add")} - _BASELINE_CAPS
        )
        listed = ", ".join(f'"{cap}"' for cap in extra)
        found.append(
            f"non-default capabilities ({_names(capable)} must not include {listed} in "
            "securityContext.capabilities.add)"
        )
    paths = [volume["name"] for volume in spec.get("volumes") or () if "hostPath" in volume]
    if paths:
        found.append("hostPath volumes (volume {})".format(", ".join(f'"{name}"' for name in paths)))
    return found + _host_ports(containers)


def _host_ports(containers: list[Obj]) -> list[str]:
    taken = {
        item["name"]: [str(port["hostPort"]) for port in item.get("ports") or () if port.get("hostPort")]
        for item in containers
    }
    users = [item for item in containers if taken[item["name"]]]
    if not users:
        return []
    ports = sorted({port for item in users for port in taken[item["name"]]})
    word = "hostPort" if len(ports) == 1 else "hostPorts"
    uses = "uses" if len(users) == 1 else "use"
    return [f"hostPort ({_names(users)} {uses} {word} {', '.join(ports)})"]


def restricted(spec: Obj) -> list[str]:
    """Violations of the restricted level beyond baseline."""
    found, containers = [], containers_of(spec)
    escalating = [item for item in containers if _security(item, "allowPrivilegeEscalation") is not False]
    if escalating:
        found.append(
            f"allowPrivilegeEscalation != false ({_names(escalating)} must set "
            "securityContext.allowPrivilegeEscalation=false)"
        )
    capable = [item for item in containers if "ALL" not in (_security(item, "capabilities", "drop") or ())]
    if capable:
        found.append(
            f"unrestricted capabilities ({_names(capable)} must set "
            'securityContext.capabilities.drop=["ALL"])'
        )
    kinds = sorted({kind for volume in spec.get("volumes") or () for kind in volume} - _VOLUMES)
    if kinds:
        found.append("restricted volume types ({})".format(", ".join(f'"{kind}"' for kind in kinds)))
    root = [item for item in containers if not _non_root(spec, item)]
    if root:
        found.append(
            f"runAsNonRoot != true (pod or {_names(root)} must set securityContext.runAsNonRoot=true)"
        )
    if dig(spec, "securityContext", "runAsUser") == 0 or any(
        _security(item, "runAsUser") == 0 for item in containers
    ):
        found.append("runAsUser=0 (pod must not set runAsUser=0)")
    bare = [item for item in containers if not _profiled(spec, item)]
    if bare:
        found.append(
            f"seccompProfile (pod or {_names(bare)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost")'
        )
    return found


def _non_root(spec: Obj, container: Obj) -> bool:
    own = _security(container, "runAsNonRoot")
    return bool(own if own is not None else dig(spec, "securityContext", "runAsNonRoot"))


def _profiled(spec: Obj, container: Obj) -> bool:
    kind = _security(container, "seccompProfile", "type") or dig(
        spec, "securityContext", "seccompProfile", "type"
    )
    return kind in ("RuntimeDefault", "Localhost")


def violations(spec: Obj, level: str) -> list[str]:
    """What a pod spec does that its level forbids."""
    if level not in ("baseline", "restricted"):
        return []
    return baseline(spec) + (restricted(spec) if level == "restricted" else [])


class PodSecurity:
    """Admission by the namespace's pod-security labels."""

    resources = frozenset({"pods"}) | _TEMPLATES

    def mutate(self, review: Review) -> None:
        """Changes nothing."""

    def validate(self, review: Review) -> None:
        """Refuse pods at the enforced level; warn at the warn level."""
        if review.operation == "DELETE" or (review.operation == "UPDATE" and review.resource == "pods"):
            return
        space = review.client.get("namespaces", review.namespace)
        labels = dig(space, "metadata", "labels", default={})
        pod = review.resource == "pods"
        spec = review.obj["spec"] if pod else dig(review.obj, "spec", "template", "spec", default={})
        enforced = labels.get(f"{_LABEL}enforce", "privileged")
        version = labels.get(f"{_LABEL}enforce-version", "latest")
        found = violations(spec, enforced)
        if found and pod:
            raise errors.forbidden(
                "pods", "", review.name, f'violates PodSecurity "{enforced}:{version}": ' + ", ".join(found)
            )
        level = labels.get(f"{_LABEL}warn", "" if pod else enforced)
        warned = violations(spec, level)
        if warned:
            label = f"{level}:{labels.get(f'{_LABEL}warn-version', version)}"
            review.warnings.append(f'would violate PodSecurity "{label}": ' + ", ".join(warned))
