"""REST of findings and idle policies. Contract: docs/api.md."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.metering import answering, idle_policies
from apps.metering import finding_selectors as selectors
from apps.metering.models import Finding, IdlePolicy
from apps.metering.specs import FindingKind, FindingPhase
from apps.tenants.selectors import tenant_for
from apps.workloads.selectors import workloads_for
from portal.api.base.references import TENANT, asked_tenant
from portal.api.base.serializers import ReasonSerializer, StrictSerializer
from portal.api.base.tables import ItemsCsv
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import as_sent, document, merged, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.declared.queries import Ids, Words
from portal.api.metering.findings_bodies import (
    ActSerializer,
    DismissSerializer,
    FindingBody,
    IdlePolicyBody,
    IdlePolicyDocumentSerializer,
    SnoozeSerializer,
    finding_body,
    policy_body,
    policy_in,
)

COLUMNS = (
    "id", "tenant", "workload", "kind", "phase", "message", "created_at", "since", "confirmed_at",
    "judged_at", "closed_at", "waste", "weekly", "currency", "repeat_count", "blocks_count",
    "blocks_message", "suggestion_action", "suggestion_offer", "suggestion_saving_weekly", "reason",
    "decided_by", "until", "countdown_stops_at", "url", "origin", "made_namespace", "made_name", "made_uid",
)  # fmt: skip
"""Of the list as CSV; the evidence is in JSON and on the page."""


WORKLOAD = Ids("workload", "Only of these workloads.")
KIND = Words("kind", "Only of these kinds.", tuple(FindingKind))
PHASE = Words("phase", "Only in these phases.", tuple(FindingPhase))


class FindingsView(ApiView):
    """The detector's findings about the workloads of your tenants."""

    scope_group = ScopeGroup.METERING
    lists = True
    renderer_classes = (JSONRenderer, ItemsCsv)
    columns = COLUMNS
    sorts = ("-created_at",)
    parameters = (TENANT, WORKLOAD, KIND, PHASE)

    @pages(FindingBody)
    def get(self, request: Request) -> Response:
        """Newest first; `phase` and `kind` with commas, closed ones included."""
        tenant, rows = asked_tenant(self, request), selectors.findings_for(self.actor)
        rows = rows.filter(tenant=tenant) if tenant else rows
        for each in (KIND, PHASE):
            asked = each.of(request)
            rows = rows if asked is None else rows.filter(**{f"{each.name}__in": asked})
        workload = WORKLOAD.of(request)
        if workload is not None:
            found = workloads_for(self.actor).filter(pk__in=workload)
            rows = rows.filter(workload__in=found)
        return paginate(request, rows, finding_body)


class FindingView(ApiView):
    """One finding."""

    scope_group = ScopeGroup.METERING

    @answers(200, FindingBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By id, with its evidence."""
        return _shown(selectors.finding_for(self.actor, key))


class _Answer(ApiView):
    """One answer to a finding; the right is checked before the body is read."""

    scope_group = ScopeGroup.METERING
    wish: ClassVar[type[StrictSerializer]] = ReasonSerializer

    def answer(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """The service's word."""
        raise NotImplementedError

    def _answer(self, request: Request, key: str) -> Response:
        row = selectors.finding_for(self.actor, key)
        answering.require_answer(self.actor, row)
        asked = self.wish.checked(request.data)
        return idempotent(request, lambda: written(request, lambda: self.answer(row, asked), _shown))


class DismissView(_Answer):
    """Dismisses a finding."""

    wish = DismissSerializer

    @takes(DismissSerializer)
    @answers(200, FindingBody)
    @refuses("wrong_phase", "extension_limit")
    def post(self, request: Request, key: str) -> Response:
        """Dismiss with a reason; a countdown ends."""
        return self._answer(request, key)

    def answer(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """With reason and end."""
        return answering.dismiss(actor=self.actor, finding=row, now=timezone.now(), **asked)


class SnoozeView(_Answer):
    """Snoozes a finding."""

    wish = SnoozeSerializer

    @takes(SnoozeSerializer)
    @answers(200, FindingBody)
    @refuses("wrong_phase", "extension_limit")
    def post(self, request: Request, key: str) -> Response:
        """Until a moment; then it is open again."""
        return self._answer(request, key)

    def answer(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """With its end."""
        return answering.snooze(actor=self.actor, finding=row, now=timezone.now(), **asked)


class ExtendView(_Answer):
    """Extends the countdown."""

    @takes(ReasonSerializer)
    @answers(200, FindingBody)
    @refuses("wrong_phase", "extension_limit")
    def post(self, request: Request, key: str) -> Response:
        """By the policy's extension; an owner as often as it says."""
        return self._answer(request, key)

    def answer(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """Once."""
        return answering.extend(actor=self.actor, finding=row, now=timezone.now(), **asked)


class ActView(_Answer):
    """Acts on a finding."""

    wish = ActSerializer

    @takes(ActSerializer)
    @answers(200, FindingBody)
    @refuses("wrong_phase", "offer_not_allowed", "quota_exceeded", "does_not_fit_now")
    def post(self, request: Request, key: str) -> Response:
        """Warn (a countdown of 30 minutes), stop now, or take the suggested offer at the next start."""
        return self._answer(request, key)

    def answer(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """One of the three."""
        act: Callable[..., Finding] = {
            "warn": answering.warn,
            "stop": answering.stop,
            "resize": answering.resize,
        }[asked["action"]]
        return act(actor=self.actor, finding=row, reason=asked["reason"], now=timezone.now())


class IdlePolicyView(ApiView):
    """What a tenant does with idle work."""

    scope_group = ScopeGroup.METERING

    @answers(200, IdlePolicyBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """A tenant that never set one has the defaults."""
        return _policy(selectors.policy_row(tenant_for(self.actor, key)))

    @takes(IdlePolicyDocumentSerializer)
    @answers(200, IdlePolicyBody)
    def put(self, request: Request, key: str) -> Response:
        """Replace it; what is left out gets its default."""
        return self._change(request, key, lambda _: document(request))

    @takes(IdlePolicyDocumentSerializer)
    @answers(200, IdlePolicyBody)
    def patch(self, request: Request, key: str) -> Response:
        """Merge (RFC 7396)."""
        return self._change(request, key, lambda now: merged(now, document(request)))

    def _change(
        self, request: Request, key: str, asked_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> Response:
        tenant = tenant_for(self.actor, key)
        idle_policies.require_setter(self.actor, tenant)

        def change() -> IdlePolicy:
            current = as_sent(policy_body(selectors.policy_row(tenant)))
            asked = IdlePolicyDocumentSerializer.checked(
                asked_of({"spec": current["spec"]}), context={"current": current}
            )
            policy = policy_in(asked["spec"])
            now = timezone.now()
            return idle_policies.set_idle_policy(actor=self.actor, tenant=tenant, policy=policy, now=now)

        return written(request, change, _policy)


def _shown(row: Finding) -> Response:
    return Response(finding_body(row))


def _policy(row: IdlePolicy) -> Response:
    return Response(policy_body(row))
