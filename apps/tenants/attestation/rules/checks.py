"""The 18 checks that attest a tenant's isolation: what is asked from inside, and what the answers mean. Pure.

Source: the benchmark of the Kubernetes working group on multi-tenancy. Two of its checks are turned round:
there a tenant opens its network and binds roles by itself; here the product does both, and the tenant must be
unable to.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.cluster.objects import names
from apps.cluster.specs import Body, Manifest
from apps.tenants.specs import OBJECT_LIMITS, QUEUE_NAME, Verdict

POD_SECURITY, RBAC, POLICY = "PodSecurity", " cannot ", "ValidatingAdmissionPolicy 'allotment-"
"""By what words each guard is recognised in the API server's answer."""

LISTED = ("ResourceQuota", "LimitRange", "NetworkPolicy", "RoleBinding")
"""Kinds of the tenant's own namespace that the probe reads."""

_ROLES = "allotment-tenant-"


@dataclass(frozen=True)
class Right:
    """One right that the probe must not have; an empty namespace means anywhere."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{where}"


@dataclass(frozen=True)
class Attempt:
    """An object that must be refused when it is sent as a dry run, and the guards that may refuse it."""

    manifest: Manifest
    guards: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """One of the 18: all its rights must be missing, all its attempts refused, and what it needs in place."""

    key: str
    title: str
    rights: tuple[Right, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    standing: str = ""


@dataclass(frozen=True)
class Outcome:
    """How one check came out, in a sentence."""

    key: str
    title: str
    verdict: Verdict
    words: str


@dataclass(frozen=True)
class Findings:
    """What the cluster answered: rights held of those asked for, refusals by attempt (None: accepted).

    `control` is the refusal of the plain pod. It must be None: if even that pod is refused, no other refusal
    proves anything.
    """

    evaluates_policies: bool
    control: str | None = None
    held: Collection[Right] = ()
    refusals: Mapping[tuple[str, int], str | None] = field(default_factory=dict)
    listed: Mapping[str, Sequence[Body]] = field(default_factory=dict)


def plain_pod(namespace: str) -> Manifest:
    """A pod that every rule accepts: each attempt is this one with one thing wrong."""
    container = {
        "name": "probe",
        "image": "registry.k8s.io/pause:3.10",
        "imagePullPolicy": "Always",
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }  # fmt: skip
    labels = {names.LABEL_QUEUE: QUEUE_NAME}
    metadata = {"name": "allotment-attestation", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def checks(namespace: str, others: Sequence[str]) -> tuple[Check, ...]:
    """The 18 checks for a tenant's namespace; `others` are namespaces that are none of its business."""
    return (*_rights(namespace, others), *_pods(namespace), *_standing(namespace))


def judge(check: Check, found: Findings) -> Outcome:
    """One check's outcome.

    Rule: passed only if every right is missing, every attempt was refused by a guard that it names, and what
    must stand stands. An attempt that only policies refuse is not checked where policies are not evaluated;
    nothing that pods decide is, where even the plain pod is refused.
    """
    held = [str(right) for right in check.rights if right in found.held]
    if held:
        return _outcome(check, Verdict.FAILED, f"The tenant may {', '.join(held[:5])}.")
    if check.attempts and check.attempts[0].manifest["kind"] == "Pod" and found.control is not None:
        return _outcome(check, Verdict.NOT_CHECKED, f"Even a plain pod is refused: {found.control}")
    for index, attempt in enumerate(check.attempts):
        wrong = _wrong(attempt, found.refusals.get((check.key, index)), found)
        if wrong:
            return _outcome(check, *wrong)
    missing = _MISSING[check.standing](found) if check.standing else ""
    if missing:
        return _outcome(check, Verdict.FAILED, missing)
    return _outcome(check, Verdict.PASSED, _proof(check))


