"""What the product does inside a tenant's virtual cluster: the members' accounts, made and taken away.

RULE: the key is read from the host each time it is needed and kept nowhere. The mirror holds nothing of the
inside: a virtual cluster is small enough to ask it directly.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.gateway.port import Gateway, open_keyed
from apps.cluster.objects.conditions import Fact, condition, find
from apps.cluster.objects.fields import digest
from apps.cluster.objects.kinds import KINDS
from apps.cluster.objects.names import LABEL_UID
from apps.cluster.reconciling.rules.plan import Delete, Plan, diff
from apps.cluster.reconciling.services.converge import Failure, raise_first, together
from apps.cluster.specs import Body, ClientKey, Manifest, ObjectRef, Observed, ref_of
from apps.tenants import selectors
from apps.tenants.isolation import vcluster
from apps.tenants.isolation.manifests import binding_name, render_inside
from apps.tenants.isolation.vcluster import VClusterPhase
from apps.tenants.models import Tenant
from apps.tenants.specs import ACCESS, ACCESS_NAMESPACE, MemberSpec

ASLEEP = "Asleep"
"""The reason of the condition Access where nobody is left inside."""

LOOK_AGAIN = timedelta(seconds=60)
"""How soon a namespace that somebody made inside is opened to members: nobody watches in there."""

_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_GOES = ("ServiceAccount", *_BINDINGS)
_KINDS = ("Namespace", "ClusterRole", *_GOES)
_SYSTEM = "kube-"
_UNSAID = frozenset({"apiVersion", "annotations"})
"""The annotation is the generation alone: a member who comes is no reason to write every other one anew."""


def key_of(tenant: Tenant, gateway: Gateway) -> ClientKey:
    """The key to the tenant's virtual cluster, read now. Raises Unreachable if there is none."""
    spec = selectors.vcluster_of(tenant) or vcluster.VClusterSpec()
    try:
        secret = gateway.get(ObjectRef("Secret", tenant.object_name, vcluster.KEY_SECRET))
    except Rejected as error:
        raise Unreachable(
            f"The cluster does not give its key: {error.message}", reason="KeyRefused"
        ) from None
    found = vcluster.key(secret or {}, vcluster.address(tenant.object_name, spec))
    if found is None:
        raise Unreachable("The virtual cluster has not written its key yet.", reason="KeyMissing")
    return found


class Access(NamedTuple):
    """What bringing the accounts came to: the condition, what was refused, and when to look again."""

    facts: tuple[Fact, ...] = ()
    failures: tuple[Failure, ...] = ()
    due_at: datetime | None = None


def may_be_in(tenant: Tenant) -> bool:
    """Whether members may have accounts inside: then these are brought up to date before all else."""
    known = find(tenant.conditions, ACCESS)
    return known is not None and known["reason"] != ASLEEP


def bring(tenant: Tenant, gateway: Gateway, now: datetime) -> Access:
    """Brings the members' accounts inside up to date, if the inside answers.

    All accounts are removed before it falls asleep, so that somebody who leaves meanwhile has none when it
    wakes. If it is silent then, they are removed when it wakes. One that sleeps or was never ready is not
    asked.
    """
    spec, standing = selectors.vcluster_of(tenant), selectors.vcluster_standing(tenant)
    if spec is None or standing is None:
        return Access()
    if spec.asleep:
        if may_be_in(tenant):
            _settle(tenant, gateway, ())
        return Access(
            (condition(ACCESS, False, ASLEEP, "It is asleep: nobody gets in until somebody wakes it."),)
        )
    if not may_be_in(tenant) and standing.phase is not VClusterPhase.READY:
        return Access()
    failures = _settle(tenant, gateway, selectors.accounts_of(tenant))
    if failures:
        return Access((condition(ACCESS, False, failures[0].reason, failures[0].message),), failures)
    words = "Members have their accounts in the virtual cluster."
    return Access((condition(ACCESS, True, "Applied", words),), (), now + LOOK_AGAIN)


def _settle(tenant: Tenant, gateway: Gateway, members: Sequence[MemberSpec]) -> tuple[Failure, ...]:
    """Lets exactly these members in; answers what the inside refused, or that it is silent."""
    try:
        return _run(open_keyed(key_of(tenant, gateway)), tenant, members)
    except (Unreachable, Rejected) as error:
        release = ObjectRef("HelmRelease", tenant.object_name, vcluster.RELEASE)
        return (Failure(release, error.reason, f"Inside the virtual cluster: {error}"),)


