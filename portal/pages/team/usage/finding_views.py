"""The pages of findings and of a team's idle policy: parse, call, present."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.services import idle_policies, responses
from apps.metering.models import Finding
from apps.tenants.selectors import tenant_for
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.parts.htmx import render_page
from portal.pages.team.usage import finding_pages
from portal.pages.team.usage.finding_forms import DismissForm, PolicyForm, ReasonForm, SnoozeForm, typed_of
from portal.pages.templatetags.page import per_hour


@require_safe
def findings_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What is found of a team's workloads."""
    actor = actor_of(request)
    shown = finding_pages.team(actor, tenant_for(actor, tenant), request.GET, now=timezone.now())
    return render_page(request, "team/usage/findings.html", shown, parts=finding_pages.PARTS)


@require_safe
def findings_file(request: HttpRequest, tenant: str | None = None) -> HttpResponse:
    """The list of a team, or of everybody's, as CSV."""
    actor = actor_of(request)
    return finding_pages.csv_of(actor, request.GET, tenant_for(actor, tenant) if tenant else None)


@require_safe
def finding_page(request: HttpRequest, tenant: str, finding: UUID) -> HttpResponse:
    """One finding with its evidence."""
    actor = actor_of(request)
    row = selectors.finding_for(actor, finding, tenant)
    shown = finding_pages.detail(actor, row, request.GET, now=timezone.now())
    return render_page(request, "team/usage/finding.html", shown, parts=finding_pages.DETAIL_PARTS)


@require_safe
def use_file(request: HttpRequest, tenant: str, finding: UUID) -> HttpResponse:
    """The figures of its picture as CSV."""
    actor = actor_of(request)
    row = selectors.finding_for(actor, finding, tenant)
    return finding_pages.use_file(actor, row, request.GET, now=timezone.now())


@require_form
def answer_page(request: HttpRequest, tenant: str, finding: UUID, answer: str) -> HttpResponse:
    """One answer's form; a POST gives it and leads back to the finding."""
    actor, now, known = actor_of(request), timezone.now(), ACTS.get(answer)
    row = selectors.finding_for(actor, finding, tenant)
    if known is None:
        raise NotFound
    responses.require_answer(actor, row)
    form = known.form(_sent(request))

    def make() -> str:
        freed = finding_pages.hourly(row, now=now) if answer == "stop" else None
        known.do(actor, row, form.cleaned_data, now)
        saved = f" {per_hour(freed, settings.CONFIG.currency)} saved." if freed else ""
        messages.success(request, f"{known.done}, {now:%H:%M} UTC.{saved}")
        return selectors.url_of(row)

    shown = lambda: {"tenant": row.tenant, "row": row, "line": finding_pages.line(row), "act": known}  # noqa: E731 - read only where the page is shown
    return form_page(request, "team/usage/finding_act.html", shown, form=form, make=make)


@require_form
def policy_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """What happens to a team's idle work; a POST sets it."""
    actor, now = actor_of(request), timezone.now()
    team = tenant_for(actor, tenant)
    form = PolicyForm(_sent(request), initial=typed_of(selectors.policy_of(team)))

    def make() -> str:
        idle_policies.set_idle_policy(actor=actor, tenant=team, policy=form.policy(), now=now)
        messages.success(request, "Set. It counts from now on.")
        return request.path

    if request.method == "POST":
        idle_policies.require_setter(actor, team)
    shown = lambda: finding_pages.policy(actor, team)  # noqa: E731 - as above
    return form_page(request, "team/usage/idle_policy.html", shown, form=form, make=make)


def _sent(request: HttpRequest) -> QueryDict | None:
    """The data that was sent, even if it was only a button."""
    return request.POST if request.method == "POST" else None


@dataclass(frozen=True)
class Act:
    """A form with what it does; `done` is told after it."""

    title: str
    words: str
    button: str
    done: str
    form: type[Any]
    do: Callable[[Actor, Finding, dict[str, Any], datetime], Any]
    tone: str = "main"


def _said(typed: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: typed[name] for name in names}


ACTS = {
    "dismiss": Act(
        "Not waste",
        "It is kept with your reason, and no countdown runs while it is dismissed.",
        "Dismiss",
        "Dismissed",
        DismissForm,
        lambda actor, row, typed, now: responses.dismiss(
            actor=actor, finding=row, now=now, **_said(typed, "reason", "until")
        ),
    ),
    "snooze": Act(
        "Not now",
        "It comes back then if nothing has changed.",
        "Put off",
        "Put off",
        SnoozeForm,
        lambda actor, row, typed, now: responses.snooze(
            actor=actor, finding=row, now=now, **_said(typed, "reason", "until")
        ),
    ),
    "extend": Act(
        "Extend",
        "The idle policy says how long the stop is delayed.",
        "Extend",
        "Extended",
        ReasonForm,
        lambda actor, row, typed, now: responses.extend(
            actor=actor, finding=row, now=now, **_said(typed, "reason")
        ),
    ),
    "warn": Act(
        "Warn owner",
        "The owner and the leads are told, and it is stopped in 30 minutes unless it is used, extended or "
        "answered, or its telemetry fails.",
        "Warn owner",
        "Warned",
        ReasonForm,
        lambda actor, row, typed, now: responses.warn(
            actor=actor, finding=row, now=now, **_said(typed, "reason")
        ),
    ),
    "stop": Act(
        "Stop and release",
        "Everything in memory is lost. Disks are kept, and it can be started again.",
        "Stop and release",
        "Stopping, asked",
        ReasonForm,
        lambda actor, row, typed, now: responses.stop(
            actor=actor, finding=row, now=now, **_said(typed, "reason")
        ),
        "danger",
    ),
    "resize": Act(
        "Take it at the next start",
        "It keeps running as it is. Stop and start it to take the suggested offer. Your disks stay.",
        "Take it at the next start",
        "Chosen",
        ReasonForm,
        lambda actor, row, typed, now: responses.resize(
            actor=actor, finding=row, now=now, **_said(typed, "reason")
        ),
    ),
}
