"""What is filled in for an act on workloads that are there, and for finding them."""

from collections.abc import Iterable
from typing import Any

from django import forms

from apps.ranges import DEVICES_PER_POD, MORE_DEVICES, RUN_SECONDS
from apps.workloads.specs import Kind, Phase

Choices = Iterable[tuple[str, str]]


class ReasonForm(forms.Form):
    """Why it is done; kept in the audit record."""

    reason = forms.CharField(label="Reason (optional)", required=False, max_length=500)


class DeleteForm(forms.Form):
    """Whether the disks stay."""

    keep_volumes = forms.BooleanField(
        label="Keep its disks",
        required=False,
        initial=True,
        help_text="They are listed under Kept disks: start it again with them there, or delete them.",
    )


class ExtendForm(forms.Form):
    """How much longer."""

    seconds = forms.IntegerField(**RUN_SECONDS.bounds)


class ShrinkForm(forms.Form):
    """To how much: devices of each pod, and pods where there were several."""

    count = forms.IntegerField(**DEVICES_PER_POD.bounds)
    pods = forms.IntegerField(**MORE_DEVICES.bounds, required=False)


class FilterForm(forms.Form):
    """Filters and order of the list; they live in the URL. Unknown values, as in an old bookmark, are
    ignored.
    """

    q = forms.CharField(
        label="Search", required=False, max_length=100, widget=forms.TextInput(attrs={"type": "search"})
    )
    phase = forms.ChoiceField(label="Status", required=False, choices=[("", "Any"), *Phase.choices()])
    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "Any"), *Kind.choices()])

    def __init__(self, data: Any, *, owners: Choices, orders: Choices) -> None:
        super().__init__(data)
        self.fields["owner"] = forms.ChoiceField(
            label="Member", required=False, choices=[("", "Anybody"), ("me", "Me"), *owners]
        )
        self.fields["sort"] = forms.ChoiceField(label="Order", required=False, choices=orders)

    @property
    def chosen(self) -> dict[str, str]:
        """What narrows or orders the list."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value}
