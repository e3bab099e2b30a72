"""How an SSH key, and the setup of `ssh`, look in REST."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rest_framework import serializers

from apps.accounts.models import SshKey
from apps.accounts.ssh_keys.keeping import LONGEST_NAME
from apps.accounts.ssh_keys.public_keys import MOST_BYTES
from apps.web.shapes.bodies import Id
from apps.workloads.opening.selectors import shell_setup
from portal.api.base.serializers import StrictSerializer


class SshKeyWishSerializer(StrictSerializer):
    """What POST takes; the rules on its values are the service's."""

    text = serializers.CharField(max_length=MOST_BYTES, help_text="The line of a .pub file.")
    name = serializers.CharField(
        max_length=LONGEST_NAME,
        required=False,
        default="",
        allow_blank=True,
        help_text="When omitted: the comment of the line, or else the key's type.",
    )


class SshKeyBody(TypedDict):
    """A public SSH key of one's own."""

    object: Literal["ssh-key"]
    id: Id
    name: str
    type: Annotated[str, "Such as ssh-ed25519."]
    fingerprint: Annotated[str, "As `ssh-keygen -l` prints it."]
    text: Annotated[str, "Type and base64, without the comment."]
    created_at: datetime
    last_used_at: datetime | None


def ssh_key_body(key: SshKey) -> SshKeyBody:
    """A key as REST shows it."""
    return {
        "object": "ssh-key",
        "id": str(key.pk),
        "name": key.name,
        "type": key.type,
        "fingerprint": key.fingerprint,
        "text": key.text,
        "created_at": key.created_at,
        "last_used_at": key.used_at,
    }


class SshSetupBody(TypedDict):
    """What `ssh` has to know of this installation."""

    object: Literal["ssh-setup"]
    helper: Annotated[str, "Where the program is that goes to `~/.ssh/allotment-ssh`; Python 3.8 or newer."]
    config: Annotated[str, "For `~/.ssh/config`; empty where the installation has no door to workloads."]
    known_hosts: Annotated[str, "The line of `~/.ssh/allotment_known_hosts`, by which the server is known."]


def ssh_setup_body() -> SshSetupBody:
    """The setup as REST shows it."""
    return {
        "object": "ssh-setup",
        "helper": shell_setup.helper_url(),
        "config": shell_setup.config(),
        "known_hosts": shell_setup.known_hosts(),
    }
