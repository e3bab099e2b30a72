"""REST for grants and quota requests."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor, ScopeGroup
from apps.quotas.allowances.services import granting
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.budgets.selectors import spending
from apps.quotas.models import Grant, QuotaRequest
from apps.quotas.requests.services import deciding, forecast
from apps.quotas.requests.services.deciding import RequestWish
from apps.quotas.specs import RequestKind, RequestStatus
from portal.api.base.documents import VerbView, acts
from portal.api.base.references import TENANT, asked_tenant, offer_in, tenant_in
from portal.api.base.views import ApiView, etag, idempotent, paginate, require_match
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, pages, refuses, rehearses, takes
from portal.api.declared.queries import Words
from portal.api.quotas.quota_requests_bodies import (
    Body,
    CommentSerializer,
    DecisionSerializer,
    GrantBody,
    NewGrantSerializer,
    NewRequestSerializer,
    QuotaRequestBody,
    grant_body,
    request_body,
)
from portal.api.quotas.quotas_bodies import QuotaRehearsalBody, effect_body


class GrantsView(ApiView):
    """The grants of the caller's tenants."""

    scope_group = ScopeGroup.QUOTAS
    lists = True
    sorts = ("-created_at", "updated_at")
    parameters = (TENANT,)

    @pages(GrantBody)
    def get(self, request: Request) -> Response:
        """Newest first, ended ones too; `?tenant=` for one tenant."""
        tenant, rows, now = asked_tenant(self, request), spending.grants_for(self.actor), timezone.now()
        rows = rows.filter(tenant=tenant) if tenant else rows
        return paginate(request, rows, lambda row: grant_body(row, now))

    @takes(NewGrantSerializer)
    @answers(201, GrantBody, etag=True, location=True)
    @rehearses(QuotaRehearsalBody)
    @refuses("offer_not_allowed", "wrong_phase")
    def post(self, request: Request) -> Response:
        """Guarantee a tenant more for a while."""

        def told(grant: Grant) -> Body:
            return _effect(self.actor, grant, 0)

        return idempotent(request, lambda: written(request, self._make, _made_grant, told=told))

    def _make(self) -> Grant:
        asked = NewGrantSerializer.checked(self.request.data)
        tenant = tenant_in(self.actor, asked["tenant"])
        granting.require_giver(self.actor, tenant)
        spec = asked["spec"]
        offer = offer_in(self.actor, spec["offer"])
        wish = GrantWish(spec["count"], spec["ends_at"], spec["starts_at"], spec["reason"])
        return granting.give_grant(
            actor=self.actor, tenant=tenant, offer=offer, wish=wish, now=timezone.now()
        )


class GrantView(ApiView):
    """One grant."""

    scope_group = ScopeGroup.QUOTAS

    @answers(200, GrantBody, etag=True)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By id."""
        return _shown_grant(spending.grant_for(self.actor, key))


class GrantEndView(ApiView):
    """Ending a grant early."""

    scope_group = ScopeGroup.QUOTAS
    may_match = ("POST",)

    @answers(200, GrantBody, etag=True)
    @rehearses(QuotaRehearsalBody)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Now; what runs on it stays."""

        def end() -> tuple[int, Grant]:
            grant, now = spending.grant_for(self.actor, key, lock=True), timezone.now()
            granting.require_giver(self.actor, grant.tenant)
            require_match(request, grant.generation, required=False)
            before = granting.counts_at(grant, now)
            return before, granting.end_grant(actor=self.actor, grant=grant, now=now)

        def answer(both: tuple[int, Grant]) -> Response:
            return _shown_grant(both[1])

        def effect_then(both: tuple[int, Grant]) -> Body:
            return _effect(self.actor, both[1], both[0])

        return idempotent(request, lambda: written(request, end, answer, told=effect_then))


STATUSES = {status.label: str(status) for status in RequestStatus}
PHASE = Words("phase", "Only in these phases.", tuple(STATUSES))


class RequestsView(ApiView):
    """The quota requests of the caller's tenants."""

    scope_group = ScopeGroup.QUOTAS
    lists = True
    sorts = ("-created_at", "updated_at")
    parameters = (TENANT, PHASE)

    @pages(QuotaRequestBody)
    def get(self, request: Request) -> Response:
        """Newest first; `?tenant=`, `?phase=Open`."""
        tenant, rows = asked_tenant(self, request), spending.requests_for(self.actor)
        rows = rows.filter(tenant=tenant) if tenant else rows
        if (asked := PHASE.of(request)) is not None:
            rows = rows.filter(status__in=[STATUSES[each] for each in asked])
        return paginate(request, rows.prefetch_related("notes"), _line)

    @takes(NewRequestSerializer)
    @answers(201, QuotaRequestBody, etag=True, location=True)
    @refuses("offer_not_allowed", "wrong_phase")
    def post(self, request: Request) -> Response:
        """Ask for more of an offer."""
        return idempotent(request, lambda: written(request, self._make, partial(_made_request, self.actor)))

    def _make(self) -> QuotaRequest:
        asked = NewRequestSerializer.checked(self.request.data)
        tenant = tenant_in(self.actor, asked["tenant"])
        deciding.require_asker(self.actor, tenant)
        spec = asked["spec"]
        offer = offer_in(self.actor, spec["offer"])
        kind = RequestKind(spec["kind"])
        wish = RequestWish(kind, spec["count"], spec["reason"], spec["duration_seconds"])
        return deciding.ask(actor=self.actor, tenant=tenant, offer=offer, wish=wish, now=timezone.now())


