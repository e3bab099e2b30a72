"""Coming in by an organisation's sign-in: the person, and the rights that the rules give for their groups."""

from datetime import datetime

from django.db import transaction

from apps.accounts import people
from apps.accounts.models import User
from apps.accounts.oidc import identities
from apps.accounts.oidc.flows import Brought
from apps.accounts.specs import system_actor
from apps.audit import services as audit
from apps.cluster.reconciling.services import wake
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Department, DepartmentManager, RuleGrant, Tenant
from apps.tenants.people.rules.group_rights import Gift, Outcome
from apps.tenants.people.selectors import group_rules
from apps.tenants.people.services import inviting
from apps.tenants.specs import RightKind, Role
from apps.web.streams import events

RULES = system_actor("group-rules")
"""Who gives and takes; `system:group-rules` in the audit record."""


@transaction.atomic
def arrive(brought: Brought, *, now: datetime) -> User:
    """The person that a provider brought, in the tenants that invited the address that the provider has
    verified, and with the rights that the rules give today. Raises SignInRefused.
    """
    identity = brought.identity
    person = identities.person_of(brought, now=now)
    if identity.is_mail_verified:
        # Before the rules: what they take back falls to this, as to every right that people gave.
        inviting.arrive(person, email=identity.email, now=now)
    apply(person, provider=brought.provider.slug, groups=identity.groups, now=now)
    return User.objects.get(pk=person.pk)


@transaction.atomic
def connect(brought: Brought, *, user: User, now: datetime) -> None:
    """A further way in for somebody who is signed in; the rules count from the next sign-in with it on."""
    identities.connect(brought, user=user, now=now)


@transaction.atomic
def apply(user: User, *, provider: str, groups: tuple[str, ...], now: datetime) -> list[Outcome]:
    """Gives what the rules give for these groups, and takes back what they gave and give no longer.

    Rule: see `rules.group_rights`. Of tenants that take nobody (archived, about to go) nothing is changed.
    """
    person = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    found = group_rules.effect(provider, groups, person)
    for outcome in found:
        if outcome.is_change:
            _change(person, provider, outcome, now)
        _keep(person, provider, outcome, outcome.gift)
    return found


def _change(user: User, provider: str, outcome: Outcome, now: datetime) -> None:
    if outcome.kind is RightKind.PLATFORM:
        by = group_rules.makers_of(provider, outcome)
        people.set_platform_role(actor=RULES, user=user, role=outcome.after, now=now, decided_by=by)
    elif outcome.kind is RightKind.DEPARTMENT:
        _set_manager(user, outcome.target, is_manager=bool(outcome.after), now=now)
    elif outcome.after:
        tenant, role = Tenant.objects.get(slug=outcome.target), Role(outcome.after)
        tenancy.set_member(actor=RULES, tenant=tenant, username=user.username, role=role, now=now)
    else:
        tenant = Tenant.objects.get(slug=outcome.target)
        tenancy.remove_member(actor=RULES, tenant=tenant, username=user.username, now=now)


def _keep(user: User, provider: str, outcome: Outcome, gift: Gift | None) -> None:
    rows = RuleGrant.objects.filter(user=user, provider=provider, kind=outcome.kind, target=outcome.target)
    if gift is None:
        rows.delete()
    else:
        RuleGrant.objects.update_or_create(
            user=user, provider=provider, kind=outcome.kind, target=outcome.target, defaults=gift.__dict__
        )


def _set_manager(user: User, slug: str, *, is_manager: bool, now: datetime) -> None:
    """One manager more or less; who else manages the department stays as it is."""
    row = Department.objects.select_for_update(of=("self",)).get(slug=slug)
    before = sorted(row.managers.values_list("user__username", flat=True))
    if is_manager:
        DepartmentManager.objects.get_or_create(department=row, user=user)
    else:
        row.managers.filter(user=user).delete()
    row.generation += 1
    row.save(update_fields=["generation", "updated_at"])
    events.access_changed(user.pk)
    after = sorted(row.managers.values_list("user__username", flat=True))
    audit.record(RULES, "department.update", row, now=now, changes={"managers": [before, after]})
    wake.hint("department", str(row.pk))
