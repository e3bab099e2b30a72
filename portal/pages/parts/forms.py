"""What forms share: how fields look, and that a second press makes nothing more."""

from typing import Any
from uuid import uuid4

from django import forms

SHORT = {"class": "short"}
"""A field that needs no whole line."""
PLAIN = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
"""A field that takes a name, not a sentence."""


class OnceForm(forms.Form):
    """A form that makes something: its hidden key makes a second press do nothing more."""

    key = forms.UUIDField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["key"].initial = uuid4