def _wrong(attempt: Attempt, refusal: str | None, found: Findings) -> tuple[Verdict, str] | None:
    if refusal is not None and any(guard in refusal for guard in attempt.guards):
        return None
    if refusal is not None:
        return Verdict.NOT_CHECKED, f"Refused, but by something else: {refusal}"
    if attempt.guards == (POLICY,) and not found.evaluates_policies:
        return Verdict.NOT_CHECKED, "Not checked here: this cluster does not evaluate admission policies."
    return Verdict.FAILED, "The API server accepted it."


def _outcome(check: Check, verdict: Verdict, words: str) -> Outcome:
    return Outcome(check.key, check.title, verdict, words)


def _proof(check: Check) -> str:
    parts = []
    if check.rights:
        parts.append(f"{len(check.rights)} rights asked for, none held")
    if check.attempts:
        tried = len(check.attempts)
        parts.append("tried and refused" if tried == 1 else f"{tried} tried, {tried} refused")
    if check.standing:
        parts.append("in place")
    return f"{'; '.join(parts).capitalize()}."


def _rights(namespace: str, others: Sequence[str]) -> tuple[Check, ...]:
    cluster = tuple(
        Right(verb, resource, group)
        for group, resources in _OF_THE_CLUSTER.items()
        for resource in resources
        for verb in ("list", "create", "patch", "delete")
    )
    own = tuple(
        Right(verb, resource, group, namespace)
        for group, resources in _OF_THE_PRODUCT.items()
        for resource in resources
        for verb in ("patch", "delete")
    )
    foreign = tuple(
        Right(verb, resource, group, other) for other in ("", *others) for verb, resource, group in _OF_OTHERS
    )
    quota = tuple(
        Right(verb, resource, group, namespace)
        for resource, group in (("resourcequotas", ""), ("localqueues", "kueue.x-k8s.io"))
        for verb in ("create", "update", "patch", "delete", "deletecollection")
    )
    return (
        Check("cluster-resources", "The cluster's own objects are out of reach", cluster),
        Check("shared-objects", "What the product put into the namespace cannot be changed", own),
        Check("other-tenants", "Other namespaces can be neither seen nor entered", foreign),
        Check("quota-edits", "Quota cannot be changed", quota),
    )


_OF_THE_CLUSTER = {
    "": ("nodes", "namespaces", "persistentvolumes"),
    "rbac.authorization.k8s.io": ("clusterroles", "clusterrolebindings"),
    "admissionregistration.k8s.io": ("validatingadmissionpolicies", "mutatingwebhookconfigurations"),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "resource.k8s.io": ("deviceclasses", "resourceslices"),
    "kueue.x-k8s.io": ("clusterqueues", "resourceflavors", "cohorts", "workloadpriorityclasses"),
}
_OF_THE_PRODUCT = {
    "": ("resourcequotas", "limitranges", "serviceaccounts", "services", "pods"),
    "networking.k8s.io": ("networkpolicies",),
    "rbac.authorization.k8s.io": ("roles", "rolebindings"),
    "kueue.x-k8s.io": ("localqueues", "workloads"),
    "apps": ("statefulsets",),
}
_OF_OTHERS = (
    ("list", "pods", ""), ("get", "secrets", ""), ("list", "secrets", ""), ("get", "pods/exec", ""),
    ("create", "pods/exec", ""), ("create", "serviceaccounts/token", ""), ("create", "jobs", "batch"),
    ("list", "events", ""),
)  # fmt: skip


