"""Brings tenants and departments into their cluster, and takes them out again."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.objects.conditions import condition, find
from apps.cluster.reconciling.rules.plan import diff
from apps.cluster.reconciling.services import wake
from apps.cluster.reconciling.services.converge import Outcome, run
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.cluster.specs import Manifest, ObjectRef
from apps.tenants import selectors, virtual_members
from apps.tenants.isolation import registries, vcluster
from apps.tenants.isolation.manifests import render_department, render_tenant
from apps.tenants.lifecycle.selectors import logins
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import TenantPhase

LOOK_AGAIN = timedelta(seconds=5)
STUCK_AFTER = timedelta(minutes=10)
REGISTRIES_READ = "RegistriesRead"


def reconcile_tenant(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One tenant: its namespace with all that hardens it, and what its members need."""
    run_reconcile(Tenant, pk, _tenant, owner="tenant", gateway=gateway)


def reconcile_department(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One department: its Cohort."""
    run_reconcile(Department, pk, _department, owner="department", gateway=gateway)


def _tenant(tenant: Tenant, gateway: Gateway, now: datetime) -> Result:
    if tenant.deleting_at is not None:
        return _remove_tenant(tenant, gateway, tenant.deleting_at, now)
    # A right that ends inside a virtual cluster ends before anything else is done.
    access = virtual_members.bring(tenant, gateway, now) if virtual_members.may_be_in(tenant) else None
    spec, pulls = selectors.tenant_spec(tenant), logins.logins_of(tenant)
    desired = render_tenant(spec) + registries.render(spec, pulls.known) + _virtual(tenant)
    outcome = run(gateway, tenant.cluster, diff(desired, _observed(tenant), owner_id=str(tenant.pk)), now=now)
    found = _standing(tenant, outcome, now)
    access = access or virtual_members.bring(tenant, gateway, now)
    return replace(
        found,
        conditions=[*found.conditions, *access.facts, *_logins_read(tenant, pulls)],
        outcome=replace(outcome, failures=outcome.failures + access.failures),
        due_at=access.due_at,
    )


def _logins_read(tenant: Tenant, pulls: logins.Logins) -> list[dict[str, str]]:
    if pulls.unreadable:
        words = f"Sealed with another secret key, set them anew: {', '.join(pulls.unreadable)}."
        return [condition(REGISTRIES_READ, False, "Unreadable", words)]
    was_told = find(tenant.conditions, REGISTRIES_READ) is not None
    return [condition(REGISTRIES_READ, True, "Read", "Every login is read.")] if was_told else []


def _standing(tenant: Tenant, outcome: Outcome, now: datetime) -> Result:
    standing = selectors.vcluster_standing(tenant)
    if outcome.is_complete and standing is not None and not standing.is_settled:
        waits = condition("Ready", False, standing.reason, f"Virtual cluster: {standing.message}")
        return Result([waits], outcome, {"phase": TenantPhase.PENDING})
    if outcome.is_complete:
        ready = condition("Ready", True, "Applied", "The namespace is set up.")
        phase = TenantPhase.READY if tenant.archived_at is None else TenantPhase.ARCHIVED
        return Result([ready], outcome, {"phase": phase} | _attestation(tenant, now))
    return Result(
        [condition("Ready", False, "NotApplied", "The cluster does not hold all of it yet.")], outcome
    )


def _attestation(tenant: Tenant, now: datetime) -> dict[str, datetime]:
    """Whatever changed of a tenant, its isolation is attested anew."""
    if tenant.attested_generation == tenant.generation:
        return {}
    wake.hint("attestation", str(tenant.pk))
    return {"attestation_due_at": now}


def _remove_tenant(tenant: Tenant, gateway: Gateway, since: datetime, now: datetime) -> Result:
    """Workloads first, then what is outside the namespace and the namespace itself, at last the queue."""
    waits = selectors.dependents_of(tenant)
    if waits:
        counted = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in waits.items())
        words = f"Waits until {counted} {'is' if sum(waits.values()) == 1 else 'are'} gone."
        return Result([condition("Ready", False, "Deleting", words)], due_at=now + LOOK_AGAIN)
    before = _observed(tenant)
    # Flux uninstalls a release only while its namespace is there: first that, then the rest.
    releases = {ref: seen for ref, seen in before.items() if ref.kind == "HelmRelease"}
    going = releases or {ref: seen for ref, seen in before.items() if _goes_by_itself(tenant, ref)}
    outcome = run(gateway, tenant.cluster, diff([], going, owner_id=str(tenant.pk)), now=now)
    if tenant.is_namespace_adopted and not releases:
        _give_back(gateway, tenant, now)
    left = _observed(tenant)
    if not left:
        wake.hint("queue", str(tenant.pk))
        return Result(
            [condition("Ready", False, "Deleted", "Nothing is left in the cluster.")], outcome, done=True
        )
    words = f"Waits until {', '.join(sorted(str(ref) for ref in left))} is gone."
    namespace = left.get(ObjectRef("Namespace", "", tenant.object_name))
    if namespace is not None and now - since > STUCK_AFTER:
        words = f"{words} {_what_holds(tenant, namespace.body)}"
    return Result([condition("Ready", False, "Deleting", words)], outcome, due_at=now + LOOK_AGAIN)


def _give_back(gateway: Gateway, tenant: Tenant, now: datetime) -> None:
    """The namespace was there before: what we applied to it is taken off, and it stays."""
    ref = ObjectRef("Namespace", "", tenant.object_name)
    seen = _observed(tenant).get(ref)
    if seen is not None:
        gateway.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant.object_name}})
        mirror_table.tombstone(tenant.cluster, ref, uid=seen.uid, now=now)


def _goes_by_itself(tenant: Tenant, ref: ObjectRef) -> bool:
    # What fences the namespace stays until the last pod in it is gone: the namespace takes it along.
    if tenant.is_namespace_adopted:
        return ref.kind != "Namespace"
    # Nobody watches Secrets: only a delete of our own tells that one is gone.
    return ref.namespace != tenant.object_name or ref.kind in ("RoleBinding", "Secret")


def _virtual(tenant: Tenant) -> list[Manifest]:
    spec = selectors.vcluster_of(tenant)
    if spec is None:
        return []
    known = settings.CONFIG
    tenancy, doors = selectors.tenant_spec(tenant), known.ingress_namespace
    return vcluster.render(tenancy, spec, chart_url=known.vcluster_chart_url, ingress=doors)


def _observed(tenant: Tenant) -> dict[ObjectRef, Any]:
    # Only what this row applied: pods and claims under a namespace belong to the rows of workloads.
    return {
        ref: seen for ref, seen in mirror_table.observed_for(tenant.pk).items() if seen.owner_kind == "tenant"
    }


def _what_holds(tenant: Tenant, namespace: Any) -> str:
    """Names the finalizers that hold a namespace, in the server's own words where it gives some."""
    told = [
        c["message"] for c in namespace.get("status", {}).get("conditions", []) if c.get("status") == "True"
    ]
    rows = MirrorObject.objects.filter(
        cluster=tenant.cluster, namespace=tenant.object_name, gone_at=None, deleting=True
    )
    held = [
        f"{row.kind} {row.name} is held by the finalizer {', '.join(finalizers)}"
        for row in rows
        if (finalizers := row.body.get("metadata", {}).get("finalizers"))
    ]
    return "; ".join(["It is stuck for 10 minutes", *held, *told]) + "."


def _department(department: Department, gateway: Gateway, now: datetime) -> Result:
    desired = [] if department.deleting_at else render_department(selectors.department_spec(department))
    observed = mirror_table.observed_for(department.pk)
    outcome = run(gateway, department.cluster, diff(desired, observed, owner_id=str(department.pk)), now=now)
    ready = condition("Ready", outcome.is_complete, "Applied" if outcome.is_complete else "NotApplied")
    return Result([ready], outcome, done=not mirror_table.observed_for(department.pk))
