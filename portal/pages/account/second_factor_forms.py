"""The forms of a second factor; what they say is judged by the services."""

from typing import Any

from django import forms

from apps.accounts.second_factor.passkeys import LONGEST_ANSWER, LONGEST_NAME

CODE = {"autocomplete": "one-time-code", "inputmode": "numeric", "autocapitalize": "none"}
PLAIN = {"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}


def own_password(*, required: bool = True) -> forms.CharField:
    """The password of who is signed in, once more."""
    return forms.CharField(
        label="Your password",
        max_length=500,
        strip=False,
        required=required,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class CodeForm(forms.Form):
    """What the app shows."""

    code = forms.CharField(
        label="Code from your app", max_length=20, help_text="Six digits.", widget=forms.TextInput(attrs=CODE)
    )


class RecoveryForm(forms.Form):
    """What stands on paper."""

    recovery = forms.CharField(
        label="Recovery code",
        max_length=40,
        help_text="Such as 3k7q-0vbm-x9ra. Each works once.",
        widget=forms.TextInput(attrs=PLAIN),
    )


class AppForm(CodeForm):
    """The first code of a new app, and that it is the owner who sets it up."""

    password = own_password()


class PasskeyAnswerForm(forms.Form):
    """What a passkey signed: JSON that passkeys.js writes."""

    answer = forms.CharField(
        widget=forms.HiddenInput,
        max_length=LONGEST_ANSWER,
        error_messages={"required": "Nothing came from a passkey: it needs JavaScript and a newer browser."},
    )


class NewPasskeyForm(PasskeyAnswerForm):
    """A new passkey's name, and that it is the owner who makes it."""

    name = forms.CharField(
        max_length=LONGEST_NAME, help_text="So that you know it again, such as laptop or blue key.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )  # fmt: skip
    password = own_password()


class ProofForm(forms.Form):
    """That it is the owner: the password, or a code."""

    password = own_password(required=False)
    code = forms.CharField(
        label="Or a code",
        max_length=40,
        required=False,
        help_text="From your app, or a recovery code.",
        widget=forms.TextInput(attrs={**PLAIN, "autocomplete": "one-time-code"}),
    )

    def clean(self) -> dict[str, Any]:
        """One of both."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and not (cleaned.get("password") or cleaned.get("code")):
            raise forms.ValidationError("Give your password or a code.")
        return cleaned