def _pods(namespace: str) -> tuple[Check, ...]:
    def pod(*changed: Mapping[str, Any], container: Mapping[str, Any] | None = None) -> tuple[Attempt, ...]:
        wrong = []
        for change in changed or ({},):
            body = plain_pod(namespace)
            body["spec"] |= change
            body["spec"]["containers"][0] |= container or {}
            wrong.append(Attempt(body, (POD_SECURITY,)))
        return tuple(wrong)

    def context(**settings: Any) -> tuple[Attempt, ...]:
        plain = plain_pod(namespace)["spec"]["containers"][0]["securityContext"]
        return pod(container={"securityContext": plain | settings})

    host_port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    host_path = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    root = {"securityContext": {"runAsNonRoot": False, "seccompProfile": {"type": "RuntimeDefault"}}}
    stale = plain_pod(namespace)
    stale["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    return (
        Check("capabilities", "No capability can be added",
              attempts=context(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]})),
        Check("escalation", "No process can gain privileges",
              attempts=context(allowPrivilegeEscalation=True)),
        Check("privileged", "No privileged container",
              attempts=context(privileged=True, allowPrivilegeEscalation=True)),
        Check("host-ipc", "The host's shared memory is out of reach", attempts=pod({"hostIPC": True})),
        Check("host-pid", "The host's processes are out of reach", attempts=pod({"hostPID": True})),
        Check("host-network", "The host's network and ports are out of reach",
              attempts=(*pod({"hostNetwork": True}), *pod(container=host_port))),
        Check("host-path", "The host's files are out of reach", attempts=pod(host_path)),
        Check("node-port", "No Service opens a port of the nodes", attempts=(_node_port(namespace),)),
        Check("non-root", "Nothing runs as root", attempts=pod(root)),
        Check("always-pull", "Images are pulled with the tenant's own credentials",
              attempts=(Attempt(stale, (POLICY,)),)),
    )  # fmt: skip


def _node_port(namespace: str) -> Attempt:
    metadata = {"name": "allotment-attestation", "namespace": namespace}
    spec = {"type": "NodePort", "selector": {"app": "probe"}, "ports": [{"port": 80, "protocol": "TCP"}]}
    return Attempt({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}, (POLICY,))


def _standing(namespace: str) -> tuple[Check, ...]:
    metadata = {"name": "allotment-attestation", "namespace": namespace}
    opened = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"]},
    }
    group = "rbac.authorization.k8s.io"
    bound = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": group}],
    }
    guards = (RBAC, POLICY)
    return (
        Check("quotas", "Objects are counted by quota", standing="quotas"),
        Check("object-limits", "Containers get requests, so that quota counts them", standing="limits"),
        Check("network", "The network is closed, and the tenant cannot open it",
              attempts=(Attempt(opened, guards),), standing="network"),
        Check("bindings", "Roles are bound by the product alone",
              attempts=(Attempt(bound, guards),), standing="bindings"),
    )  # fmt: skip


def _no_quotas(found: Findings) -> str:
    hard = {key for body in found.listed.get("ResourceQuota", ()) for key in body["spec"].get("hard", {})}
    missing = sorted(set(OBJECT_LIMITS) - hard)
    return f"No quota counts {', '.join(missing)}." if missing else ""


def _no_limits(found: Findings) -> str:
    limits = [each for body in found.listed.get("LimitRange", ()) for each in body["spec"]["limits"]]
    given = {
        name for each in limits if each["type"] == "Container" for name in each.get("defaultRequest", {})
    }
    missing = sorted({"cpu", "memory"} - given)
    return f"No LimitRange gives a default request of {', '.join(missing)}." if missing else ""


def _open_network(found: Findings) -> str:
    closed = {
        direction
        for body in found.listed.get("NetworkPolicy", ())
        if not body["spec"].get("podSelector")
        and not body["spec"].get("ingress")
        and not body["spec"].get("egress")
        for direction in body["spec"].get("policyTypes", ())
    }
    missing = sorted({"Ingress", "Egress"} - closed)
    return f"No policy denies {' and '.join(missing).lower()} by default." if missing else ""


def _foreign_bindings(found: Findings) -> str:
    foreign = sorted(
        f"{body['metadata']['name']} (to {body['roleRef']['name']})"
        for body in found.listed.get("RoleBinding", ())
        if not body["roleRef"]["name"].startswith(_ROLES)
        and (body["metadata"].get("labels") or {}).get(names.LABEL_MANAGED_BY) != "Helm"
    )
    return f"Somebody else bound {', '.join(foreign)}." if foreign else ""


_MISSING = {
    "quotas": _no_quotas,
    "limits": _no_limits,
    "network": _open_network,
    "bindings": _foreign_bindings,
}
