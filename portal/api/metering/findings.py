"""REST of findings and idle policies. Contract: docs/api.md."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.services import idle_policies, responses
from apps.metering.models import Finding, IdlePolicy
from apps.metering.specs import FindingKind, FindingPhase
from apps.tenants.selectors import tenant_for
from apps.workloads.selectors.reading import workloads_for
from portal.api.base.documents import DocumentView, VerbView, acts, documents
from portal.api.base.references import TENANT, asked_tenant
from portal.api.base.tables import ItemsCsv
from portal.api.base.views import ApiView, paginate
from portal.api.declared.declaring import answers, pages
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


class _Answer(VerbView[Finding]):
    """One answer to a finding; the right is checked before the body is read."""

    scope_group = ScopeGroup.METERING
    find = staticmethod(selectors.finding_for)
    body = staticmethod(finding_body)

    def require(self, row: Finding) -> None:
        """As the service."""
        responses.require_answer(self.actor, row)


@acts(FindingBody, "wrong_phase", "extension_limit", post="Dismiss with a reason; a countdown ends.")
class DismissView(_Answer):
    """Dismisses a finding."""

    takes = DismissSerializer

    def act(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """With reason and end."""
        return responses.dismiss(actor=self.actor, finding=row, now=timezone.now(), **asked)


@acts(FindingBody, "wrong_phase", "extension_limit", post="Until a moment; then it is open again.")
class SnoozeView(_Answer):
    """Snoozes a finding."""

    takes = SnoozeSerializer

    def act(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """With its end."""
        return responses.snooze(actor=self.actor, finding=row, now=timezone.now(), **asked)


@acts(
    FindingBody,
    "wrong_phase",
    "extension_limit",
    post="By the policy's extension; an owner as often as it says.",
)
class ExtendView(_Answer):
    """Extends the countdown."""

    def act(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """Once."""
        return responses.extend(actor=self.actor, finding=row, now=timezone.now(), **asked)


@acts(
    FindingBody,
    "wrong_phase",
    "offer_not_allowed",
    "quota_exceeded",
    "does_not_fit_now",
    post="Warn (a countdown of 30 minutes), stop now, or take the suggested offer at the next start.",
)
class ActView(_Answer):
    """Acts on a finding."""

    takes = ActSerializer

    def act(self, row: Finding, asked: Mapping[str, Any]) -> Finding:
        """One of the three."""
        do: Callable[..., Finding] = {
            "warn": responses.warn,
            "stop": responses.stop,
            "resize": responses.resize,
        }[asked["action"]]
        return do(actor=self.actor, finding=row, reason=asked["reason"], now=timezone.now())


@documents(
    IdlePolicyDocumentSerializer,
    IdlePolicyBody,
    get="A tenant that never set one has the defaults.",
    put="Replace it; what is left out gets its default.",
    patch="Merge (RFC 7396).",
)
class IdlePolicyView(DocumentView[IdlePolicy]):
    """What a tenant does with idle work."""

    scope_group = ScopeGroup.METERING
    matched_methods = ()
    body = staticmethod(policy_body)

    def found(self, key: str, *, lock: bool = False) -> IdlePolicy:  # noqa: ARG002 - there may be no row yet
        """By the tenant's slug or id."""
        return selectors.policy_row(tenant_for(self.actor, key))

    def require(self, row: IdlePolicy) -> None:
        """As the service."""
        idle_policies.require_setter(self.actor, row.tenant)

    def change(self, row: IdlePolicy, asked: Mapping[str, Any]) -> IdlePolicy:
        """Another policy."""
        policy, now = policy_in(asked["spec"]), timezone.now()
        return idle_policies.set_idle_policy(actor=self.actor, tenant=row.tenant, policy=policy, now=now)


def _shown(row: Finding) -> Response:
    return Response(finding_body(row))
