"""How an SSH key looks in REST."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from rest_framework import serializers

from apps.accounts.models import SshKey
from apps.accounts.ssh_keys.keeping import LONGEST_NAME
from apps.accounts.ssh_keys.public_keys import MOST_BYTES
from apps.web.shapes.bodies import Id
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
