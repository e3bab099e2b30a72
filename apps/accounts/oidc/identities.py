"""The person behind an identity that a provider brought: found, made at the first sign-in, or connected."""

from datetime import datetime

from django.db import IntegrityError, transaction

from apps.accounts import services
from apps.accounts.models import ExternalIdentity, User
from apps.accounts.oidc.client import Identity, SignInRefused
from apps.accounts.oidc.flows import Brought
from apps.accounts.oidc.providers import Provider
from apps.accounts.second_factor import factors
from apps.accounts.selectors import free_username, person_by_mail
from apps.accounts.specs import Actor, system_actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict

SIGN_IN = system_actor("sign-in")
"""Who makes people; `system:sign-in` in the audit record."""
MAIL_TAKEN = (
    "Another account here has your e-mail {} already, so this one is without it. If that account is yours"
    " too, ask a platform engineer to disable this one; then sign in to that one and connect this way in"
    " there."
)
"""To somebody who signs in for the first time."""


@transaction.atomic
def person_of(brought: Brought, *, now: datetime) -> User:
    """Whose identity it is; a new person without any right where it is nobody's yet.

    Rule: issuer and subject alone say who it is. The same e-mail or username as somebody's means nothing.
    Raises SignInRefused for a closed account.
    """
    identity = brought.identity
    known = _locked(identity) or _first(brought, now)
    if not known.user.is_active:
        raise SignInRefused(
            f"The account {known.user.username} is closed.",
            hint="A platform engineer can enable it again.",
        )
    known.groups, known.used_at, known.provider = list(identity.groups), now, brought.provider.slug
    known.save(update_fields=["groups", "used_at", "provider"])
    return known.user


@transaction.atomic
def connect(brought: Brought, *, user: User, now: datetime) -> None:
    """From now on this identity signs the person in too; again changes nothing. Raises Conflict for one that
    is somebody else's.

    Rule: one that was used to come in before it was connected made an account without rights; once that is
    closed, it is its person's to connect.
    """
    taken = Conflict(
        f"This account of {brought.provider.name} signs in somebody else here.",
        hint="Sign out there, and connect your own. If that account here is yours, which has no right, ask a"
        " platform engineer to disable it first.",
    )
    known = _locked(brought.identity)
    if known is not None and known.user_id != user.pk:
        if not _is_given_up(known.user):
            raise taken
        known.delete()
        known = None
    if known is None:
        who = Actor(username=user.username, user_id=user.pk)
        try:
            with transaction.atomic():
                _add(brought.provider, brought.identity, user, now)
        except IntegrityError:
            raise taken from None
        told = {"provider": [None, brought.provider.slug], "subject": [None, brought.identity.subject]}
        audit.record(who, "user.connect", user, now=now, changes=told)
        factors.tell(user, f"{brought.provider.name} signs you in from now on.", now)


def _is_given_up(user: User) -> bool:
    rights = user.platform_role or user.memberships.exists() or user.managed_departments.exists()
    return not user.is_active and not rights


def _first(brought: Brought, now: datetime) -> ExternalIdentity:
    """Of two first answers at once for one person, one makes it and the other finds it."""
    try:
        with transaction.atomic():
            return _add(brought.provider, brought.identity, _made(brought.identity, now), now)
    except (IntegrityError, AlreadyExists):
        known = _locked(brought.identity)
        if known is None:  # another person took the name just now
            words = f"Somebody else called {brought.identity.username[:60]} came in at the same moment."
            raise SignInRefused(words) from None
        return known


def _locked(identity: Identity) -> ExternalIdentity | None:
    rows = ExternalIdentity.objects.select_for_update(of=("self",)).select_related("user")
    return rows.filter(issuer=identity.issuer, subject=identity.subject).first()


def _add(provider: Provider, identity: Identity, user: User, now: datetime) -> ExternalIdentity:
    return ExternalIdentity.objects.create(
        user=user,
        provider=provider.slug,
        issuer=identity.issuer,
        subject=identity.subject,
        groups=list(identity.groups),
        created_at=now,
        used_at=now,
    )


def _made(identity: Identity, now: datetime) -> User:
    user = services.create_user(
        actor=SIGN_IN,
        username=free_username(identity.username),
        display_name=identity.name[:120],
        password=None,
        platform_role="",
        now=now,
    )
    if person_by_mail(identity.email) is not None:
        # Nobody is locked out over it, and no e-mail means two people.
        factors.tell(user, MAIL_TAKEN.format(identity.email), now)
    elif identity.email:
        user.email = identity.email
        user.save(update_fields=["email"])
    return user
