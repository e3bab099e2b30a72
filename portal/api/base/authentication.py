"""How REST knows who asks: a bearer token, or the portal's session with its CSRF token."""

from typing import Any

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from apps.accounts import actors
from apps.accounts.models import ApiToken, User
from apps.accounts.selectors import live_token
from apps.accounts.services import note_use
from apps.web.problems.refusals import InvalidToken


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer alt_...`; any other Authorization header is refused, not ignored."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """The token's user and the token; None without the header, InvalidToken for a wrong one."""
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, text = header.partition(" ")
        now = timezone.now()
        token = live_token(text.strip(), now) if scheme.lower() == "bearer" else None
        if token is None:
            raise InvalidToken
        note_use(token, now)
        actors.remember(request._request, actors.of_token(request._request, token))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 the framework's signature
        """The scheme that a 401 names."""
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
