"""What the pages of the audit record are narrowed by."""

from typing import Any

from django import forms

from apps.accounts.specs import Actor
from apps.audit.specs import Wanted
from apps.errors import NotFound
from apps.tenants.people.selectors.audit_events import chain_of
from portal.pages.parts.forms import PLAIN, MomentField

LONGEST = 150
_SEARCH = forms.TextInput(attrs={"type": "search"})
_MOMENT = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class FilterForm(forms.Form):
    """The filters; they live in the address, under the names that REST gives them. What cannot be read, as in
    an old bookmark, narrows nothing, and the page says so (`unread`).
    """

    q = forms.CharField(label="Search", required=False, max_length=100, widget=_SEARCH)
    actor = forms.CharField(
        label="Who", required=False, max_length=LONGEST, widget=forms.TextInput(attrs={**PLAIN, "size": 14})
    )
    action = forms.CharField(
        label="Act, such as workload.stop",
        required=False,
        max_length=LONGEST,
        widget=forms.TextInput(attrs={**PLAIN, "size": 18}),
    )
    since = MomentField(label="Since, UTC", required=False, widget=_MOMENT)
    until = MomentField(label="Before, UTC", required=False, widget=_MOMENT)
    tenant = forms.CharField(
        label="Tenant",
        required=False,
        max_length=LONGEST,
        widget=forms.TextInput(attrs={**PLAIN, "size": 12}),
    )
    kind = forms.CharField(label="Kind of thing", required=False, max_length=LONGEST)
    target = forms.CharField(label="Id of the thing", required=False, max_length=LONGEST)
    request_id = forms.CharField(label="Request", required=False, max_length=LONGEST)

    RARE = ("kind", "target", "request_id")
    """Set by links; shown where they are."""

    def __init__(self, data: Any, *, has_tenant: bool) -> None:
        super().__init__(data)
        if not has_tenant:
            del self.fields["tenant"]
        self.unread = [
            f"{self.fields[name].label}: {' '.join(map(str, said))}" for name, said in self.errors.items()
        ]
        for name in self.RARE:
            if not self.cleaned_data.get(name):
                del self.fields[name]

    @property
    def chosen(self) -> dict[str, Any]:
        """What narrows the list."""
        return {name: value for name, value in self.cleaned_data.items() if value}

    def wanted(self, actor: Actor, chain: str = "") -> Wanted | None:
        """The same as selectors take it, of one chain or of all; None where there is no such tenant."""
        asked = self.chosen
        try:
            chain = chain_of(actor, asked["tenant"]) if "tenant" in asked else chain
        except NotFound:
            return None
        one = {
            name: (asked[field],)
            for name, field in (
                ("actors", "actor"), ("actions", "action"), ("kinds", "kind"), ("targets", "target"),
                ("requests", "request_id"),
            )
            if field in asked
        }  # fmt: skip
        return Wanted(
            **one, chain=chain, since=asked.get("since"), until=asked.get("until"), words=asked.get("q", "")
        )
