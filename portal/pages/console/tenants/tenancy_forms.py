"""The forms for tenants, departments and people. The rules are in the services."""

from typing import Any

from django import forms

from apps.accounts.people import PersonWish
from apps.accounts.specs import Actor, PlatformRole
from apps.errors import DomainError
from apps.tenants import selectors
from apps.tenants.isolation import egress
from apps.tenants.lifecycle.services import isolation_choice
from apps.tenants.specs import Egress, EgressMode, Isolation, Suspend, TrustLevel
from portal.pages.parts.forms import PLAIN, SHORT, OnceForm


class InviteForm(OnceForm):
    """A person who shall sign in."""

    username = forms.CharField(max_length=150, widget=forms.TextInput(attrs=PLAIN))
    display_name = forms.CharField(label="Name", max_length=120, required=False)
    email = forms.EmailField(required=False)
    platform_role = forms.ChoiceField(
        label="Over the whole installation",
        choices=[("", "Nothing"), *PlatformRole.choices()],
        required=False,
        widget=forms.Select(attrs=SHORT),
    )

    def wish(self) -> PersonWish:
        """What is asked for; valid forms only."""
        data = self.cleaned_data
        return PersonWish(data["username"], data["display_name"], data["email"], data["platform_role"])


class DepartmentForm(OnceForm):
    """A department's name and who manages it."""

    name = forms.CharField(max_length=120)
    managers = forms.CharField(
        required=False,
        max_length=8000,
        help_text="Usernames, separated by commas. They look after the department's tenants.",
    )

    def usernames(self) -> list[str]:
        """The people named."""
        typed: str = self.cleaned_data["managers"]
        return [name for name in (part.strip() for part in typed.split(",")) if name]


class TenantForm(OnceForm):
    """A new tenant."""

    name = forms.CharField(max_length=120)
    slug = forms.CharField(
        max_length=40,
        required=False,
        help_text="Small letters, digits and dashes; never changes. Empty: made of the name.",
    )
    department = forms.ChoiceField()
    trust_level = forms.ChoiceField(
        choices=TrustLevel.choices(),
        initial=TrustLevel.STANDARD,
        help_text="Decides which sharing modes it may use.",
        widget=forms.Select(attrs=SHORT),
    )

    isolation = forms.ChoiceField(
        initial=Isolation.NAMESPACE,
        required=False,
        help_text="Fixed once the tenant is made. What the cluster cannot do is not listed; Fleet says why.",
        widget=forms.Select(attrs=SHORT),
    )
    namespace = forms.CharField(
        label="Take over a namespace",
        max_length=63,
        required=False,
        help_text="Empty: a new one. Else the name of one that is there; its content is shown first.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    seen = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)

    def __init__(self, actor: Actor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = selectors.departments_for(actor).filter(deleting_at=None).order_by("name")
        if not actor.is_platform:
            known = known.filter(pk__in=selectors.managed_by(actor))
        self.fields["department"].choices = [(each.slug, each.name) for each in known]  # type: ignore[attr-defined]
        there = {each.cluster_id: each.cluster for each in known}.values()
        self.fields["isolation"].choices = isolation_choice.offered(actor, there)  # type: ignore[attr-defined]


class NameForm(forms.Form):
    """A tenant's display name."""

    name = forms.CharField(max_length=120)


class SuspendForm(forms.Form):
    """Whether new work starts."""

    suspend = forms.ChoiceField(label="New work", choices=Suspend.choices(), widget=forms.Select(attrs=SHORT))


class TrustForm(forms.Form):
    """How far the tenant is trusted with others on one device."""

    trust_level = forms.ChoiceField(choices=TrustLevel.choices(), widget=forms.Select(attrs=SHORT))


class EgressForm(forms.Form):
    """Where the tenant's pods may connect to."""

    mode = forms.ChoiceField(label="Pods may connect to", choices=EgressMode.choices())
    allow = forms.CharField(
        label="Networks and ports",
        required=False,
        max_length=16_000,
        help_text="For the list: one network a line, such as 10.2.0.0/16 TCP/443 UDP. No port: every port.",
        widget=forms.Textarea(attrs={"rows": 4, **PLAIN}),
    )

    def clean(self) -> dict[str, Any]:
        """The list, read; what is wrong with it is said at its field."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            cleaned["rules"] = egress.parse(egress.from_lines(cleaned.get("allow", "")), "")
        except DomainError as error:
            self.add_error("allow", error.detail)
        return cleaned

    def egress(self) -> Egress:
        """What is asked for; valid forms only."""
        return Egress(EgressMode(self.cleaned_data["mode"]), self.cleaned_data["rules"])


class ShellForm(forms.Form):
    """Whether the tenant's members may reach their own running workloads by SSH."""

    shell = forms.ChoiceField(
        label="Shell access", choices=[("off", "Off"), ("on", "On")], widget=forms.Select(attrs=SHORT)
    )


class ReasonForm(forms.Form):
    """Why, for the audit record."""

    reason = forms.CharField(max_length=500, required=False, help_text="For the audit record.")


class DeleteForm(ReasonForm):
    """Deleting wants the slug typed."""

    slug = forms.CharField(label="Type the tenant's slug", max_length=40, widget=forms.TextInput(attrs=PLAIN))

    def __init__(self, slug: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._slug = slug

    def clean_slug(self) -> str:
        """Must be the tenant's."""
        typed: str = self.cleaned_data["slug"]
        if typed != self._slug:
            raise forms.ValidationError(f"Type {self._slug}.")
        return typed
