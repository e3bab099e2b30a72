"""Making users and API tokens, and ending tokens. Every act is in the audit record of the platform."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from apps.accounts import policies, reach
from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import username_like
from apps.accounts.specs import SCOPES, Actor
from apps.accounts.tokens import RANDOM_BYTES, generate
from apps.audit import services as audit
from apps.audit.specs import Target
from apps.errors import AlreadyExists, FieldProblem, Invalid, NotAllowed
from apps.ranges import TOKEN_DAYS
from apps.web.shapes.likeness import mixed_scripts
from apps.web.stores import outage
from apps.web.streams import events

LAST_USED_EVERY = timedelta(minutes=1)
DEFAULT_DAYS, LONGEST_DAYS = 90, TOKEN_DAYS.most


@dataclass(frozen=True)
class TokenWish:
    """What a new token shall reach; empty scopes or tenants mean all that its maker reaches. Without an end
    it lives 90 days, or as long as the token that makes it if that is less.
    """

    name: str
    scopes: Sequence[str]
    tenants: Sequence[str]
    expires_at: datetime | None = None


def create_user(
    *,
    actor: Actor,
    username: str,
    display_name: str,
    password: str | None,
    platform_role: str,
    now: datetime | None = None,
) -> User:
    """A person who may sign in, without a password only by other ways; platform engineers make people.

    Rule: see `require_unlike`.
    """
    policies.require_platform(actor)
    return add_user(
        actor=actor,
        username=username,
        display_name=display_name,
        password=password,
        platform_role=platform_role,
        now=now,
    )


def add_user(
    *,
    actor: Actor,
    username: str,
    display_name: str = "",
    password: str | None = None,
    platform_role: str = "",
    now: datetime | None = None,
) -> User:
    """As `create_user`, for a caller that has asked the policies. The record names who asked for the account:
    it counts as that person's hand (see `second_person`).
    """
    require_unlike(username)
    with transaction.atomic():
        try:
            with transaction.atomic():
                user = User.objects.create_user(
                    username, password=password, display_name=display_name, platform_role=platform_role
                )
        except IntegrityError:
            raise AlreadyExists(f"The username {username} is taken.") from None
        changes = {"platform_role": ["", platform_role]}
        audit.record(actor, "user.create", user, now=now or user.date_joined, changes=changes)
    return user


def require_unlike(username: str) -> None:
    """Raises Invalid for a username of several scripts that share looks, and AlreadyExists, naming the other,
    for one that a reader may take for somebody's.
    """
    if mixed := mixed_scripts(username):
        words = f"It mixes {' and '.join(mixed)} letters, which look alike: use those of one script."
        raise Invalid([FieldProblem("/username", "invalid_value", words)])
    if like := username_like(username):
        words = "is taken" if like == username else f"resembles {like}, which is taken"
        raise AlreadyExists(f"The username {username} {words}.", hint="Choose another one.")


def create_token(
    *,
    actor: Actor,
    name: str,
    scopes: Sequence[str],
    tenants: Sequence[str],
    expires_in_days: int,
    now: datetime,
) -> tuple[ApiToken, str]:
    """A token of the actor's own, ending after that many days; its text is returned once and never stored."""
    wish = TokenWish(name, scopes, tenants, now + timedelta(days=expires_in_days))
    return make_token(actor=actor, wish=wish, now=now)


def make_token(
    *, actor: Actor, wish: TokenWish, now: datetime, owner: User | None = None
) -> tuple[ApiToken, str]:
    """A token of the actor's own, or of a service account whose keeper the caller has asked for; it lives
    366 days at most, reaches no further than the token that made it, and does not outlive that. Service
    accounts make none.
    """
    if actor.user_id is None:
        raise NotAllowed("The system needs no token.")
    if User.objects.filter(pk=actor.user_id, is_service=True).exists():
        raise NotAllowed("A service account cannot make tokens; a lead of its tenant can.")
    ends = wish.expires_at or _usual_end(actor, now)
    _check(actor, wish, ends, now)
    made = generate(secrets.token_bytes(RANDOM_BYTES))
    with transaction.atomic():
        token = ApiToken.objects.create(
            user_id=owner.pk if owner else actor.user_id,
            name=wish.name.strip(),
            prefix=made.prefix,
            digest=made.digest,
            scopes=sorted(set(wish.scopes)),
            tenants=sorted(set(wish.tenants)),
            expires_at=ends,
        )
        _note(actor, "token.create", token, now)
    return token, made.text


