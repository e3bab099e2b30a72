"""What is filled in for another size of a notebook or service, and what its pages show."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django import forms
from django.conf import settings
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.errors import Conflict, DomainError, Invalid
from apps.quotas.allowances.selectors import standing
from apps.quotas.allowances.selectors.standing import OfferChoice
from apps.quotas.models import Offer
from apps.workloads import registry
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.selectors.admission_check import PriceMoved
from apps.workloads.lifecycle.services import resizing
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange, WorkloadSpec
from portal.pages.parts.forms import SHORT
from portal.pages.team.workloads import as_typed, workload_detail
from portal.pages.team.workloads.new_workload import Shown, price_of
from portal.pages.team.workloads.template_forms import told

FIELDS, REVIEW = "team/workloads/size/fields.html", "team/workloads/size/review.html"
LONGEST = 40


class SizeForm(forms.Form):
    """Offer, devices, CPU, memory and lease. The request's own parser decides."""

    offer = forms.ChoiceField(label="Offer")
    count = forms.CharField(label="Devices", max_length=LONGEST, help_text="Of this offer; 0 of cores.")
    cpu = forms.CharField(
        label="CPU cores", required=False, max_length=LONGEST, help_text="Empty: as the offer has."
    )
    memory = forms.CharField(
        label="Memory", required=False, max_length=LONGEST, help_text="16Gi. Empty: as the offer."
    )
    run_hours = forms.CharField(
        label="Stops after hours",
        max_length=LONGEST,
        help_text="Such as 8, or 90m. It counts from its start.",
    )

    def __init__(
        self, data: Mapping[str, Any] | None, *, row: Workload, offers: list[OfferChoice], **options: Any
    ) -> None:
        super().__init__(data, **options)
        self.row, self.spec = row, reading.spec_of(row)
        self.fields["offer"].choices = [(each.offer.slug, told(each)) for each in offers]  # type: ignore[attr-defined]
        if not registry.of(row.kind).is_leased:
            self.fields["run_hours"].required = False
            self.fields["run_hours"].help_text = "Such as 8, or 90m. Empty: until somebody stops it."
        for name in ("count", "cpu", "memory", "run_hours"):
            self.fields[name].widget.attrs |= SHORT

    def clean(self) -> dict[str, Any]:
        """What is there, with these in it."""
        typed: dict[str, Any] = super().clean() or {}
        if self.errors:
            return typed
        there = parsing.as_json(reading.spec_of(self.row))
        size = {
            "offer": typed["offer"],
            "count": as_typed.number(typed["count"]),
            "cpu": typed["cpu"] or None,
            "memory": typed["memory"] or None,
            "max_run_seconds": as_typed.seconds(typed["run_hours"]),
        }
        try:
            self.spec = parsing.parse({**there, **size})
        except Invalid as refusal:
            self.take(refusal)
        return typed

    def take(self, refusal: Invalid) -> None:
        """Put each problem beside its field, in the words the API uses."""
        for problem in refusal.problems:
            name = problem.pointer.removeprefix("#").removeprefix("/spec/").split("/")[0]
            name = {"max_run_seconds": "run_hours"}.get(name, name)
            self.add_error(name if name in self.fields else None, problem.detail)


@dataclass(frozen=True)
class Asked:
    """The change so far."""

    actor: Actor
    row: Workload
    form: SizeForm
    now: datetime

    @property
    def change(self) -> WorkloadChange:
        """What the services are asked; only of a valid form."""
        return WorkloadChange(spec=self.form.spec)


def asked(
    actor: Actor, row: Workload, data: Mapping[str, Any] | None, initial: Mapping[str, Any] | None = None
) -> Asked:
    """The form of a workload that the actor may change; raises NotAllowed, or Conflict for what has no size
    to change.
    """
    writing.require_operate(actor, row)
    writing.require_alive(row)
    if not registry.of(row.kind).begins_again:
        words = f"A {row.kind} keeps its size once it is asked for."
        raise Conflict(words, hint="Take New like this on its page, and change it there.")
    now = timezone.now()
    chosen = row.next_offer or row.offer
    every = standing.offer_choices(row.tenant, now=now)
    offers = [each for each in every if each.allowed or each.offer.pk in (row.offer_id, chosen.pk)]
    there = _typed(reading.spec_on(row, chosen), chosen) | dict(initial or {})
    return Asked(actor, row, SizeForm(data, row=row, offers=offers, initial=there), now)


def fields(asked: Asked, refusal: DomainError | None = None) -> dict[str, Any]:
    """The form, also after a refusal."""
    row, phase = asked.row, Phase(asked.row.phase)
    return workload_detail.frame(row) | {
        "form": asked.form,
        "refusal": refusal,
        "failed": bool(refusal or asked.form.errors),
        "is_on": phase in (Phase.STARTING, Phase.RUNNING),
        "is_stopping": phase is Phase.STOPPING,
        "live_topics": [],
    }


def review(asked: Asked) -> Shown:
    """What it comes to; the same checks and refusals as doing it, and nothing is kept."""
    if not asked.form.is_valid():
        return Shown(FIELDS, fields(asked), 422)
    try:
        found = resizing.preview_resize(
            actor=asked.actor, workload=asked.row, spec=asked.form.spec, now=asked.now
        )
    except DomainError as refusal:
        return _refused(asked, refusal)
    typed = {name: value for name, value in asked.form.cleaned_data.items() if name in asked.form.fields}
    return Shown(
        REVIEW,
        fields(asked)
        | {
            "resize": found,
            "preview": found.preview,
            "spec_after": found.preview.spec,
            "before": found.before,
            "starts_now": found.preview.verdict.kind == "now",
            "ends_at_once": found.stops_at is not None and found.stops_at <= asked.now,
            "now": asked.now,
            "key": uuid4(),
            "currency": settings.CONFIG.currency,
            "back": f"{workload_detail.url(asked.row)}size/?{urlencode(typed)}",
        },
    )


def change(asked: Asked, typed: Mapping[str, Any]) -> Shown | Workload:
    """Do it, at the price that was seen; else the step to go back to with what is wrong."""
    if not asked.form.is_valid():
        return Shown(FIELDS, fields(asked), 422)
    wanted = replace(asked.change, restart=typed.get("restart") == "yes")
    seen = price_of(typed.get("seen_hourly", ""))
    try:
        return resizing.resize_workload(
            actor=asked.actor, workload=asked.row, change=wanted, now=asked.now, seen_hourly=seen
        )
    except PriceMoved as moved:
        shown = review(asked)
        return Shown(shown.template, shown.context | {"moved": moved.extra, "failed": True}, moved.status)
    except DomainError as refusal:
        return _refused(asked, refusal)


def _refused(asked: Asked, refusal: DomainError) -> Shown:
    if isinstance(refusal, Invalid):
        asked.form.take(refusal)
        return Shown(FIELDS, fields(asked), 422)
    return Shown(FIELDS, fields(asked, refusal), refusal.status)


def _typed(spec: WorkloadSpec, offer: Offer) -> dict[str, str]:
    there, lease = parsing.as_json(spec), reading.completed(spec, offer).max_run_seconds
    return {
        "offer": spec.offer,
        "count": str(spec.count),
        "cpu": there["cpu"] or "",
        "memory": there["memory"] or "",
        "run_hours": as_typed.seconds_shown(lease),
    }
