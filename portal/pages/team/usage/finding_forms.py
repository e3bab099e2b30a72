"""The forms for findings and idle policies. The rules are in the services."""

from datetime import time
from typing import Any

from django import forms

from apps.metering.findings.rules.idle_policy import BOUNDS, Policy
from apps.metering.specs import IdleMode
from portal.pages.parts.forms import SHORT, MomentField, OnceForm

MINUTE = 60


class ReasonForm(OnceForm):
    """Why; the audit record keeps it."""

    reason = forms.CharField(label="Why", max_length=500, required=False, help_text="The owner reads it.")


class DismissForm(OnceForm):
    """Why the finding is wrong, and until when."""

    reason = forms.CharField(
        label="Why the finding is wrong", max_length=500, help_text="Platform engineers read it."
    )
    until = MomentField(
        label="Until (UTC)",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", **SHORT}, format="%Y-%m-%dT%H:%M"),
        help_text="Empty: the longest time allowed.",
    )


class SnoozeForm(OnceForm):
    """Until when it is put off."""

    until = MomentField(
        label="Until (UTC)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", **SHORT}, format="%Y-%m-%dT%H:%M"),
    )
    reason = forms.CharField(label="Why", max_length=500, required=False)


def _minutes(label: str, name: str, words: str) -> forms.IntegerField:
    least, most = (bound // MINUTE for bound in BOUNDS[name])
    return forms.IntegerField(
        label=label,
        min_value=least,
        max_value=most,
        widget=forms.NumberInput(attrs=SHORT),
        help_text=words,
    )


def _clock(label: str, words: str = "") -> forms.TimeField:
    widget = forms.TimeInput(attrs={"type": "time", **SHORT}, format="%H:%M")
    return forms.TimeField(label=label, required=False, widget=widget, help_text=words)


class PolicyForm(OnceForm):
    """A tenant's idle policy, in minutes and local hours."""

    mode = forms.ChoiceField(
        label="What happens", choices=IdleMode.choices(), widget=forms.Select(attrs=SHORT)
    )
    idle = _minutes("Idle after, minutes", "idle_seconds", "It counts as idle after this long without work.")
    countdown = _minutes("Countdown, minutes", "countdown_seconds", "Between the warning and the stop.")
    extension = _minutes(
        "An extension, minutes", "extension_seconds", "How long one extension delays the stop."
    )
    most_extensions = forms.IntegerField(
        label="Extensions by the owner",
        **BOUNDS["most_extensions"].bounds,
        widget=forms.NumberInput(attrs=SHORT),
    )
    quiet_from = _clock("Quiet from", "Nothing is stopped in quiet hours; they may span midnight.")
    quiet_to = _clock("Quiet to")
    office_from = _clock(
        "Office hours from", "A notebook counts as idle in office hours only. Empty: 09:00 to 18:00."
    )
    office_to = _clock("Office hours to")
    time_zone = forms.CharField(
        label="Time zone",
        max_length=64,
        widget=forms.TextInput(attrs=SHORT),
        help_text="Such as Europe/Berlin.",
    )

    def clean(self) -> dict[str, Any] | None:
        """Hours have both ends or none."""
        typed = super().clean() or {}
        for name in ("quiet", "office"):
            if (typed.get(f"{name}_from") is None) != (typed.get(f"{name}_to") is None):
                self.add_error(f"{name}_to", "Give both ends, or neither.")
        return typed

    def policy(self) -> Policy:
        """What is set; valid forms only."""
        typed = self.cleaned_data
        return Policy(
            mode=IdleMode(typed["mode"]),
            idle_seconds=typed["idle"] * MINUTE,
            countdown_seconds=typed["countdown"] * MINUTE,
            extension_seconds=typed["extension"] * MINUTE,
            most_extensions=typed["most_extensions"],
            quiet=_hours(typed["quiet_from"], typed["quiet_to"]),
            office=_hours(typed["office_from"], typed["office_to"]),
            time_zone=typed["time_zone"],
        )


def _hours(begins: time | None, ends: time | None) -> tuple[time, time] | None:
    return None if begins is None or ends is None else (begins, ends)


def typed_of(policy: Policy) -> dict[str, Any]:
    """A policy as the form shows it."""
    quiet, office = policy.quiet or (None, None), policy.office or (None, None)
    return {
        "mode": str(policy.mode),
        "idle": policy.idle_seconds // MINUTE,
        "countdown": policy.countdown_seconds // MINUTE,
        "extension": policy.extension_seconds // MINUTE,
        "most_extensions": policy.most_extensions,
        "quiet_from": quiet[0],
        "quiet_to": quiet[1],
        "office_from": office[0],
        "office_to": office[1],
        "time_zone": policy.time_zone,
    }
