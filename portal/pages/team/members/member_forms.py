"""The forms for members and service accounts. The rules are in the services."""

from datetime import datetime, timedelta

from django import forms

from apps.accounts.services import TokenWish
from apps.tenants.specs import RegistryLogin, Role
from portal.pages.account.sign_in_forms import TokenForm
from portal.pages.parts.forms import PLAIN, SHORT, OnceForm


class MemberForm(OnceForm):
    """Somebody's role in the tenant, or an invitation of who has no account."""

    username = forms.CharField(
        label="Username or e-mail",
        max_length=254,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="By e-mail you can invite somebody who has no account yet.",
    )
    role = forms.ChoiceField(choices=Role.choices(), widget=forms.Select(attrs=SHORT))


class AccountForm(OnceForm):
    """A service account of the tenant."""

    slug = forms.CharField(label="Name", max_length=40, help_text="Such as nightly-sweep.")
    role = forms.ChoiceField(choices=Role.choices(), widget=forms.Select(attrs=SHORT))


class RegistryForm(OnceForm):
    """How images of a registry are pulled. The password is never shown again, not even after a refusal."""

    registry = forms.CharField(
        max_length=253, widget=forms.TextInput(attrs=PLAIN), help_text="Its host, such as quay.io."
    )
    username = forms.CharField(label="User", max_length=255, widget=forms.TextInput(attrs=PLAIN))
    password = forms.CharField(
        label="Password or token",
        max_length=8192,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Best of an account that can only pull. It is kept sealed and shown to nobody.",
    )

    def login(self) -> RegistryLogin:
        """What is asked for; valid forms only."""
        typed = self.cleaned_data
        return RegistryLogin(typed["registry"], typed["username"], typed["password"])


class AccountTokenForm(TokenForm):
    """A token of a service account: it reaches the account's tenant and no other."""

    tenants = None  # type: ignore[assignment]  # Django's way to leave a field out

    def wish(self, now: datetime) -> TokenWish:
        """What is asked for; valid forms only."""
        data = self.cleaned_data
        return TokenWish(data["name"], self.scopes(), [], now + timedelta(days=data["days"]))
