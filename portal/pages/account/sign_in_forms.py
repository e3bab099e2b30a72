"""The forms of signing in and of making a token; the rules are in the services."""

from datetime import datetime, timedelta
from typing import Any

from django import forms

from apps.accounts.services import DEFAULT_DAYS, TokenWish
from apps.accounts.specs import ScopeGroup
from apps.ranges import TOKEN_DAYS
from portal.pages.parts.forms import SHORT

READ, WRITE = "read", "write"


class SignInForm(forms.Form):
    """Username and password; they are checked elsewhere, with one answer for every mistake."""

    username = forms.CharField(
        max_length=150, widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"})
    )
    password = forms.CharField(
        max_length=500, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class PasswordForm(forms.Form):
    """The password that an invited person chooses, twice."""

    password = forms.CharField(
        max_length=500,
        strip=False,
        help_text="12 characters or more.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        label="Repeat the password",
        max_length=500,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean_again(self) -> str:
        """A typing mistake would lock the person out."""
        again: str = self.cleaned_data["again"]
        if again != self.cleaned_data.get("password"):
            raise forms.ValidationError("The two passwords differ.")
        return again


class TokenForm(forms.Form):
    """A token's name, life and reach: for each group nothing, reading, or writing too."""

    name = forms.CharField(max_length=120, help_text="What uses it, such as nightly-sweep.")
    days = forms.IntegerField(
        label="Days until it ends",
        **TOKEN_DAYS.bounds,
        initial=DEFAULT_DAYS,
        widget=forms.NumberInput(attrs=SHORT),
    )
    tenants = forms.CharField(
        required=False,
        max_length=4000,
        help_text="Tenants it reaches, separated by commas. Empty: all of yours.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for group in ScopeGroup:
            self.fields[f"reach_{group}"] = forms.ChoiceField(
                label=group.label,
                choices=[("", "No access"), (READ, "Read"), (WRITE, "Read and write")],
                required=False,
                widget=forms.Select(attrs=SHORT),
            )

    def clean(self) -> dict[str, Any]:
        """A token without any scope would reach everything; a form must say so by choosing."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.scopes():
            raise forms.ValidationError("Choose what the token may reach.")
        return cleaned

    def scopes(self) -> list[str]:
        """The scopes chosen."""
        chosen = {group: self.cleaned_data.get(f"reach_{group}") for group in ScopeGroup}
        return [f"{group}:{verb}" for group, verb in chosen.items() if verb]

    def wish(self, now: datetime) -> TokenWish:
        """What is asked for; valid forms only."""
        data = self.cleaned_data
        tenants = [slug.strip() for slug in data["tenants"].split(",") if slug.strip()]
        return TokenWish(data["name"], self.scopes(), tenants, now + timedelta(days=data["days"]))
