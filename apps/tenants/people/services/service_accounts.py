"""Accounts for automation: one role in one tenant each, acting by tokens that people make for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from apps.accounts import policies as accounts_policies
from apps.accounts import services as accounts
from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import tokens_of
from apps.accounts.services import TokenWish
from apps.accounts.specs import Actor, PlatformRole
from apps.audit import services as audit
from apps.errors import AlreadyExists, FieldProblem, Invalid
from apps.tenants import policies
from apps.tenants.isolation import slugs
from apps.tenants.lifecycle.services import display_names, tenancy
from apps.tenants.models import Membership, ServiceAccount, Tenant
from apps.tenants.specs import Role
from apps.web.requests.lookups import by_id
from apps.web.streams import events


@dataclass(frozen=True)
class AccountWish:
    """A service account to be made; `tenant` None: a role over the installation."""

    tenant: Tenant | None
    slug: str
    name: str
    role: str


@transaction.atomic
def create_account(*, actor: Actor, wish: AccountWish, now: datetime) -> ServiceAccount:
    """A new account without any token.

    Rule: see `tenants.services.require_lead`; without a tenant `accounts.policies.require_whole`. The slug
    is unique in the tenant. In the tenant it counts as a member of its role, also in the cluster.
    """
    _require_giver(actor, wish.tenant)
    role = role_of(wish.role, wish.tenant)
    slug = wish.slug or slugs.slug_for(wish.name, lambda _: False)
    problem = slugs.problem_of(slug)
    if problem:
        raise Invalid([problem])
    display_names.require_unlike(wish.name, ServiceAccount.objects.filter(tenant=wish.tenant))
    tenant = tenancy.locked(wish.tenant) if wish.tenant else None
    if tenant is not None:
        tenancy.require_live(tenant)
    user = _user(f"{tenant.slug if tenant else 'platform'}.{slug}", wish.name or slug, role)
    row = ServiceAccount.objects.create(
        id=uuid4(), tenant=tenant, user=user, slug=slug, name=wish.name or slug, created_by=actor.username
    )
    _join(row, role)
    audit.record(actor, "service-account.create", row, now=now, changes={"role": [None, str(role)]})
    return row


@transaction.atomic
def update_account(
    *, actor: Actor, account: ServiceAccount, name: str, role: str, now: datetime
) -> ServiceAccount:
    """Another name or role; the same again changes nothing. Rule: as making it."""
    _require_giver(actor, account.tenant)
    row = (
        ServiceAccount.objects.select_for_update(of=("self",))
        .select_related("user", "tenant")
        .get(pk=account.pk)
    )
    wanted, before = role_of(role, row.tenant), (row.name, current_role(row))
    if before == (name or row.slug, str(wanted)):
        return row
    if name != before[0]:
        others = ServiceAccount.objects.filter(tenant=row.tenant).exclude(pk=row.pk)
        display_names.require_unlike(name, others)
    row.name = row.user.display_name = name or row.slug
    row.user.platform_role = "" if row.tenant else str(wanted)
    row.user.save(update_fields=["display_name", "platform_role"])
    row.generation += 1
    row.save(update_fields=["name", "generation", "updated_at"])
    _join(row, wanted)
    events.access_changed(row.user_id)
    changes = {"role": [before[1], str(wanted)], "name": [before[0], row.name]}
    audit.record(actor, "service-account.update", row, now=now, changes=changes)
    return row


@transaction.atomic
def delete_account(*, actor: Actor, account: ServiceAccount, now: datetime) -> None:
    """Ends the account and all its tokens at once. Rule: as making it. What it runs stays the tenant's.

    The user row stays, closed: the records name it.
    """
    _require_giver(actor, account.tenant)
    tenant = tenancy.locked(account.tenant) if account.tenant else None
    user, target = account.user, account.audit_target
    ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
    Membership.objects.filter(user=user).delete()
    user.is_active, user.username = False, f"{user.username}~{str(account.pk)[:8]}"
    user.platform_role = ""
    user.save(update_fields=["is_active", "username", "platform_role"])
    events.access_changed(user.pk)
    account.delete()
    if tenant is not None:
        tenancy.touch(tenant)
    audit.record(actor, "service-account.delete", target, now=now)


def create_token(
    *, actor: Actor, account: ServiceAccount, wish: TokenWish, now: datetime
) -> tuple[ApiToken, str]:
    """A token of the account; its text is answered once. Rule: as making the account, and never further than
    the account's tenant.
    """
    require_keeper(actor, account.tenant)
    cut: Sequence[str] = [account.tenant.slug] if account.tenant else wish.tenants
    return accounts.make_token(actor=actor, wish=replace(wish, tenants=cut), now=now, owner=account.user)


def revoke_token(*, actor: Actor, account: ServiceAccount, token: ApiToken, now: datetime) -> None:
    """Ends one token of the account at once. Rule: as making it."""
    require_keeper(actor, account.tenant)
    accounts.end_token(actor=actor, token=token, now=now)


def tokens_for(account: ServiceAccount) -> QuerySet[ApiToken]:
    """The account's live tokens."""
    return tokens_of(account.user)


def current_role(account: ServiceAccount) -> str:
    """Its role in its tenant, or over the installation."""
    if account.tenant is None:
        return account.user.platform_role
    role = Membership.objects.filter(tenant=account.tenant, user=account.user).values_list("role", flat=True)
    return role.first() or ""


def require_keeper(actor: Actor, tenant: Tenant | None) -> None:
    """Rule: who decides on the tenant's members; without a tenant platform engineers. Raises NotAllowed."""
    if tenant is None:
        accounts_policies.require_platform(actor)
    else:
        tenancy.require_lead(actor, tenant)


def _require_giver(actor: Actor, tenant: Tenant | None) -> None:
    require_keeper(actor, tenant)
    if tenant is None:
        accounts_policies.require_whole(actor)


def role_of(text: str, tenant: Tenant | None) -> Role | PlatformRole:
    """The role that a word means there; raises Invalid."""
    kind: type[Role | PlatformRole] = PlatformRole if tenant is None else Role
    try:
        return kind(text)
    except ValueError:
        words = f"{'In a tenant' if tenant else 'Without a tenant'}: {', '.join(kind)}."
        raise Invalid([FieldProblem("/spec/role", "invalid_value", words)]) from None


def accounts_for(actor: Actor) -> QuerySet[ServiceAccount]:
    """Those that the actor may see: of tenants whose members it decides on; all for platform and auditors."""
    found = ServiceAccount.objects.select_related("tenant", "user")
    if actor.sees_everything:
        return found
    return found.filter(tenant__in=policies.kept_tenants(actor))


def account_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> ServiceAccount:
    """One account by id, if the actor may see it; raises NotFound."""
    return by_id(accounts_for(actor), key, lock=lock)


def _user(username: str, name: str, role: Role | PlatformRole) -> User:
    accounts.require_unlike(username)
    try:
        with transaction.atomic():
            return User.objects.create_user(
                username,
                password=None,
                display_name=name,
                is_service=True,
                platform_role=str(role) if isinstance(role, PlatformRole) else "",
            )
    except IntegrityError:
        raise AlreadyExists(f"There already is an account {username}.") from None


def _join(row: ServiceAccount, role: Role | PlatformRole) -> None:
    if row.tenant is None:
        return
    Membership.objects.update_or_create(tenant=row.tenant, user=row.user, defaults={"role": role})
    tenancy.touch(tenancy.locked(row.tenant))
