"""REST for quotas."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor, ScopeGroup
from apps.cluster.objects.conditions import is_true
from apps.errors import AlreadyExists, FieldProblem, Invalid
from apps.quotas.allowances.selectors import effect, entitlements, standing
from apps.quotas.allowances.services import moving, quota_changes
from apps.quotas.allowances.services.moving import Move
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.selectors import offers
from apps.quotas.kueue.manifests import render_queue
from apps.quotas.models import Quota, TenantQueue
from apps.tenants import selectors as tenancy
from portal.api.base import references
from portal.api.base.documents import DocumentView, documents
from portal.api.base.references import TENANT
from portal.api.base.views import ApiView, etag, idempotent, paginate, require_match
from portal.api.base.writing import made, settled, written
from portal.api.declared.declaring import answers, pages, refuses, rehearses, takes
from portal.api.quotas.quotas_bodies import (
    Body,
    MoveSerializer,
    NewQuotaSerializer,
    QuotaBody,
    QuotaDocumentSerializer,
    QuotaRehearsalBody,
    effect_body,
    quota_body,
)


def _manifests(quota: Quota) -> list[dict[str, Any]]:
    queue = quota.tenant.queue
    return render_queue(entitlements.queue_spec(queue, namespace_is_there=True))


def _is_settled(quota: Quota) -> bool:
    queue = TenantQueue.objects.get(tenant=quota.tenant_id)
    return queue.observed_generation == queue.generation and is_true(queue.conditions, "Ready")


class QuotasView(ApiView):
    """The quotas of the caller's tenants."""

    scope_group = ScopeGroup.QUOTAS
    lists = True
    sorts = ("-created_at", "updated_at")
    parameters = (TENANT,)

    @pages(QuotaBody)
    def get(self, request: Request) -> Response:
        """With what is used, borrowed, lent and waiting; `?tenant=` for one tenant."""
        tenant, quotas = references.asked_tenant(self, request), entitlements.quotas_for(self.actor)
        return paginate(request, quotas.filter(tenant=tenant) if tenant else quotas, _quotas(self))

    @takes(NewQuotaSerializer)
    @answers(201, QuotaBody, etag=True, location=True)
    @rehearses(QuotaRehearsalBody)
    @refuses("already_exists", "offer_not_allowed", "wrong_phase")
    def post(self, request: Request) -> Response:
        """Give a tenant quota of an offer; 409 already_exists where it has some: change that one."""

        def answer(quota: Quota) -> Response:
            return made(_quotas(self)(quota), f"/api/v1/quotas/{quota.pk}", quota)

        response = idempotent(
            request,
            lambda: written(request, self._make, answer, manifests=_manifests, told=self._told),
        )
        return settled(
            request,
            response,
            reload=lambda pk: entitlements.quota_for(self.actor, pk),
            is_done=_is_settled,
            body=_quotas(self),
        )

    def _told(self, quota: Quota) -> Body:
        return _effect(self.actor, quota, 0)

    def _make(self) -> Quota:
        asked = NewQuotaSerializer.checked(self.request.data)
        tenant = references.found(
            "/tenant", lambda: tenancy.tenant_for(self.actor, asked["tenant"], lock=True)
        )
        quota_changes.require_quota_manager(self.actor, tenant)
        offer = references.found("/spec/offer", lambda: offers.offer_for(self.actor, asked["spec"]["offer"]))
        if Quota.objects.filter(tenant=tenant, offer=offer).exists():
            raise AlreadyExists(
                f"{tenant.slug} has quota of {offer.slug} already.", hint="Change that quota."
            )
        amounts = _amounts(asked["spec"])
        return quota_changes.set_quota(
            actor=self.actor, tenant=tenant, offer=offer, amounts=amounts, now=timezone.now()
        )


