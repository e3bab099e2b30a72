"""REST for oneself and one's own tokens."""

from typing import cast
from uuid import UUID

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import selectors, services
from apps.accounts.models import ApiToken, User
from apps.accounts.specs import ScopeGroup
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made
from portal.api.declared.declaring import answers, pages, takes
from portal.api.people.me_bodies import (
    MadeTokenBody,
    MeBody,
    TokenBody,
    TokenWishSerializer,
    me_body,
    token_body,
)


class MeView(ApiView):
    """Who am I, and what does this credential reach? Any credential may ask."""

    scope_group = None

    @answers(200, MeBody)
    def get(self, request: Request) -> Response:
        """Oneself."""
        return Response(me_body(cast("User", request.user), self.actor))


class TokensView(ApiView):
    """One's own tokens."""

    scope_group = ScopeGroup.TOKENS
    lists = True
    sorts = ("-created_at",)
    write_parameters = ()

    @pages(TokenBody)
    def get(self, request: Request) -> Response:
        """Live tokens, newest first."""
        return paginate(request, selectors.tokens_for(self.actor), token_body)

    @takes(TokenWishSerializer)
    @answers(201, MadeTokenBody, location=True)
    def post(self, request: Request) -> Response:
        """Make one; its text is in this answer only."""
        return idempotent(request, lambda: self._make(request), secrets=("token",))

    def _make(self, request: Request) -> Response:
        asked, now = TokenWishSerializer.checked(request.data), timezone.now()
        wish = services.TokenWish(asked["name"], asked["scopes"], asked["tenants"], asked.get("expires_at"))
        token, text = services.make_token(actor=self.actor, wish=wish, now=now)
        return _answer(token, text)


class TokenView(ApiView):
    """One of one's own tokens."""

    scope_group = ScopeGroup.TOKENS
    write_parameters = ()

    @answers(200, TokenBody)
    def get(self, _request: Request, token_id: UUID) -> Response:
        """The token, without its text."""
        return Response(token_body(selectors.token_for(self.actor, token_id)))

    @answers(204)
    def delete(self, _request: Request, token_id: UUID) -> Response:
        """Revoke it, at once."""
        token = selectors.token_for(self.actor, token_id)
        services.revoke_token(actor=self.actor, token=token, now=timezone.now())
        return Response(status=204)


def _answer(token: ApiToken, text: str) -> Response:
    location = f"/api/v1/tokens/{token.id}"
    body: MadeTokenBody = {**token_body(token), "token": text}
    return made(body, location)
