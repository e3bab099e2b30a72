"""Platform engineers invite people, send new links, and disable or enable accounts.

A link is shown once and works once, to choose a password. Rights in tenants are not decided here.
"""

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from apps.accounts import passwords, policies, selectors, services, sessions
from apps.accounts.models import Invitation, User
from apps.accounts.specs import DECIDED_BY, Actor, PlatformRole
from apps.accounts.tokens import digest
from apps.audit import services as audit
from apps.errors import AlreadyExists, Conflict, FieldProblem, Invalid, NotFound
from apps.web.streams import events

LINK_LIFE = timedelta(days=7)
LINK_BYTES = 32


@dataclass(frozen=True)
class PersonWish:
    """A person to be invited; `platform_role` is empty for everybody but engineers and auditors."""

    username: str
    display_name: str = ""
    email: str = ""
    platform_role: str = ""


@transaction.atomic
def invite(*, actor: Actor, wish: PersonWish, now: datetime) -> tuple[User, str]:
    """A new person without a password, and the text of the link that lets them choose one.

    Rule: platform engineers, see `policies.require_whole` for who gets a right over the installation; the
    link lives 7 days and works once; its text is returned once, never stored. For names that are alike see
    `services.require_unlike`; an e-mail is one person's, whatever its capitals.
    """
    policies.require_platform(actor)
    _check(wish)
    _require_own_mail(wish.email)
    passwords.require_open_to(wish.username)
    if wish.platform_role:
        policies.require_whole(actor)
    user = services.create_user(
        actor=actor,
        username=wish.username,
        display_name=wish.display_name,
        password=None,
        platform_role=wish.platform_role,
        now=now,
    )
    _give_mail(user, wish.email)
    return user, _link(actor, user, now)


@transaction.atomic
def invite_address(*, actor: Actor, email: str, now: datetime) -> tuple[User, str]:
    """A new person of whom nothing but the e-mail is known, with the text of a link as `invite` makes it.

    Rule: the caller has asked who may. The username is the e-mail's local part, numbered where it is taken;
    a platform role never comes with it.
    """
    _require_own_mail(email)
    username = selectors.free_username(email.rpartition("@")[0])
    passwords.require_open_to(username)
    user = services.add_user(actor=actor, username=username, now=now)
    _give_mail(user, email)
    return user, _link(actor, user, now)


@transaction.atomic
def set_platform_role(
    *, actor: Actor, user: User, role: str, now: datetime, decided_by: Collection[str] = ()
) -> None:
    """Gives a right over the installation, another one, or none; the same again changes nothing.

    Rule: see `policies.require_whole`. Open streams have their rights looked at, at once. `decided_by`: whose
    rules the system follows; they are no second persons to whom it raised (see `second_person`).
    """
    policies.require_whole(actor)
    row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    before = row.platform_role
    if before == role:
        return
    row.platform_role = user.platform_role = role
    row.save(update_fields=["platform_role"])
    events.access_changed(row.pk)
    changes: dict[str, Any] = {"platform_role": [before, role]}
    if decided_by:
        changes[DECIDED_BY] = [None, sorted(decided_by)]
    audit.record(actor, "user.update", row, now=now, changes=changes)


@transaction.atomic
def reset_password(*, actor: Actor, user: User, now: datetime) -> str:
    """Ends the password, every session and every earlier link of a person; answers a new link's text.

    Rule: see `policies.require_keeper_of`; not for service accounts, which have no password. API tokens live
    on: they are revoked one by one, or all together by disabling the account.
    """
    policies.require_keeper_of(actor, user)
    _require_person(user)
    passwords.require_open_to(user.username)
    user.set_unusable_password()
    user.save(update_fields=["password"])
    events.access_changed(user.pk)
    text = _link(actor, user, now)
    audit.record(actor, "user.reset-password", user, now=now)
    return text