@documents(
    QuotaDocumentSerializer,
    QuotaBody,
    get="By id.",
    put="Replace the amounts; omitted limits are no limits.",
    patch="Merge (RFC 7396); null is no limit.",
    refusals=("already_exists", "offer_not_allowed", "wrong_phase"),
    rehearsal=QuotaRehearsalBody,
)
class QuotaView(DocumentView[Quota]):
    """One quota."""

    scope_group = ScopeGroup.QUOTAS
    manifests = staticmethod(_manifests)
    is_done = staticmethod(_is_settled)

    @answers(204)
    @rehearses(QuotaRehearsalBody)
    @refuses("wrong_phase")
    def delete(self, request: Request, key: str) -> Response:
        """Take it away: nothing new starts on it, what runs stays."""

        def take() -> Quota:
            quota = self.matched(request, key)
            quota_changes.delete_quota(actor=self.actor, quota=quota, now=timezone.now())
            return quota

        answer = Response(status=204)
        return written(
            request, take, lambda _: answer, manifests=_manifests, told=lambda quota: self.told(quota, quota)
        )

    def found(self, key: str, *, lock: bool = False) -> Quota:
        """By id. The tenant's row is what every change of its quota locks first."""
        if lock:
            tenancy.tenant_for(self.actor, entitlements.quota_for(self.actor, key).tenant_id, lock=True)
        return entitlements.quota_for(self.actor, key)

    def require(self, row: Quota) -> None:
        """As the service."""
        quota_changes.require_quota_manager(self.actor, row.tenant)

    def shown(self, row: Quota) -> QuotaBody:
        """With what is used, borrowed, lent and waiting."""
        return _quotas(self)(row)

    def change(self, row: Quota, asked: Body) -> Quota:
        """Other amounts; the offer is fixed."""
        spec, offer = asked["spec"], row.offer
        if spec["offer"] not in (offer.slug, str(offer.pk)):
            words = "It is fixed once a quota is made."
            raise Invalid([FieldProblem("/spec/offer", "read_only_field", words)])
        amounts, now = _amounts(spec), timezone.now()
        return quota_changes.set_quota(
            actor=self.actor, tenant=row.tenant, offer=offer, amounts=amounts, now=now
        )

    def told(self, before: Quota, after: Quota) -> Body:
        """What it does to the department."""
        return _effect(self.actor, after, before.nominal_quota)


class QuotaMoveView(ApiView):
    """Moving guarantee within a department."""

    scope_group = ScopeGroup.QUOTAS
    may_match = ("POST",)

    @takes(MoveSerializer)
    @answers(200, QuotaBody, etag=True)
    @rehearses(QuotaRehearsalBody)
    @refuses("already_exists", "offer_not_allowed", "quota_exceeded", "wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """To another tenant of the department, whose sum stays; answers what this one has left."""

        def effect_then(both: tuple[Move, Quota]) -> Body:
            does = moving.effect_of(actor=self.actor, move=both[0], now=timezone.now())
            return {"effect": effect_body(does)}

        def answer(both: tuple[Move, Quota]) -> Response:
            return Response(_quotas(self)(both[1]), headers={"ETag": etag(both[1])})

        def once() -> Response:
            act = partial(self._move, key)
            return written(request, act, answer, manifests=lambda both: _manifests(both[1]), told=effect_then)

        return idempotent(request, once)

    def _move(self, key: str) -> tuple[Move, Quota]:
        giver = entitlements.quota_for(self.actor, key).tenant
        moving.require_mover(self.actor, giver)
        asked = MoveSerializer.checked(self.request.data)
        taker = references.found("/to", lambda: tenancy.tenant_for(self.actor, asked["to"]))
        moving.lock_both(giver, taker)
        quota = entitlements.quota_for(self.actor, key)
        require_match(self.request, quota.generation, required=False)
        move = Move(giver, taker, quota.offer, asked["count"], asked["reason"])
        return move, moving.move_quota(actor=self.actor, move=move, now=timezone.now())


_AMOUNTS = ("nominal_quota", "borrowing_limit", "lending_limit")


def _amounts(spec: Mapping[str, Any]) -> Amounts:
    return Amounts(*(spec[field] for field in _AMOUNTS))


def _quotas(view: ApiView) -> Callable[[Quota], QuotaBody]:
    bars: dict[Any, dict[Any, standing.QuotaBar]] = {}
    queues: dict[Any, TenantQueue | None] = {}

    def shown(quota: Quota) -> QuotaBody:
        if quota.tenant_id not in bars:
            found = standing.quota_bars(view.actor, quota.tenant, now=timezone.now())
            bars[quota.tenant_id] = {bar.offer.pk: bar for bar in found}
            queues[quota.tenant_id] = TenantQueue.objects.filter(tenant=quota.tenant_id).first()
        return quota_body(quota, bars[quota.tenant_id].get(quota.offer_id), queues[quota.tenant_id])

    return shown


def _effect(actor: Actor, quota: Quota, before: int) -> Body:
    """What a rehearsal of a quota tells besides: the sum, who starts, who loses borrowed devices."""
    found = effect.preview_quota_effect(quota.tenant, quota.offer, before=before, now=timezone.now())
    return {"effect": effect_body(effect.seen_by(actor, found))}
