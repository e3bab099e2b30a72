"""What people do with departments, tenants and members: intent alone, the reconcile reaches the cluster."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.accounts.specs import Actor, ScopeGroup
from apps.audit import services as audit
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.cluster.reconciling.services import wake
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.tenants import policies, selectors
from apps.tenants.isolation import egress, slugs
from apps.tenants.lifecycle.services import display_names
from apps.tenants.models import Department, DepartmentManager, Membership, RuleGrant, Tenant
from apps.tenants.specs import ASK_A_LEAD, Egress, RightKind, Role, Suspend, TrustLevel
from apps.web.problems.refusals import InsufficientScope
from apps.web.streams import events

Row = TypeVar("Row", Department, Tenant)
_TAKEN = "The slug {} is or was taken: slugs are never reused."


@dataclass(frozen=True)
class TenantChange:
    """What to change of a tenant; None leaves a field as it is."""

    name: str | None = None
    trust_level: TrustLevel | None = None
    suspend: Suspend | None = None
    egress: Egress | None = None
    has_shell: bool | None = None


@transaction.atomic
def create_department(
    *, actor: Actor, slug: str, name: str, cluster: Cluster, managers: Collection[str] = (), now: datetime
) -> Department:
    """A new department with its managers. Rule: platform engineers only; an empty slug is made of the name;
    slugs are never reused.
    """
    require_department_keeper(actor)
    display_names.require_unlike(name, Department.objects.all())
    slug = _new_slug(Department, slug, name)
    row_id = uuid4()
    object_name = names.object_name(slug, row_id)
    department = _inserted(
        Department(id=row_id, slug=slug, name=name or slug, cluster=cluster, object_name=object_name)
    )
    audit.record(actor, "department.create", department, now=now, changes={"name": [None, department.name]})
    wake.hint("department", str(department.pk))
    set_managers(actor=actor, department=department, usernames=managers, now=now)
    return department


@transaction.atomic
def update_department(
    *, actor: Actor, department: Department, name: str, managers: Collection[str], now: datetime
) -> None:
    """Another name and exactly these managers. Rule: see `rename_department` and `set_managers`."""
    rename_department(actor=actor, department=department, name=name, now=now)
    set_managers(actor=actor, department=department, usernames=managers, now=now)


@transaction.atomic
def rename_department(*, actor: Actor, department: Department, name: str, now: datetime) -> Department:
    """Another display name; slug and Cohort stay. The same name changes nothing. Platform engineers only."""
    require_department_keeper(actor)
    row = Department.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=department.pk)
    before, row.name = row.name, name or row.slug
    if before != row.name:
        display_names.require_unlike(row.name, Department.objects.exclude(pk=row.pk))
        row.generation += 1
        row.save(update_fields=["name", "generation", "updated_at"])
        audit.record(actor, "department.update", row, now=now, changes={"name": [before, row.name]})
        wake.hint("department", str(row.pk))
    return row


@transaction.atomic
def set_managers(*, actor: Actor, department: Department, usernames: Collection[str], now: datetime) -> None:
    """Exactly these people manage the department from now on; the same again changes nothing.

    Rule: platform engineers only, with a token that reaches people. An unknown, inactive or service account
    is a wrong field.
    """
    require_department_keeper(actor)
    row = Department.objects.select_for_update(of=("self",)).get(pk=department.pk)
    before = set(row.managers.values_list("user__username", flat=True))
    if before == set(usernames):
        return
    if not actor.may_use(ScopeGroup.PEOPLE, "write"):
        raise InsufficientScope(f"Naming managers needs a token with the scope {ScopeGroup.PEOPLE}:write.")
    people = User.objects.filter(username__in=usernames, is_active=True, is_service=False)
    found = {person.username: person for person in people}
    _require_known(usernames, found)
    by_hand(RightKind.DEPARTMENT, row.slug, [person.pk for person in found.values()])
    for gone in row.managers.exclude(user__username__in=found).select_related("user"):
        gone.delete()
        events.access_changed(gone.user_id)
    for username in set(found) - before:
        DepartmentManager.objects.create(department=row, user=found[username])
    row.generation += 1
    row.save(update_fields=["generation", "updated_at"])
    told = {"managers": [sorted(before), sorted(found)]}
    audit.record(actor, "department.update", row, now=now, changes=told)
    wake.hint("department", str(row.pk))


@transaction.atomic
def delete_department(*, actor: Actor, department: Department, now: datetime) -> Department:
    """Asks for the removal of an empty department; asking again changes nothing. Platform engineers only.

    Rule: refused with `has_dependents` while a tenant of it, or a department below it, is left.
    """
    require_department_keeper(actor)
    row = Department.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=department.pk)
    if row.deleting_at is not None:
        return row
    left = row.tenants.filter(deleted_at=None).count()
    if left:
        detail = f"{row.slug} still has {left} tenant{'s' if left > 1 else ''}."
        hint = "Delete them first, or move their people elsewhere."
        raise Conflict(detail, code="has_dependents", hint=hint, dependents={"tenant": left})
    if below := sorted(row.departments.filter(deleting_at=None).values_list("slug", flat=True)):
        detail = f"Departments below {row.slug}: {', '.join(below)}."
        raise Conflict(detail, code="has_dependents", hint="Move them elsewhere first.")
    row.deleting_at = now
    row.generation += 1
    row.save(update_fields=["deleting_at", "generation", "updated_at"])
    audit.record(actor, "department.delete", row, now=now)
    wake.hint("department", str(row.pk))
    return row


@transaction.atomic
def create_tenant(
    *, actor: Actor, slug: str, name: str, department: Department, trust_level: TrustLevel, now: datetime
) -> Tenant:
    """A new tenant in a department, on the department's cluster: the first step of `making.create_tenant`.

    Rule: platform engineers, and the department's managers with standard trust; an empty slug is made of
    the name; slugs are never reused, not even after deletion.
    """
    require_maker(actor, department, trust_level)
    display_names.require_unlike(name, Tenant.objects.filter(deleted_at=None))
    slug = _new_slug(Tenant, slug, name)
    row_id = uuid4()
    _require_open(department)
    tenant = _inserted(
        Tenant(
            id=row_id,
            slug=slug,
            name=name or slug,
            department=department,
            cluster=department.cluster,
            trust_level=trust_level,
            object_name=names.object_name(slug, row_id),
            created_by=actor.username,
        )
    )
    first = {"department": [None, department.slug], "trust_level": [None, str(trust_level)]}
    audit.record(actor, "tenant.create", tenant, now=now, changes=first)
    wake.hint("tenant", str(tenant.pk))
    return tenant


@transaction.atomic
def update_tenant(*, actor: Actor, tenant: Tenant, change: TenantChange, now: datetime) -> Tenant:
    """Changes name, trust level, suspension, egress or shell access; nothing changed is no new generation and
    no event.

    Rule: managers of the department and platform engineers; trust level, egress and shell access are the
    latter's alone. A lower trust level leaves running work alone and decides on the next request. What is
    archived or about to be deleted is brought back first.
    """
    require_administrator(actor, tenant)
    row = locked(tenant)
    wanted = _columns(change)
    changes = {f: [getattr(row, f), v] for f, v in wanted.items() if getattr(row, f) != v}
    if not changes:
        return row
    _require_platform_for(actor, row, changes)
    if "name" in changes:
        others = Tenant.objects.filter(deleted_at=None).exclude(pk=row.pk)
        display_names.require_unlike(wanted["name"], others)
    require_live(row)
    for field, (_, value) in changes.items():
        setattr(row, field, value)
    touch(row, *changes)
    audit.record(actor, "tenant.update", row, now=now, changes=changes)
    return row


@transaction.atomic
def set_member(*, actor: Actor, tenant: Tenant, username: str, role: Role, now: datetime) -> Membership:
    """Makes somebody a member, or gives a member another role; the same again changes nothing.

    Rule: see `require_lead`. An unknown or inactive person is a wrong field; service accounts are no members.
    """
    require_lead(actor, tenant)
    row = locked(tenant)
    require_live(row)
    user = User.objects.filter(username=username, is_active=True, is_service=False).first()
    if user is None:
        raise Invalid([FieldProblem("/username", "reference_not_found", f"There is no user {username}.")])
    before = Membership.objects.filter(tenant=row, user=user).values_list("role", flat=True).first()
    by_hand(RightKind.TENANT, row.slug, [user.pk])
    member, _ = Membership.objects.update_or_create(tenant=row, user=user, defaults={"role": role})
    if before != role:
        touch(row)
        events.access_changed(user.pk)
        audit.record(actor, "member.set", row, now=now, changes={username: [before, str(role)]})
    return member


@transaction.atomic
def remove_member(*, actor: Actor, tenant: Tenant, username: str, now: datetime) -> None:
    """Ends a membership; its binding and account go with the next reconcile. Raises NotFound for no member.

    Rule: see `require_lead`, and everybody for themselves. Workloads stay the tenant's.
    """
    if actor.username != username:
        require_lead(actor, tenant)
    row = locked(tenant)
    members = Membership.objects.filter(tenant=row, user__username=username, user__is_service=False)
    member = members.first()
    if member is None:
        raise NotFound
    before, user_id = member.role, member.user_id
    by_hand(RightKind.TENANT, row.slug, [user_id])
    member.delete()
    touch(row)
    events.access_changed(user_id)
    audit.record(actor, "member.remove", row, now=now, changes={username: [before, None]})


def by_hand(kind: RightKind, target: str, users: Collection[UUID]) -> None:
    """From now on these rights are as people left them: no rule on groups takes them back."""
    RuleGrant.objects.filter(kind=kind, target=target, user__in=users).delete()


def require_administrator(actor: Actor, tenant: Tenant) -> None:
    """Rule: managers of the department and platform engineers change and delete tenants.

    Raises NotAllowed.
    """
    if not policies.can_administer(actor, tenant):
        words = "Only a platform engineer or a manager of its department changes or deletes a tenant."
        raise NotAllowed(words)


def require_department_keeper(actor: Actor) -> None:
    """Rule: platform engineers make, rename and delete departments; raises NotAllowed."""
    if not policies.can_manage_tenants(actor):
        raise NotAllowed("Only a platform engineer makes and changes departments.")


def require_maker(
    actor: Actor, department: Department | None = None, trust_level: TrustLevel = TrustLevel.STANDARD
) -> None:
    """Rule: platform engineers make tenants, managers make those of standard trust in their department;
    raises NotAllowed. Without a department: whether there is any in which the actor makes one.
    """
    if policies.can_manage_tenants(actor):
        return
    if not policies.may_make_tenants(actor):
        raise NotAllowed("Only a platform engineer or a department's manager makes tenants.")
    if department is not None and not policies.can_make_tenant_in(actor, department):
        raise NotAllowed(f"Only a platform engineer or a manager of {department.slug} makes tenants there.")
    if trust_level is not TrustLevel.STANDARD:
        raise NotAllowed("Only a platform engineer sets a trust level other than standard.")


def require_lead(actor: Actor, tenant: Tenant) -> None:
    """Rule: leads of the tenant, managers of its department and platform engineers decide on members and
    service accounts; raises NotAllowed.
    """
    if not policies.can_decide_on_members(actor, tenant):
        who = f"a lead of {tenant.slug}, a manager of its department"
        raise NotAllowed(f"Only {who} or a platform engineer may do this.")


def require_change(actor: Actor, tenant: Tenant, change: TenantChange | None) -> None:
    """Refuses a change that `update_tenant` would refuse, before its effect is shown. Raises NotAllowed."""
    require_administrator(actor, tenant)
    if change is not None:
        _require_platform_for(actor, tenant, _columns(change))


def require_member(actor: Actor, tenant: Tenant) -> None:
    """Rule: only members have an account in the cluster; raises NotAllowed."""
    if selectors.role_of(actor, tenant) is None:
        words = f"Only members of {tenant.slug} have an account in its cluster."
        raise NotAllowed(words, hint=ASK_A_LEAD)


def require_reader_of_removal(actor: Actor, tenant: Tenant) -> None:
    """Rule: who may ask for a deletion, and auditors, see what it would take; raises NotAllowed."""
    if not actor.watches_tenants:
        require_administrator(actor, tenant)


@transaction.atomic
def record_kubeconfig(*, actor: Actor, tenant: Tenant, expires_at: datetime, now: datetime) -> None:
    """Keeps that somebody took a kubeconfig with a token in it away."""
    ends = {"expires_at": [None, expires_at]}
    audit.record(actor, "kubeconfig.issue", tenant, now=now, changes=ends)


def require_live(tenant: Tenant) -> None:
    """Raises Conflict for a tenant that is archived, or on its way out."""
    if tenant.deleting_at is not None:
        raise Conflict(f"{tenant.slug} is being deleted.", hint="Use another tenant.")
    if tenant.archived_at is not None:
        raise Conflict(f"{tenant.slug} is archived.", hint="Unarchive it first.")


def _require_open(department: Department) -> None:
    # Locked, so that nobody deletes it as empty in this moment.
    row = Department.objects.select_for_update(of=("self",)).get(pk=department.pk)
    if row.deleting_at is not None:
        raise Conflict(f"{row.slug} is being deleted.", hint="Choose another department.")


def _columns(change: TenantChange) -> dict[str, Any]:
    """The columns that a change asks for."""
    wanted: dict[str, Any] = {
        "name": change.name,
        "trust_level": change.trust_level,
        "suspend": change.suspend,
        "has_shell": change.has_shell,
    }
    if change.egress is not None:
        wanted |= {"egress": change.egress.mode, "egress_allow": egress.as_json(change.egress.allow)}
    return {column: value for column, value in wanted.items() if value is not None}


def _require_platform_for(actor: Actor, tenant: Tenant, changed: Mapping[str, Any]) -> None:
    reserved = sorted({"trust_level", "egress", "egress_allow", "has_shell"} & set(changed))
    if reserved and not policies.can_manage_tenant(actor, tenant):
        raise NotAllowed(f"Only a platform engineer sets {', '.join(reserved)}.")


def _require_known(usernames: Collection[str], found: Mapping[str, User]) -> None:
    wrong = [
        FieldProblem(f"/spec/managers/{place}", "reference_not_found", f"There is no user {username}.")
        for place, username in enumerate(usernames)
        if username not in found
    ]
    if wrong:
        raise Invalid(wrong)


def _new_slug(model: type[Department] | type[Tenant], slug: str, name: str) -> str:
    def is_taken(candidate: str) -> bool:
        return model._default_manager.filter(slug=candidate).exists()

    if not slug:
        return slugs.slug_for(name, is_taken)
    problem = slugs.problem_of(slug)
    if problem:
        raise Invalid([problem])
    if is_taken(slug):
        raise AlreadyExists(_TAKEN.format(slug))
    return slug


def _inserted(row: Row) -> Row:
    # Two at once may both have found the slug free: the database decides.
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise AlreadyExists(_TAKEN.format(row.slug)) from None
    return row


def locked(tenant: Tenant) -> Tenant:
    """The row as it is now, kept from other writers until the transaction ends."""
    found = Tenant.objects.select_for_update(of=("self",)).select_related("department", "cluster")
    return found.get(pk=tenant.pk)


def touch(tenant: Tenant, *fields: str) -> None:
    """Saves the named columns under a new generation and wakes what brings it to the cluster.

    The generation moves with every change, members too: a reconcile that began before cannot hide it.
    """
    tenant.generation += 1
    tenant.save(update_fields=[*fields, "generation", "updated_at"])
    wake.hint("tenant", str(tenant.pk))
    wake.hint("queue", str(tenant.pk))
