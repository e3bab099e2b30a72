"""The form of an SSH key; the rules are in the service."""

from typing import Any

from django import forms

from apps.accounts.ssh_keys.keeping import LONGEST_NAME
from apps.accounts.ssh_keys.public_keys import MOST_BYTES
from portal.pages.parts.forms import PLAIN


class UnkeptTextarea(forms.Textarea):
    """A page never gives back what was typed here: it may be a private key."""

    def format_value(self, value: Any) -> None:  # noqa: ARG002 Django's signature
        """Nothing."""
        return


class SshKeyForm(forms.Form):
    """A public key, and what the person calls it."""

    text = forms.CharField(
        label="Public key",
        max_length=MOST_BYTES,
        help_text=(
            "The line of your .pub file, such as ~/.ssh/id_ed25519.pub. Ed25519, ECDSA, RSA of 3072 bits "
            "(2048 at least), or a security key. If you have none: ssh-keygen -t ed25519."
        ),
        widget=UnkeptTextarea(attrs={**PLAIN, "rows": 4}),
    )
    name = forms.CharField(
        max_length=LONGEST_NAME,
        required=False,
        help_text="Such as laptop. Empty: as the key's comment says.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