def _run(inner: Gateway, tenant: Tenant, members: Sequence[MemberSpec]) -> tuple[Failure, ...]:
    failures = _end(inner, tenant, {binding_name(member) for member in members})
    plan = plan_for(inner, tenant, members)
    for _, steps in groupby(plan.deletes, key=lambda step: KINDS[step.ref.kind].level):
        # A right ends before the account that held it: servers remember a token that passed for 10 s.
        failures += _refused(together(lambda step: inner.delete(step.ref, uid=step.uid), list(steps)))
    for level in plan.levels if not failures else ():
        # Leads administer the inside and may have changed what is ours: it is taken back.
        failures += _refused(together(lambda step: inner.apply(step.manifest, force=True), level))
    return tuple(failures)


def _end(inner: Gateway, tenant: Tenant, wanted: Collection[str]) -> list[Failure]:
    """Ends the rights of everybody else, found with two calls. People who left are out before anything else
    happens.
    """
    over = [
        Delete(ObjectRef(kind, metadata.get("namespace", ""), metadata["name"]), metadata["uid"])
        for kind in _BINDINGS
        for body in inner.list(kind, label_selector=_ours(tenant))[0]
        if (metadata := body["metadata"])["name"] not in wanted
    ]
    return _refused(together(lambda step: inner.delete(step.ref, uid=step.uid), over))


def _ours(tenant: Tenant) -> str:
    return f"{LABEL_UID}={tenant.pk}"


def _refused(answers: Sequence[tuple[Any, Body | bool | Exception]]) -> list[Failure]:
    """What the inside refused. Raises whatever else went wrong, as `raise_first` does."""
    raise_first(answers)
    return [
        Failure(step.ref, answer.reason, f"Inside the virtual cluster: {answer.message}")
        for step, answer in answers
        if isinstance(answer, Rejected)
    ]


def plan_for(inner: Gateway, tenant: Tenant, members: Sequence[MemberSpec]) -> Plan:
    """What has to be written inside so that exactly these members get in. Asks the inside, changes nothing;
    deletes accounts and bindings alone, whatever else may carry our labels in there.
    """
    spaces = [body["metadata"] for body in inner.list("Namespace")[0]]
    opened = [
        space["name"]
        for space in spaces
        if space["name"] != ACCESS_NAMESPACE
        and not space["name"].startswith(_SYSTEM)
        and "deletionTimestamp" not in space
    ]
    wanted = render_inside(selectors.tenant_spec(tenant), members, opened)
    known = {ref_of(manifest): manifest for manifest in wanted}
    found = [
        _observed(tenant, kind, body, known)
        for kind in _KINDS
        for body in inner.list(kind, label_selector=_ours(tenant))[0]
    ]
    mine = {seen.ref: seen for seen in found if seen.ref in known or seen.ref.kind in _GOES}
    return diff(wanted, mine, owner_id=str(tenant.pk))


def _observed(tenant: Tenant, kind: str, body: Body, wanted: Mapping[ObjectRef, Manifest]) -> Observed:
    """As the mirror would tell it; equal hashes where the object holds all that we want of it."""
    metadata = body["metadata"]
    ref = ObjectRef(kind, metadata.get("namespace", ""), metadata["name"])
    manifest = wanted.get(ref)
    sent = digest(manifest) if manifest is not None and _holds(manifest, body | {"kind": kind}) else ""
    return Observed(
        ref, metadata["uid"], owner_id=str(tenant.pk), is_managed=True,
        deleting="deletionTimestamp" in metadata, sent_hash=sent, applied_hash=sent, live_hash=sent,
    )  # fmt: skip


def _holds(wanted: Any, seen: Any) -> bool:
    """Whether what we want is there, whatever else there may be; the kind's version is said by no list."""
    if isinstance(wanted, Mapping):
        return isinstance(seen, Mapping) and all(
            _holds(value, seen.get(key)) for key, value in wanted.items() if key not in _UNSAID
        )
    if isinstance(wanted, list):
        return isinstance(seen, list) and len(wanted) == len(seen) and all(map(_holds, wanted, seen))
    return bool(wanted == seen)


def refusal(tenant: Tenant) -> str:
    """Why a member has no way into the virtual cluster right now; empty where there is one."""
    spec, standing = selectors.vcluster_of(tenant), selectors.vcluster_standing(tenant)
    if spec is None or standing is None:
        return ""
    if spec.asleep:
        return f"The virtual cluster of {tenant.slug} is asleep: wake it first."
    if standing.phase is not VClusterPhase.READY:
        return f"The virtual cluster of {tenant.slug} is not ready yet: {standing.message or standing.reason}"
    access = find(tenant.conditions, ACCESS)
    if access is None or access["status"] != "True":
        told = access["message"] if access else "It has just become ready."
        return f"Your account in {tenant.slug} is not set up in the virtual cluster. {told}"
    return ""