@transaction.atomic
def set_active(*, actor: Actor, user: User, is_active: bool, now: datetime) -> bool:
    """Closes an account or opens it again; answers whether anything changed.

    Rule: see `policies.require_keeper_of`, never for themselves. Sessions and open streams of a closed
    account end at once and for good; its tokens open nothing until it is opened again, and memberships stay,
    so that this restores what it was. What the cluster knows of it is the caller's: see
    `apps.tenants.people.services.person_access`.
    """
    policies.require_keeper_of(actor, user)
    if actor.user_id == user.pk:
        raise Conflict("You cannot close your own account.", hint="Ask another platform engineer.")
    if not User.objects.filter(pk=user.pk).exclude(is_active=is_active).update(is_active=is_active):
        return False
    user.is_active = is_active
    if not is_active:
        # Else a browser that was left somewhere would be signed in again with the account.
        sessions.end_all(actor=actor, user=user, now=now)
    events.access_changed(user.pk)
    audit.record(actor, "user.enable" if is_active else "user.disable", user, now=now)
    return True


def invited(text: str, now: datetime) -> Invitation:
    """The link that this text opens: known, unused, not over, of an active person; raises NotFound."""
    row = Invitation.objects.select_related("user").filter(digest=digest(text), used_at=None).first()
    if row is None or row.expires_at <= now or not row.user.is_active:
        raise NotFound("This link no longer works: it was used, has expired, or was replaced by a newer one.")
    passwords.require_open_to(row.user.username)
    return row


@transaction.atomic
def redeem(*, text: str, password: str, now: datetime) -> User:
    """Sets the password that the person chose; the link is used up. Raises NotFound and Invalid."""
    row = invited(text, now)
    try:
        validate_password(password, row.user)
    except ValidationError as error:
        problems = [FieldProblem("/password", "invalid_value", words) for words in error.messages]
        raise Invalid(problems) from None
    if not Invitation.objects.filter(pk=row.pk, used_at=None).update(used_at=now):
        raise NotFound("Somebody used this link just now.")
    row.user.set_password(password)
    row.user.save(update_fields=["password"])
    who = Actor(username=row.user.username, user_id=row.user.pk)
    audit.record(who, "user.set-password", row.user, now=now)
    return row.user


def _link(actor: Actor, user: User, now: datetime) -> str:
    text = secrets.token_urlsafe(LINK_BYTES)
    Invitation.objects.filter(user=user, used_at=None).update(used_at=now)
    Invitation.objects.create(
        user=user, digest=digest(text), created_by=actor.username, expires_at=now + LINK_LIFE
    )
    return text


def _check(wish: PersonWish) -> None:
    problems = []
    checks: list[tuple[str, Callable[[str], None], str]] = [
        ("username", UnicodeUsernameValidator(), wish.username)
    ]
    if wish.email:
        checks.append(("email", validate_email, wish.email))
    for field, check, value in checks:
        try:
            check(value)
        except ValidationError as error:
            problems.append(FieldProblem(f"/{field}", "invalid_value", " ".join(error.messages)))
    if wish.platform_role not in ("", *PlatformRole):
        words = f"Known: {', '.join(PlatformRole)}, or nothing."
        problems.append(FieldProblem("/platform_role", "invalid_value", words))
    if problems:
        raise Invalid(problems)


def _give_mail(user: User, email: str) -> None:
    # Whoever makes an account holds the record of the platform until the end: who came first is seen here.
    _require_own_mail(email, user)
    if email:
        user.email = email
        user.save(update_fields=["email"])


def _require_own_mail(email: str, user: User | None = None) -> None:
    if email and (other := selectors.person_by_mail(email, but=user.pk if user else None)):
        raise AlreadyExists(
            f"The e-mail {email} is that of {other.username} ({other.email}).",
            hint=f"Send {other.username} a new link instead, or give another e-mail.",
        )


def _require_person(user: User) -> None:
    if user.is_service:
        raise Conflict("A service account has no password.", hint="Make a token for it instead.")
