"""What of tenancy an actor sees, and the specs that manifests are made from. Reads only.

Visibility is the queryset: what an actor may not see is absent, so it cannot be told from what does not
exist.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID, uuid5

from django.db.models import PROTECT, CharField, OuterRef, Prefetch, Q, QuerySet, Subquery, UUIDField

from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.cluster.models import MirrorObject, Reconciled
from apps.cluster.objects import names
from apps.cluster.objects.conditions import find
from apps.errors import NotFound
from apps.prepared import Prepared
from apps.tenants import shell_fence
from apps.tenants.isolation import egress, vcluster
from apps.tenants.isolation.vcluster import VClusterSpec
from apps.tenants.models import Department, DepartmentManager, Membership, NodeAssignment, Tenant
from apps.tenants.specs import (
    ACCESS,
    Bound,
    DepartmentSpec,
    Egress,
    EgressMode,
    Isolation,
    MemberSpec,
    Role,
    Suspend,
    TenantSpec,
)
from apps.web.requests.lookups import one, slug_or_id

_MANAGERS = Prefetch("managers", DepartmentManager.objects.select_related("user"))


def tenants_for(actor: Actor) -> QuerySet[Tenant]:
    """Those an actor sees: its own, of departments it manages, or all; cut to the credential's tenants."""
    found = _living() if actor.watches_tenants else _living().filter(_belonging_to(actor.user_id))
    return found if actor.tenants is None else found.filter(slug__in=actor.tenants)


def tenants_ever_for(actor: Actor) -> QuerySet[Tenant]:
    """The same; for who sees everything with those that were deleted, which were charged while they lived."""
    everything = Tenant.objects.select_related("department", "cluster")
    return everything if actor.sees_everything else tenants_for(actor)


def _living() -> QuerySet[Tenant]:
    return Tenant.objects.filter(deleted_at=None).select_related("department", "cluster")


def _belonging_to(user: Any) -> Q:
    own = Membership.objects.filter(user=user).values("tenant")
    managed = DepartmentManager.objects.filter(user=user).values("department")
    return Q(pk__in=own) | Q(department__in=managed)


def neighbours_of(actor: Actor) -> frozenset[str] | None:
    """Slugs of the tenants that an actor is told of by name, and of no more: all of the departments of those
    it sees; None: every tenant.
    """
    if actor.sees_everything:
        return None
    return request_cache.memo(("neighbours", actor), lambda: frozenset(_neighbours(actor)))


def _neighbours(actor: Actor) -> list[str]:
    if _is_usual(actor):
        return _NEIGHBOURS(actor.user_id)
    return list(_in_departments_of(tenants_for(actor)))


def _in_departments_of(tenants: QuerySet[Tenant]) -> QuerySet[Tenant, str]:
    beside = Tenant.objects.filter(department__in=tenants.values("department"))
    return beside.values_list("slug", flat=True)


def seen_among(actor: Actor, slugs: Collection[str]) -> set[str]:
    """Which of these slugs are tenants that the actor sees."""
    return set(tenants_for(actor).filter(slug__in=slugs).values_list("slug", flat=True))


def seen_by(actor: Actor) -> QuerySet[Tenant] | list[UUID]:
    """The same to filter rows with: ids, read once a scope; the query for who may see thousands."""
    if actor.watches_tenants or not request_cache.is_open():
        return tenants_for(actor)
    return request_cache.memo(("tenants seen", actor), lambda: _seen_by(actor))


def _seen_by(actor: Actor) -> list[UUID]:
    if _is_usual(actor):
        return _SEEN(actor.user_id)
    return list(tenants_for(actor).values_list("pk", flat=True))


def named_for(actor: Actor, most: int) -> list[tuple[str, str]]:
    """Slugs and names of the first tenants an actor sees, by slug, at most so many."""
    if _is_usual(actor):
        return _named(most)(actor.user_id)
    return list(tenants_for(actor).order_by("slug").values_list("slug", "name")[:most])