class RequestView(ApiView):
    """One quota request, with its history and what it would change."""

    scope_group = ScopeGroup.QUOTAS

    @answers(200, QuotaRequestBody, etag=True)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By id."""
        return _shown_request(self.actor, spending.request_for(self.actor, key))


class _Act(VerbView[QuotaRequest]):
    """One act on a request; the right is checked before the body is read."""

    scope_group = ScopeGroup.QUOTAS
    may_match = ("POST",)
    find = staticmethod(spending.request_for)

    def require(self, row: QuotaRequest) -> None:
        """As the service that decides."""
        deciding.require_decider(self.actor, row.tenant)

    def shown(self, row: QuotaRequest) -> QuotaRequestBody:
        """With what it would change."""
        return _request(self.actor, row)


@acts(
    QuotaRequestBody,
    "own_request",
    "offer_not_allowed",
    "wrong_phase",
    post="Approve; never one's own request.",
)
class ApproveView(_Act):
    """Giving what was asked, or less."""

    takes = DecisionSerializer

    def act(self, row: QuotaRequest, asked: Mapping[str, Any]) -> QuotaRequest:
        """As asked, or `count` of it."""
        return deciding.approve(
            actor=self.actor, request=row, count=asked["count"], reason=asked["reason"], now=timezone.now()
        )


@acts(QuotaRequestBody, "own_request", "wrong_phase", post="Decline, with a reason.")
class DeclineView(_Act):
    """Saying no."""

    def act(self, row: QuotaRequest, asked: Mapping[str, Any]) -> QuotaRequest:
        """With the reason."""
        return deciding.decline(actor=self.actor, request=row, reason=asked["reason"], now=timezone.now())


@acts(QuotaRequestBody, "own_request", "wrong_phase", post="Withdraw an open request.")
class WithdrawView(_Act):
    """Taking it back."""

    def require(self, row: QuotaRequest) -> None:
        """Who asked, and leads."""
        if row.asked_by_id != self.actor.user_id:
            deciding.require_asker(self.actor, row.tenant)

    def act(self, row: QuotaRequest, asked: Mapping[str, Any]) -> QuotaRequest:  # noqa: ARG002 - as the others
        """Without further input."""
        return deciding.withdraw(actor=self.actor, request=row, now=timezone.now())


@acts(QuotaRequestBody, "wrong_phase", post="Say something to the other side.")
class CommentView(_Act):
    """A line of its history."""

    takes = CommentSerializer

    def require(self, row: QuotaRequest) -> None:
        """Who takes part."""
        deciding.require_speaker(self.actor, row.tenant)

    def act(self, row: QuotaRequest, asked: Mapping[str, Any]) -> QuotaRequest:
        """With the text."""
        return deciding.comment(actor=self.actor, request=row, text=asked["text"], now=timezone.now())


def _request(actor: Actor, row: QuotaRequest) -> QuotaRequestBody:
    now = timezone.now()
    is_open = row.status == RequestStatus.OPEN
    told = forecast.of_request(row, row.count, actor=actor, now=now) if is_open else None
    return request_body(row, told, now)


def _line(row: QuotaRequest) -> QuotaRequestBody:
    """A line of the list, without a forecast: that would take too long for every request."""
    return request_body(row, None, timezone.now())


def _shown_request(actor: Actor, row: QuotaRequest) -> Response:
    return Response(_request(actor, row), headers={"ETag": etag(row)})


def _made_request(actor: Actor, row: QuotaRequest) -> Response:
    return made(_request(actor, row), f"/api/v1/quota-requests/{row.pk}", row)


def _shown_grant(row: Grant) -> Response:
    return Response(grant_body(row, timezone.now()), headers={"ETag": etag(row)})


def _effect(actor: Actor, grant: Grant, before: int) -> Body:
    """What a rehearsal of a grant tells besides: the sum, who starts, who loses borrowed devices."""
    return {"effect": effect_body(granting.effect_of(grant, actor=actor, before=before, now=timezone.now()))}


def _made_grant(row: Grant) -> Response:
    return made(grant_body(row, timezone.now()), f"/api/v1/grants/{row.pk}", row)
