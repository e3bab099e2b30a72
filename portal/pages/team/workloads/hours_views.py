"""The page of a notebook's working hours: parse, call, present."""

from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts.actors import actor_of
from apps.errors import Conflict, Invalid
from apps.metering.findings.selectors.finding_selectors import policy_of
from apps.workloads.changes.services import writing
from apps.workloads.hours_specs import USUAL, WEEK, WorkingHours, clock, days_text
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading, working_hours
from apps.workloads.spec import parsing
from apps.workloads.spec.hours import LONGEST_ZONE
from apps.workloads.specs import WorkloadChange
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.parts.forms import SHORT, OnceForm
from portal.pages.team.workloads import as_typed, workload_detail

LONGEST, WEEK_HOURS = 40, 168


class HoursForm(OnceForm):
    """Days and times. The request's own parser decides."""

    days = forms.CharField(
        label="Days", max_length=LONGEST, required=False, help_text="Such as Mon-Fri, or Mon, Wed, Fri."
    )
    begins = forms.CharField(
        label="From",
        max_length=LONGEST,
        required=False,
        widget=forms.TextInput(attrs=SHORT),
        help_text="Empty: 08:00.",
    )
    ends = forms.CharField(
        label="Until",
        max_length=LONGEST,
        required=False,
        widget=forms.TextInput(attrs=SHORT),
        help_text="The same day, at most 24:00. Empty: 18:00.",
    )
    time_zone = forms.CharField(
        label="Time zone",
        max_length=LONGEST_ZONE,
        required=False,
        help_text="Such as Europe/Berlin. Empty: UTC.",
    )

    def __init__(self, *args: Any, row: Workload, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.there = parsing.as_json(reading.spec_of(row))
        self.change = WorkloadChange()

    def clean(self) -> dict[str, Any]:
        """What is there, with these in it, or with none."""
        typed: dict[str, Any] = super().clean() or {}
        hours = {
            "days": as_typed.days(typed.get("days")),
            "from": as_typed.clock(typed.get("begins")),
            "until": as_typed.clock(typed.get("ends")),
            "time_zone": typed.get("time_zone"),
        }
        block = {**self.there["notebook"], "hours": None if self.is_removal else hours}
        try:
            self.change = WorkloadChange(spec=parsing.parse({**self.there, "notebook": block}))
        except Invalid as refusal:
            self._take(refusal)
        return typed

    @property
    def is_removal(self) -> bool:
        """Whether it shall have no hours any more."""
        return "remove" in self.data

    def _take(self, refusal: Invalid) -> None:
        """Put each problem beside its field, in the words the API uses."""
        for problem in refusal.problems:
            name = problem.pointer.rpartition("/")[2]
            name = {"from": "begins", "until": "ends"}.get(name, name)
            self.add_error(name if name in self.fields else None, problem.detail)


@require_form
def hours_page(request: HttpRequest, tenant: str, workload: UUID) -> HttpResponse:
    """The hours there are, or usual ones to begin with; a POST sets or removes them."""
    actor = actor_of(request)
    row = reading.workload_for(actor, workload, tenant)
    writing.require_operate(actor, row)
    writing.require_alive(row)
    if reading.spec_of(row).notebook is None:
        raise Conflict(f"A {row.kind} has no working hours.", hint="Set how long it may run instead.")
    form = HoursForm(request.POST or None, row=row, initial=_typed(row))

    def make() -> str:
        now = timezone.now()
        verbs.update_workload(actor=actor, workload=row, change=form.change, now=now)
        return workload_detail.url(row)

    return form_page(request, "team/workloads/hours.html", lambda: _page(row), form=form, make=make)


def _typed(row: Workload) -> dict[str, str]:
    hours = row.hours or WorkingHours(WEEK[:5], *USUAL, policy_of(row.tenant).time_zone)
    return {
        "days": days_text(hours.days),
        "begins": clock(hours.begins),
        "ends": clock(hours.ends),
        "time_zone": hours.time_zone,
    }


def _page(row: Workload) -> dict[str, Any]:
    shown, hours = workload_detail.frame(row), row.hours
    price, a_week = shown["hourly"], Decimal(hours.a_week) if hours else None
    return shown | {
        "hours": hours,
        "hours_next": working_hours.words_of(row, timezone.now()),
        "costs": None if price is None or a_week is None else (price * a_week, price * WEEK_HOURS),
        "live_topics": [],
    }
