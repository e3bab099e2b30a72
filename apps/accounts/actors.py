"""Who asks: the `Actor` of a request, made once, from its token or its session.

It only decides how far the credential limits the user's rights.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from django.contrib import auth
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from apps.accounts.models import ApiToken, PersonSession, User, Viewing
from apps.accounts.selectors import is_live
from apps.accounts.specs import Actor
from apps.accounts.viewing import selectors as viewing
from apps.web.problems.answers import request_id_of
from apps.web.problems.refusals import InvalidToken

LONGEST_SESSION_SECONDS = 24 * 3600
TOUCH_SECONDS = 300
SIGNED_IN, TOUCHED = "signed_in_at", "touched_at"


def actor_of(request: HttpRequest | Request) -> Actor:
    """The one who asks; raises InvalidToken (for a page: the way to sign in) when nobody is signed in."""
    base = request._request if isinstance(request, Request) else request
    known: Actor | None = getattr(base, "actor", None)
    return known or remember(base, _of_session(base))


def remember(base: HttpRequest, actor: Actor) -> Actor:
    """Keep the actor on the request."""
    base.actor = actor  # type: ignore[attr-defined]
    return actor


def of_token(request: HttpRequest, token: ApiToken) -> Actor:
    """A user's rights, limited by the token; an empty list of scopes or tenants limits nothing."""
    return Actor(
        username=token.user.username,
        user_id=token.user.id,
        platform_role=token.user.platform_role,
        token_prefix=token.prefix,
        token_id=token.pk,
        scopes=frozenset(token.scopes) or None,
        tenants=frozenset(token.tenants) or None,
        request_id=request_id_of(request),
        ends_at=token.expires_at,
    )


def of_user(user: User, request: HttpRequest) -> Actor:
    """A signed-in person: all of the user's rights."""
    return Actor(
        username=user.username,
        user_id=user.id,
        platform_role=user.platform_role,
        request_id=request_id_of(request),
    )


def of_view(view: Viewing, request: HttpRequest) -> Actor:
    """The person whom a platform engineer views: all that the person may read, see `specs.Actor`."""
    return replace(of_user(view.person, request), viewed_by=view.viewer.username)


@dataclass(frozen=True)
class Credential:
    """What a request came with: a token's id, or a session's key, and the view where `user` is viewed."""

    user: UUID
    token: UUID | None = None
    session: str = ""
    view: UUID | None = None


def credential_of(request: HttpRequest | Request) -> Credential:
    """The credential, for work that outlives its request; raises InvalidToken when nobody is signed in."""
    user = actor_of(request).user_id
    if user is None:
        raise InvalidToken
    token = getattr(request, "auth", None)
    if isinstance(token, ApiToken):
        return Credential(user, token=token.pk)
    view = getattr(request, "viewing", None)
    return Credential(user, session=request.session.session_key or "", view=view.pk if view else None)


def again(known: Credential) -> Actor:
    """The actor of a credential as the database has it now, of no request. Raises InvalidToken."""
    asked = HttpRequest()
    if known.token is not None:
        token = ApiToken.objects.select_related("user").filter(pk=known.token).first()
        if token is None or not is_live(token, timezone.now()):
            raise InvalidToken
        return of_token(asked, token)
    asked.session = SessionStore(known.session)
    asked.user = auth.get_user(asked)
    actor = _of_session(asked)
    if known.view is not None:
        return _viewed(known, asked)
    if actor.user_id != known.user:
        # Made for somebody else than the one whose session it is: nobody's.
        raise InvalidToken
    return actor


def _viewed(known: Credential, asked: HttpRequest) -> Actor:
    view = viewing.view_of(known.view, known.session)
    if view is None or view.person_id != known.user or viewing.end_of(view, timezone.now()):
        raise InvalidToken
    return of_view(view, asked)


def maker(known: Credential) -> Actor:
    """The person of a credential, for what they made and left behind; made with a token, it has the token's
    limits. Raises InvalidToken once they are no active user any more, or the token is no good, and for
    who was viewed: nothing is made in their name.
    """
    if known.view is not None:
        raise InvalidToken
    if known.token is not None:
        return again(known)
    user = User.objects.filter(pk=known.user, is_active=True).first()
    if user is None:
        raise InvalidToken
    return of_user(user, HttpRequest())


def _of_session(request: HttpRequest) -> Actor:
    user = getattr(request, "user", None)
    if not isinstance(user, User) or not user.is_active or not _is_fresh(request, timezone.now()):
        raise InvalidToken("Nobody is signed in.")
    return of_user(user, request)


def _is_fresh(request: HttpRequest, now: datetime) -> bool:
    """Idle sessions end by their cookie's age; a used one is prolonged, never beyond 24 hours after
    sign-in.
    """
    instant = int(now.astimezone(UTC).timestamp())
    signed_in = request.session.get(SIGNED_IN, instant)
    if instant - signed_in > LONGEST_SESSION_SECONDS:
        auth.logout(request)
        return False
    # Not at every request: each touch is a write.
    if instant - request.session.get(TOUCHED, 0) > TOUCH_SECONDS:
        request.session[TOUCHED] = instant
        PersonSession.objects.filter(session_key=request.session.session_key).update(seen_at=now)
        request.session.setdefault(SIGNED_IN, instant)
    return True