def first_for(actor: Actor, most: int) -> list[Tenant]:
    """The first tenants an actor sees, by slug, at most so many; with department and cluster."""
    if _is_usual(actor):
        return _first(most)(actor.user_id)
    return list(tenants_for(actor).order_by("slug")[:most])


def led_by(actor: Actor) -> QuerySet[Tenant]:
    """The tenants that the actor leads, by slug."""
    leads = Q(memberships__user=actor.user_id, memberships__role=Role.LEAD)
    return tenants_for(actor).filter(leads).order_by("slug")


def sees(actor: Actor, tenant: Tenant) -> bool:
    """Whether the actor sees the tenant, which was read just now: whether it is among `tenants_for`."""
    if actor.watches_tenants:
        return tenant.deleted_at is None and actor.reaches(tenant.slug)
    seen = seen_by(actor)
    return tenant.pk in seen if isinstance(seen, list) else seen.filter(pk=tenant.pk).exists()


def departments_for(actor: Actor) -> QuerySet[Department]:
    """The departments of the tenants an actor sees; platform, auditors and managers also see empty ones."""
    found = Department.objects.filter(deleted_at=None).select_related("cluster").prefetch_related(_MANAGERS)
    if actor.sees_everything:
        return found
    seen = Q(pk__in=tenants_for(actor).values("department"))
    if actor.tenants is None:
        seen |= Q(pk__in=managed_by(actor))
    return found.filter(seen)


def managed_by(actor: Actor) -> frozenset[UUID]:
    """The departments that the actor manages."""
    if actor.user_id is None:
        return frozenset()
    user = actor.user_id
    return request_cache.memo(("managed", user), lambda: frozenset(_MANAGED(user)))


_MANAGED = Prepared(
    lambda user: DepartmentManager.objects.filter(user=user, department__deleted_at=None).values_list(
        "department", flat=True
    ),
    UUIDField(),
)


def managers_of(department: Department) -> list[str]:
    """Usernames, in order."""
    return sorted(manager.user.username for manager in department.managers.all())


def tenant_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Tenant:
    """The tenant with that slug or id, if the actor sees it; raises NotFound. `lock` keeps others from
    writing it.
    """
    which = slug_or_id(key)
    if _is_usual(actor) and which == Q(slug=str(key)):
        tenant: Tenant | None = (_BELONGING_LOCKED if lock else _BELONGING).first(actor.user_id, str(key))
        if tenant is not None:
            role = tenant.role_of_asker  # type: ignore[attr-defined]
            request_cache.memo(("role", tenant.pk, actor.user_id), lambda: role)
    else:
        found = tenants_for(actor).filter(which)
        tenant = (found.select_for_update(of=("self",)) if lock else found).first()
    if tenant is None:
        raise NotFound
    return tenant


def _is_usual(actor: Actor) -> bool:
    """A person whose view nothing widens or cuts: for these the queries are prepared."""
    return actor.user_id is not None and actor.tenants is None and not actor.watches_tenants


_SEEN = Prepared(
    lambda user: Tenant.objects.filter(_belonging_to(user), deleted_at=None).values_list("pk", flat=True),
    UUIDField(),
)


@cache
def _named(most: int) -> Prepared[tuple[str, str]]:
    return Prepared(
        lambda user: (
            Tenant.objects.filter(_belonging_to(user), deleted_at=None)
            .order_by("slug")
            .values_list("slug", "name")[:most]
        ),
        UUIDField(),
    )


@cache
def _first(most: int) -> Prepared[Tenant]:
    return Prepared(
        lambda user: _living().filter(_belonging_to(user)).order_by("slug")[:most],
        UUIDField(),
    )


def _belonging(user: Any, slug: Any) -> QuerySet[Any]:
    """With the queue, and the role of the one who asks."""
    role = Membership.objects.filter(tenant=OuterRef("pk"), user=user).values("role")
    named = _living().select_related("queue").filter(_belonging_to(user), slug=slug)
    return named.annotate(role_of_asker=Subquery(role))


