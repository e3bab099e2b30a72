"""REST for people (platform engineers and auditors) and for service accounts with their tokens."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import people, policies
from apps.accounts.models import User
from apps.accounts.second_factor import factors
from apps.accounts.selectors import people_for, person_for
from apps.accounts.services import TokenWish
from apps.accounts.specs import ScopeGroup
from apps.tenants import selectors
from apps.tenants.models import ServiceAccount, Tenant
from apps.tenants.people.services import person_access as tenancy
from apps.tenants.people.services import service_accounts
from apps.tenants.people.services.service_accounts import AccountWish
from apps.web.requests.lookups import by_id
from portal.api.base import references
from portal.api.base.documents import DocumentView, documents
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.people.me_bodies import MadeTokenBody, TokenBody, TokenWishSerializer, token_body
from portal.api.people.users_bodies import (
    AccountDocumentSerializer,
    InvitedBody,
    NewAccountSerializer,
    PersonBody,
    PersonWishSerializer,
    ServiceAccountBody,
    account_body,
    person_body,
)


class UsersView(ApiView):
    """Everybody with an account; an empty list for anybody but platform engineers and auditors."""

    scope_group = ScopeGroup.PEOPLE
    lists = True
    sorts = ("-created_at",)

    @pages(PersonBody)
    def get(self, request: Request) -> Response:
        """Newest first."""
        return paginate(request, people_for(self.actor), person_body)

    @takes(PersonWishSerializer)
    @answers(201, InvitedBody, location=True)
    @refuses("already_exists", "wrong_phase")
    def post(self, request: Request) -> Response:
        """Invite somebody: the one-time link is in this answer only."""

        def invite() -> tuple[User, str]:
            policies.require_platform(self.actor)
            wish = people.PersonWish(**PersonWishSerializer.checked(request.data))
            return people.invite(actor=self.actor, wish=wish, now=timezone.now())

        return idempotent(request, lambda: written(request, invite, _invited), secrets=("link",))


class UserView(ApiView):
    """One person."""

    scope_group = ScopeGroup.PEOPLE

    @answers(200, PersonBody)
    def get(self, _request: Request, username: str) -> Response:
        """By username."""
        return Response(person_body(person_for(self.actor, username)))


class ResetPasswordView(ApiView):
    """A new link for a person."""

    scope_group = ScopeGroup.PEOPLE

    @answers(200, InvitedBody)
    @refuses("wrong_phase")
    def post(self, request: Request, username: str) -> Response:
        """End the password and every session; the new one-time link is in this answer only.

        API tokens, passkeys and an authenticator app stay. A passkey opens nothing before there is a new
        password; to end what somebody else may have added, reset the second factor too.
        """

        def renew() -> tuple[User, str]:
            person = person_for(self.actor, username)
            return person, people.reset_password(actor=self.actor, user=person, now=timezone.now())

        def answer(made: tuple[User, str]) -> Response:
            return Response(_linked(*made))

        return idempotent(request, lambda: written(request, renew, answer), secrets=("link",))


class ResetSecondFactorView(ApiView):
    """For a person who has lost the second factor."""

    scope_group = ScopeGroup.PEOPLE

    @answers(200, PersonBody)
    @refuses("wrong_phase")
    def post(self, request: Request, username: str) -> Response:
        """End the second factor, its recovery codes and every session. Again changes nothing.

        The password stays. Nobody does it for themselves.
        """

        def reset() -> User:
            person = person_for(self.actor, username)
            factors.reset(actor=self.actor, user=person, now=timezone.now())
            return person

        def answer(person: User) -> Response:
            return Response(person_body(person))

        return idempotent(request, lambda: written(request, reset, answer))


class _ActiveView(ApiView):
    """An account closed or opened; again changes nothing."""

    scope_group = ScopeGroup.PEOPLE

    def set_active(self, request: Request, username: str, *, is_active: bool) -> Response:
        """Close or open it."""

        def change() -> User:
            person = person_for(self.actor, username)
            tenancy.set_active(actor=self.actor, user=person, is_active=is_active, now=timezone.now())
            return person_for(self.actor, username)

        def answer(person: User) -> Response:
            return Response(person_body(person))

        return idempotent(request, lambda: written(request, change, answer))


class DisableView(_ActiveView):
    """A closed account: sessions, tokens, bindings and open streams end at once."""

    @answers(200, PersonBody)
    @refuses("wrong_phase")
    def post(self, request: Request, username: str) -> Response:
        """Close the account. Again changes nothing."""
        return self.set_active(request, username, is_active=False)


class EnableView(_ActiveView):
    """An account opened again, with the memberships it had."""

    @answers(200, PersonBody)
    @refuses("wrong_phase")
    def post(self, request: Request, username: str) -> Response:
        """Open the account again. Again changes nothing."""
        return self.set_active(request, username, is_active=True)


class AccountsView(ApiView):
    """Service accounts of the tenants whose members the caller decides on."""

    scope_group = ScopeGroup.PEOPLE
    lists = True
    sorts = ("-created_at",)

    @pages(ServiceAccountBody)
    def get(self, request: Request) -> Response:
        """Newest first."""
        return paginate(request, service_accounts.accounts_for(self.actor), account_body)

    @takes(NewAccountSerializer)
    @answers(201, ServiceAccountBody, etag=True, location=True)
    @refuses("already_exists", "wrong_phase")
    def post(self, request: Request) -> Response:
        """Make one, without a token."""

        def answer(row: ServiceAccount) -> Response:
            return made(account_body(row), f"/api/v1/service-accounts/{row.pk}", row)

        return idempotent(request, lambda: written(request, self._make, answer))

    def _make(self) -> ServiceAccount:
        asked = NewAccountSerializer.checked(self.request.data)
        wish = AccountWish(
            tenant=self._tenant(asked["tenant"]),
            slug=asked["slug"],
            name=asked["name"],
            role=asked["spec"]["role"],
        )
        return service_accounts.create_account(actor=self.actor, wish=wish, now=timezone.now())

    def _tenant(self, key: str | None) -> Tenant | None:
        if key is None:
            return None
        return references.found(
            "/tenant", lambda: selectors.tenant_for(self.actor, key), f"There is no tenant {key}."
        )


@documents(
    AccountDocumentSerializer,
    ServiceAccountBody,
    get="By id.",
    put="Replace name and role.",
    patch="Merge (RFC 7396).",
)
class AccountView(DocumentView[ServiceAccount]):
    """One service account."""

    scope_group = ScopeGroup.PEOPLE
    find = staticmethod(service_accounts.account_for)
    body = staticmethod(account_body)

    @answers(204)
    def delete(self, request: Request, key: str) -> Response:
        """End it with all its tokens."""

        def end(row: ServiceAccount) -> None:
            service_accounts.delete_account(actor=self.actor, account=row, now=timezone.now())

        return self.remove(request, key, end)

    def require(self, row: ServiceAccount) -> None:
        """As the service."""
        service_accounts.require_keeper(self.actor, row.tenant)

    def change(self, row: ServiceAccount, asked: Mapping[str, Any]) -> ServiceAccount:
        """Another name or role."""
        name, role, now = asked["name"], asked["spec"]["role"], timezone.now()
        return service_accounts.update_account(actor=self.actor, account=row, name=name, role=role, now=now)


class AccountTokensView(ApiView):
    """The tokens of a service account."""

    scope_group = ScopeGroup.PEOPLE
    lists = True
    sorts = ("-created_at",)
    write_parameters = ()

    @named("service_account_tokens_list")
    @pages(TokenBody)
    def get(self, request: Request, key: str) -> Response:
        """Live ones, newest first."""
        row = service_accounts.account_for(self.actor, key)
        return paginate(request, service_accounts.tokens_for(row), token_body)

    @takes(TokenWishSerializer)
    @answers(201, MadeTokenBody, location=True)
    def post(self, request: Request, key: str) -> Response:
        """Make one; its text is in this answer only. It reaches the account's tenant."""

        def make() -> Response:
            row = service_accounts.account_for(self.actor, key)
            service_accounts.require_keeper(self.actor, row.tenant)
            asked, now = TokenWishSerializer.checked(request.data), timezone.now()
            wish = TokenWish(asked["name"], asked["scopes"], asked["tenants"], asked.get("expires_at"))
            token, text = service_accounts.create_token(actor=self.actor, account=row, wish=wish, now=now)
            location = f"/api/v1/service-accounts/{row.pk}/tokens/{token.pk}"
            body: MadeTokenBody = {**token_body(token), "token": text}
            return made(body, location)

        return idempotent(request, make, secrets=("token",))


class AccountTokenView(ApiView):
    """One token of a service account."""

    scope_group = ScopeGroup.PEOPLE
    write_parameters = ()

    @answers(204)
    def delete(self, _request: Request, key: str, token_id: UUID) -> Response:
        """Revoke it, at once."""
        row = service_accounts.account_for(self.actor, key)
        token = by_id(service_accounts.tokens_for(row), token_id)
        service_accounts.revoke_token(actor=self.actor, account=row, token=token, now=timezone.now())
        return Response(status=204)


def _linked(person: User, text: str) -> InvitedBody:
    return {**person_body(person), "link": f"{settings.CONFIG.url}/invite/{text}/"}


def _invited(person: tuple[User, str]) -> Response:
    return made(_linked(*person), f"/api/v1/users/{person[0].username}")
