"""How a tenant is isolated: which choices its cluster has, making one, and changing a virtual cluster.

Isolation is chosen once, with the tenant; only what is inside a virtual cluster's spec may change later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.gateway.addresses import host_problem
from apps.cluster.mirror.selectors import inventory
from apps.cluster.models import Cluster
from apps.errors import Conflict, FieldProblem, Invalid, NotAllowed
from apps.tenants import policies, selectors
from apps.tenants.isolation import vcluster
from apps.tenants.isolation.vcluster import VClusterSpec
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import Isolation
from apps.web.requests.rehearsals import rehearsal


@dataclass(frozen=True)
class IsolationChoice:
    """One way to isolate a tenant on a cluster; `reason` says why it is not available there."""

    isolation: Isolation
    available: bool
    reason: str = ""


def choices(cluster: Cluster) -> list[IsolationChoice]:
    """Every way, with whether the cluster can do it: a virtual cluster needs Flux (capability `flux`)."""
    flux = inventory.capability(cluster, "flux")
    lacks = "" if flux.available else flux.message
    return [
        IsolationChoice(
            each, not (each is Isolation.VCLUSTER and lacks), lacks if each is Isolation.VCLUSTER else ""
        )
        for each in Isolation
    ]


def offered(actor: Actor, clusters: Iterable[Cluster]) -> list[tuple[str, str]]:
    """What a form lists: the ways that one of these clusters has; the namespace alone to all but platform
    engineers.
    """
    there = {
        choice.isolation
        for cluster in clusters
        for choice in choices(cluster)
        if choice.available and policies.can_manage_tenants(actor)
    }
    return [(each.value, each.label) for each in Isolation if each in {Isolation.NAMESPACE, *there}]


@transaction.atomic
def fence(
    *, actor: Actor, tenant: Tenant, isolation: Isolation, virtual: Mapping[str, Any] | None, now: datetime
) -> Tenant:
    """Sets the isolation of a new tenant, before it reaches its cluster.

    Rule: platform engineers choose anything but the namespace. Raises `capability_missing` where the cluster
    cannot do it, and Invalid for a virtual cluster's spec that is wrong or that nobody asked for.
    """
    if isolation is Isolation.NAMESPACE and virtual is None:
        return tenant
    _require(actor, tenant)
    row = tenancy.locked(tenant)
    if row.generation > 1 or row.observed_generation:
        raise Conflict("Isolation is chosen when a tenant is made.", hint="Make another tenant.")
    _require_available(row.cluster, isolation)
    row.isolation = isolation
    row.vcluster = _checked(isolation, virtual)
    row.save(update_fields=["isolation", "vcluster", "updated_at"])
    audit.record(actor, "tenant.isolate", row, now=now, changes={"isolation": ["namespace", isolation]})
    return row


@transaction.atomic
def change_vcluster(*, actor: Actor, tenant: Tenant, virtual: Mapping[str, Any], now: datetime) -> Tenant:
    """Another chart version, sync list or quota, or sleep and wake; the same again changes nothing.

    Rule: platform engineers; for sleep and wake also whoever decides on the tenant's members.
    """
    row = tenancy.locked(tenant)
    tenancy.require_live(row)
    before = selectors.vcluster_of(row)
    wanted = _checked(Isolation(row.isolation), virtual, before)
    if wanted == row.vcluster:
        return row
    after, _ = vcluster.parse(wanted)
    only_sleep = before is not None and replace(before, asleep=after.asleep) == after
    if not (only_sleep and policies.can_decide_on_members(actor, row)):
        _require(actor, row)
    changes = {
        key: [row.vcluster.get(key), value] for key, value in wanted.items() if row.vcluster.get(key) != value
    }
    row.vcluster = wanted
    tenancy.touch(row, "vcluster")
    audit.record(actor, "tenant.vcluster", row, now=now, changes=changes)
    return row


def rest(*, actor: Actor, tenant: Tenant, asleep: bool, now: datetime) -> Tenant:
    """Sends the virtual cluster to sleep or wakes it. Rule: see `services.require_lead`.

    Raises `wrong_phase` for a tenant without one.
    """
    tenancy.require_lead(actor, tenant)
    if tenant.isolation != Isolation.VCLUSTER:
        raise Conflict(
            f"{tenant.slug} has no virtual cluster.",
            hint="Only a tenant with a virtual cluster can sleep and wake.",
        )
    virtual = {**tenant.vcluster, "asleep": asleep}
    return change_vcluster(actor=actor, tenant=tenant, virtual=virtual, now=now)


def may_rest(actor: Actor, tenant: Tenant) -> bool:
    """Whether the page shows the buttons for sleep and wake."""
    is_live = tenant.deleting_at is None and tenant.archived_at is None
    return (
        tenant.isolation == Isolation.VCLUSTER and is_live and policies.can_decide_on_members(actor, tenant)
    )


def effect_of_rest(actor: Actor, tenant: Tenant, *, asleep: bool) -> list[str]:
    """What `rest` would do, in words, with its refusals; nothing is changed."""
    with rehearsal():
        rest(actor=actor, tenant=tenant, asleep=asleep, now=timezone.now())
    if (tenant.vcluster or {}).get("asleep", False) == asleep:
        return [f"It {'sleeps' if asleep else 'is awake'} already: nothing changes."]
    count = selectors.pods_of(tenant)
    pods = f"{count} pod{'s' if count != 1 else ''}"
    if not asleep:
        return [
            "Its control plane starts again, usually within a minute or two, with all that it has stored.",
            "The tenant's queue admits work again, and what waits there may start.",
        ]
    return [
        f"Its control plane is switched off: nobody reaches its API. {pods} of the tenant are there now.",
        "The tenant's queue is drained: work that runs is stopped, and nothing new starts.",
        "What the virtual cluster has stored and all volumes stay. Waking it brings it back.",
    ]


def _require(actor: Actor, tenant: Tenant) -> None:
    if not policies.can_manage_tenant(actor, tenant):
        raise NotAllowed("Only a platform engineer decides on a tenant's isolation.")


def _require_available(cluster: Cluster, isolation: Isolation) -> None:
    choice = next(each for each in choices(cluster) if each.isolation is isolation)
    if not choice.available:
        words = f"{cluster.slug} cannot isolate by {isolation.label.lower()}. {choice.reason}"
        hint = "Choose another isolation, or let the cluster's operator add what is missing."
        raise Conflict(words, code="capability_missing", hint=hint)


def _checked(
    isolation: Isolation, virtual: Mapping[str, Any] | None, before: VClusterSpec | None = None
) -> dict[str, Any]:
    if isolation is not Isolation.VCLUSTER:
        if virtual:
            words = "Only a tenant with the isolation vcluster has a virtual cluster."
            raise Invalid([FieldProblem("/spec/vcluster", "invalid_value", words)])
        return {}
    spec, problems = vcluster.parse(virtual or {})
    if spec.api_host and (before is None or spec.api_host != before.api_host):
        problems += _led_astray(spec.api_host)
    if problems:
        raise Invalid(problems)
    return vcluster.as_json(spec)


def _led_astray(api_host: str) -> list[FieldProblem]:
    """RULE: the product connects there itself, so it may only be where a cluster may be. Where a name leads
    is judged at each connection.
    """
    problem = host_problem(api_host.partition(":")[0], settings.CONFIG.development_clusters)
    words = f"{api_host} {problem}, where no cluster may be."
    return [FieldProblem("/spec/vcluster/api_host", "invalid_value", words)] if problem else []
