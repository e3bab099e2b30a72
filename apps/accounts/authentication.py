"""How REST knows who asks: a bearer token, or the portal's session with its CSRF token."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from apps.accounts import actors
from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import live_token
from apps.web.refusals import InvalidToken

LAST_USED_EVERY = timedelta(minutes=1)


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer alt_...`; any other Authorization header is refused, not ignored."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The token's user and the token; None without the header, InvalidToken when it opens nothing."""
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, text = header.partition(" ")
        now = timezone.now()
        token = live_token(text.strip(), now) if scheme.lower() == "bearer" else None
        if token is None:
            raise InvalidToken
        _touch(token, now)
        actors.remember(request._request, actors.of_token(request._request, token))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 the framework's signature
        """What a 401 names as the way in."""
        return 'Bearer realm="allotment"'


class PortalSessionAuthentication(SessionAuthentication):
    """The portal's own pages calling REST."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        """The signed-in user, once the CSRF token of an unsafe request is right."""
        found = super().authenticate(request)
        if found is None:
            return None
        actors.actor_of(request)
        return found[0], None


def _touch(token: ApiToken, now: datetime) -> None:
    """At most once a minute: a token that is used a hundred times a second must not write a hundred rows."""
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_EVERY:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
