"""What the page of drift is narrowed by, and why somebody repairs."""

from typing import Any

from django import forms

from apps.cluster.objects.kinds import APPLIED
from portal.pages.parts.forms import PLAIN


class FilterForm(forms.Form):
    """The filters; they live in the address, under the names that REST gives them. What cannot be read is
    ignored.
    """

    cluster = forms.ChoiceField(label="Cluster", required=False)
    tenant = forms.CharField(
        label="Tenant", required=False, max_length=40, widget=forms.TextInput(attrs={**PLAIN, "size": 14})
    )
    kind = forms.ChoiceField(
        label="Kind", required=False, choices=[("", "all kinds"), *((each, each) for each in sorted(APPLIED))]
    )

    def __init__(self, data: Any, *, clusters: list[tuple[str, str]]) -> None:
        super().__init__(data)
        self.fields["cluster"].choices = [("", "all clusters"), *clusters]  # type: ignore[attr-defined]
        self.is_valid()

    @property
    def chosen(self) -> dict[str, str]:
        """What narrows the lists."""
        return {name: value for name, value in self.cleaned_data.items() if value}


class ReasonForm(forms.Form):
    """Why; the audit record keeps it."""

    reason = forms.CharField(
        label="Reason", required=False, max_length=500, help_text="The audit record keeps it."
    )
