"""The forms for allocations. The rules are in the services."""

from django import forms

from portal.pages.parts.forms import MomentField, OnceForm

_MOMENT = {"type": "datetime-local", "class": "short", "step": "1"}
_FORMAT = "%Y-%m-%dT%H:%M:%S"


class CorrectionForm(OnceForm):
    """When it really began and ended, and why that is known."""

    begins = MomentField(label="Began (UTC)", widget=forms.DateTimeInput(attrs=_MOMENT, format=_FORMAT))
    ends = MomentField(
        label="Ended (UTC)",
        required=False,
        widget=forms.DateTimeInput(attrs=_MOMENT, format=_FORMAT),
        help_text="Empty: the observed end counts; without one it still runs.",
    )
    reason = forms.CharField(
        label="Why", max_length=500, help_text="It is kept with the correction and in the audit record."
    )
