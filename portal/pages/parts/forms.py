"""What forms share: how fields look, and that a second press makes nothing more."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django import forms

from apps.tenants.models import Department, Tenant

SHORT = {"class": "short"}
"""A field that needs no whole line."""
PLAIN = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
"""A field that takes a name, not a sentence."""
_FIRST_YEAR = 1970


class MomentField(forms.DateTimeField):
    """A moment in UTC from 1970 on. With a zone, a time may lie beyond the end of UTC's calendar."""

    def to_python(self, value: Any) -> datetime | None:
        """See Django."""
        found = super().to_python(value)
        if found is None:
            return None
        try:
            at: datetime = found.astimezone(UTC)
        except OverflowError:
            at = datetime.min.replace(tzinfo=UTC)
        if at.year < _FIRST_YEAR:
            raise forms.ValidationError(f"Enter a time from {_FIRST_YEAR} on.", code="invalid")
        return at


def to_choose(rows: Iterable[Department | Tenant]) -> list[tuple[str, str]]:
    """Departments or tenants as a form's choices. RULE: a form also offers the deleted ones that are chosen
    already, or saving it unchanged would let go of them, and so open to all what was for them alone.
    """
    return [(row.slug, f"{row.name} (deleted)" if row.deleted_at else row.name) for row in rows]


class OnceForm(forms.Form):
    """A form that makes something: its hidden key makes a second press do nothing more."""

    key = forms.UUIDField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["key"].initial = uuid4
