"""The forms of rules on groups. The rules on their values are the services'."""

from typing import Any

from django import forms

from apps.accounts.oidc import flows
from apps.accounts.oidc.client import LONGEST_GROUP
from apps.accounts.specs import PlatformRole
from apps.tenants.people.services.group_rules import RuleWish
from apps.tenants.specs import DepartmentRole, RightKind, Role
from portal.pages.parts.forms import PLAIN, SHORT, OnceForm

RIGHTS = {
    f"{RightKind.TENANT}:{Role.MEMBER}": "Member of the tenant",
    f"{RightKind.TENANT}:{Role.LEAD}": "Team lead of the tenant",
    f"{RightKind.DEPARTMENT}:{DepartmentRole.MANAGER}": "Manager of the department",
    f"{RightKind.PLATFORM}:{PlatformRole.AUDITOR}": "Auditor of the installation",
    f"{RightKind.PLATFORM}:{PlatformRole.PLATFORM}": "Platform engineer",
}
MOST_LINES = 200


def _providers() -> list[tuple[str, str]]:
    return [(each.slug, each.name) for each in flows.providers()]


class RuleForm(OnceForm):
    """A new rule."""

    provider = forms.ChoiceField(widget=forms.Select(attrs=SHORT))
    group = forms.CharField(
        max_length=LONGEST_GROUP,
        help_text="Exactly as the provider writes it, such as /research/vision.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    right = forms.ChoiceField(label="Gives", choices=list(RIGHTS.items()))
    target = forms.CharField(
        label="Tenant or department",
        max_length=40,
        required=False,
        help_text="Its slug; empty for a right over the installation.",
        widget=forms.TextInput(attrs=PLAIN),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["provider"].choices = _providers()  # type: ignore[attr-defined]

    def wish(self) -> RuleWish:
        """What is asked for; valid forms only."""
        data = self.cleaned_data
        kind, _, role = data["right"].partition(":")
        return RuleWish(data["provider"], data["group"], kind, data["target"], role)


class EffectForm(forms.Form):
    """Whose sign-in is tried: somebody's with the groups of the last time, or any groups."""

    of = forms.ChoiceField(label="Provider", widget=forms.Select(attrs=SHORT))
    username = forms.CharField(
        max_length=150,
        required=False,
        help_text="Empty: a new person.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    groups = forms.CharField(
        max_length=20_000,
        required=False,
        help_text="One a line. Empty: those of the person's last sign-in.",
        widget=forms.Textarea(attrs={"rows": 3, **PLAIN}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["of"].choices = _providers()  # type: ignore[attr-defined]

    def lines(self) -> list[str]:
        """The groups typed; valid forms only."""
        typed: str = self.cleaned_data["groups"]
        return [line for line in (part.strip() for part in typed.splitlines()) if line][:MOST_LINES]
