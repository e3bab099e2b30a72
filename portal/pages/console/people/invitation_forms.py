"""The form that decides on an invitation. The rules are in the services."""

from typing import ClassVar

from django import forms

from portal.pages.parts.forms import OnceForm


class DecideForm(OnceForm):
    """Yes or no, and why."""

    APPROVE: ClassVar[str] = "approve"

    decision = forms.ChoiceField(choices=[(APPROVE, "Approve"), ("decline", "Decline")])
    reason = forms.CharField(
        label="Why", max_length=500, required=False, help_text="The team reads it. A refusal needs one."
    )