_BELONGING = Prepared(_belonging, UUIDField(), CharField())
_BELONGING_LOCKED = Prepared(
    lambda user, slug: _belonging(user, slug).select_for_update(of=("self",)), UUIDField(), CharField()
)
_NEIGHBOURS = Prepared(lambda user: _in_departments_of(_living().filter(_belonging_to(user))), UUIDField())


def department_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Department:
    """The department with that slug or id, if the actor sees it; raises NotFound. `lock` as for tenants."""
    return one(departments_for(actor).filter(slug_or_id(key)), lock=lock)


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    """The members with their people, by username."""
    return Membership.objects.filter(tenant=tenant).select_related("user").order_by("user__username")


def people_of(tenant: Tenant) -> QuerySet[Membership]:
    """The members that are people, by username; service accounts are listed by themselves."""
    return members_of(tenant).filter(user__is_service=False)


def role_of(actor: Actor, tenant: Tenant) -> Role | None:
    """The actor's role in the tenant, None for everybody who is no member or whose credential excludes the
    tenant.
    """
    if actor.user_id is None or not actor.reaches(tenant.slug):
        return None
    user = actor.user_id
    role = request_cache.memo(("role", tenant.pk, user), lambda: _ROLE.first(tenant.pk, user))
    return None if role is None else Role(role)


_ROLE = Prepared(
    lambda tenant, user: Membership.objects.filter(tenant=tenant, user=user).values_list("role", flat=True),
    UUIDField(),
    UUIDField(),
)


def lineage(department: Department) -> list[UUID]:
    """A department and those above it, by id."""
    found: list[UUID] = []
    above: Department | None = department
    while above is not None and above.pk not in found:
        found.append(above.pk)
        above = above.parent
    return found


def below(department: UUID) -> list[UUID]:
    """A department and all below it, by id."""
    found, layer = [department], [department]
    while layer:
        rows = Department.objects.filter(parent__in=layer).exclude(pk__in=found)
        layer = list(rows.values_list("pk", flat=True))
        found += layer
    return found


def dependents_of(tenant: Tenant) -> dict[str, int]:
    """How many rows of which kind still live in the tenant, such as {"workload": 3}.

    Rule: a row of a higher app that lives in the cluster protects its tenant by `on_delete=PROTECT`; it
    counts until nothing of it is left there. So no higher app has to be known here.
    """
    counts = {}
    for relation in Tenant._meta.related_objects:
        model = relation.related_model
        if relation.on_delete is PROTECT and isinstance(model, type) and issubclass(model, Reconciled):
            alive = model._default_manager.filter(**{relation.field.name: tenant}, deleted_at=None).count()
            counts[str(model._meta.verbose_name)] = alive
    return {name: count for name, count in counts.items() if count}


def account_name(tenant: Tenant, user_id: UUID) -> str:
    """The service account of a member: made of ids alone, so that no renaming ever changes it."""
    return names.object_name("member", uuid5(tenant.pk, str(user_id)))


def tenant_spec(tenant: Tenant) -> TenantSpec:
    """All that the tenant's manifests depend on. Members with a virtual cluster get accounts inside it."""
    return TenantSpec(
        id=str(tenant.pk), slug=tenant.slug, object_name=tenant.object_name,
        cohort=tenant.department.object_name, generation=tenant.generation,
        suspend=suspension_of(tenant), egress=egress_of(tenant),
        syncer=vcluster.syncer(tenant.object_name) if tenant.isolation == Isolation.VCLUSTER else "",
        members=() if tenant.isolation == Isolation.VCLUSTER else accounts_of(tenant),
        shells=accounts_of(tenant) if shell_fence.allows(tenant) else (),
    )  # fmt: skip


