"""How a message looks in REST."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from apps.notices.models import Notice
from apps.notices.specs import Kind


class NoticeSerializer(serializers.Serializer[Any]):
    """One message to oneself."""

    object = serializers.CharField(default="notification")
    id = serializers.UUIDField()
    type = serializers.ChoiceField(choices=Kind.choices(), source="kind")
    tenant = serializers.CharField(allow_null=True)
    message = serializers.CharField()
    url = serializers.CharField()
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)


class ReadSerializer(serializers.Serializer[Any]):
    """How many messages were unread until now."""

    read = serializers.IntegerField()


def notice_body(notice: Notice) -> Mapping[str, Any]:
    """A message as REST shows it."""
    return {
        "object": "notification",
        "id": str(notice.pk),
        "type": notice.kind,
        "tenant": notice.tenant or None,
        "message": notice.message,
        "url": notice.url,
        "created_at": notice.created_at,
        "read_at": notice.read_at,
    }