def revoke_token(*, actor: Actor, token: ApiToken, now: datetime) -> None:
    """End a token of the actor's own at once; its open streams are cut. Revoking twice changes nothing."""
    if token.user_id != actor.user_id:
        raise NotAllowed("Only the owner of a token may revoke it.")
    end_token(actor=actor, token=token, now=now)


def end_token(*, actor: Actor, token: ApiToken, now: datetime) -> None:
    """End a token at once, whoever's it is: the caller has asked the policies."""
    with transaction.atomic():
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            _note(actor, "token.revoke", token, now)
            events.access_changed(token.user_id)


def record_sign_in(*, actor: Actor, way: str, now: datetime) -> None:
    """Records that somebody signed in, and how (password, demo)."""
    _session(actor, "session.sign-in", now, {"way": way})


def record_sign_out(*, actor: Actor, now: datetime) -> None:
    """Records that somebody signed out."""
    _session(actor, "session.sign-out", now, {})


def _session(actor: Actor, action: str, now: datetime, changes: dict[str, str]) -> None:
    with transaction.atomic():
        oneself = Target("user", actor.user_id, actor.username)
        audit.record(actor, action, oneself, now=now, changes=changes)


def _note(actor: Actor, action: str, token: ApiToken, now: datetime) -> None:
    changes = {"scopes": token.scopes, "tenants": token.tenants, "expires_at": token.expires_at}
    audit.record(actor, action, token, now=now, changes=changes)


def _usual_end(actor: Actor, now: datetime) -> datetime:
    usual = now + timedelta(days=DEFAULT_DAYS)
    return min(usual, actor.ends_at) if actor.ends_at else usual


def _check(actor: Actor, wish: TokenWish, ends: datetime, now: datetime) -> None:
    problems = [
        *_wrong_name(wish.name),
        *_wrong_scopes(wish.scopes),
        *_wrong_tenants(actor, wish.tenants),
        *_wrong_end(ends, now),
    ]
    if problems:
        raise Invalid(problems)
    _check_reach("scopes", wish.scopes, actor.scopes)
    _check_reach("tenants", wish.tenants, actor.tenants)
    if actor.ends_at and ends > actor.ends_at:
        last = f"{actor.ends_at:%Y-%m-%d %H:%M} UTC"
        raise NotAllowed(
            f"A token cannot make one that outlives it: it ends at {last}.",
            hint="Ask for an earlier end, or sign in and make it there.",
        )


def _wrong_name(name: str) -> list[FieldProblem]:
    if 1 <= len(name.strip()) <= 120:
        return []
    return [FieldProblem("/name", "out_of_range", "Give a name of 1 to 120 characters.")]


def _wrong_scopes(scopes: Sequence[str]) -> list[FieldProblem]:
    known = f"Known: {', '.join(SCOPES)}."
    return [
        FieldProblem(f"/scopes/{place}", "invalid_value", f"There is no scope {scope!r}. {known}")
        for place, scope in enumerate(scopes)
        if scope not in SCOPES
    ]


def _wrong_tenants(actor: Actor, tenants: Sequence[str]) -> list[FieldProblem]:
    unknown = set(reach.unknown(actor, tenants))
    return [
        FieldProblem(f"/tenants/{place}", "reference_not_found", f"There is no tenant {slug}.")
        for place, slug in enumerate(tenants)
        if slug in unknown
    ]


def _wrong_end(expires_at: datetime, now: datetime) -> list[FieldProblem]:
    if now < expires_at <= now + timedelta(days=LONGEST_DAYS):
        return []
    return [
        FieldProblem(
            "/expires_at", "out_of_range", f"A token must end in the future, within {LONGEST_DAYS} days."
        )
    ]


def _check_reach(what: str, wanted: Sequence[str], held: frozenset[str] | None) -> None:
    if held is None:
        return
    reach = held | {scope.replace(":write", ":read") for scope in held}
    beyond = sorted(set(wanted) - reach)
    if beyond or not wanted:
        named = ", ".join(beyond) or "all"
        raise NotAllowed(f"A token cannot make one that reaches further; its {what} do not include {named}.")


def note_use(token: ApiToken, now: datetime) -> None:
    """At most once a minute: a token that is used a hundred times a second must not write a hundred rows."""
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_EVERY:
        with outage.dispensable():
            ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