def accounts_of(tenant: Tenant) -> tuple[MemberSpec, ...]:
    """Who has an account in the tenant's cluster, or inside its virtual one: nobody of an archived tenant."""
    if tenant.archived_at is not None:
        return ()
    members = members_of(tenant).filter(user__is_active=True)
    return tuple(MemberSpec(account_name(tenant, m.user_id), Role(m.role)) for m in members)


def suspension_of(tenant: Tenant) -> Suspend:
    """What its queue does: a tenant on its way out starts nothing new; one that is archived, or whose virtual
    cluster sleeps, runs nothing.
    """
    if tenant.deleting_at is not None:
        return Suspend.HOLD
    virtual = vcluster_of(tenant)
    rests = tenant.archived_at is not None or (virtual is not None and virtual.asleep)
    return Suspend.DRAIN if rests else Suspend(tenant.suspend)


def egress_of(tenant: Tenant) -> Egress:
    """Where the tenant's pods may connect to."""
    return Egress(EgressMode(tenant.egress), egress.parse(tenant.egress_allow))


def department_spec(department: Department) -> DepartmentSpec:
    """All that the department's manifest depends on."""
    return DepartmentSpec(
        id=str(department.pk),
        object_name=department.object_name,
        generation=department.generation,
        parent=department.parent.object_name if department.parent else "",
        fair_weight=department.fair_weight,
        bounds=tuple(Bound(**bound) for bound in department.bounds),
    )


def vcluster_of(tenant: Tenant) -> VClusterSpec | None:
    """The tenant's virtual cluster as it should be, asleep while archived; None for every other isolation."""
    if tenant.isolation != Isolation.VCLUSTER:
        return None
    spec, _ = vcluster.parse(tenant.vcluster)
    return spec if tenant.archived_at is None else replace(spec, asleep=True)


def vcluster_standing(tenant: Tenant) -> vcluster.Standing | None:
    """Where its virtual cluster stands, by the mirrored release; None for every other isolation."""
    spec = vcluster_of(tenant)
    if spec is None:
        return None
    rows = MirrorObject.objects.filter(
        cluster=tenant.cluster_id, kind="HelmRelease", namespace=tenant.object_name, gone_at=None
    )
    return vcluster.standing(rows.values_list("body", flat=True).first(), spec)


def nodes_of(tenant: Tenant) -> QuerySet[NodeAssignment]:
    """The nodes that a tenant has, or is about to have; not those being given back."""
    return NodeAssignment.objects.filter(tenant=tenant, deleted_at=None, deleting_at=None).order_by("node")


def pods_of(tenant: Tenant) -> int:
    """How many pods are in the tenant's namespace, as the mirror has it."""
    rows = MirrorObject.objects.filter(cluster=tenant.cluster_id, kind="Pod", gone_at=None)
    return rows.filter(namespace=tenant.object_name).count()


@dataclass(frozen=True)
class Fence:
    """How a tenant is isolated, as pages show it; `nodes` are those that serve it alone."""

    sentence: str
    has_nodes: bool
    nodes: tuple[NodeAssignment, ...]
    virtual: vcluster.Standing | None
    shut: str = ""
    """Why members have no way into the virtual cluster, where that is known."""
    no_shell: str = ""
    """Why nobody has a shell in the tenant's workloads, whatever its policy says."""


def fence_of(tenant: Tenant) -> Fence:
    """What the partial `team/members/isolation_facts.html` reads as `fence`."""
    isolation = Isolation(tenant.isolation)
    has_nodes = isolation is Isolation.DEDICATED_NODES
    nodes_there = tuple(nodes_of(tenant)) if has_nodes else ()
    access = find(tenant.conditions, ACCESS)
    shut = access["message"] if access is not None and access["status"] != "True" else ""
    standing, no_shell = vcluster_standing(tenant), shell_fence.lacks(tenant)
    return Fence(isolation.sentence, has_nodes, nodes_there, standing, shut, no_shell)
