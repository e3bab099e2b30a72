"""How a message looks in REST."""

from datetime import datetime
from typing import Annotated, Literal, TypedDict

from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.web.shapes.bodies import Id


class NoticeBody(TypedDict):
    """One message to oneself."""

    object: Literal["notification"]
    id: Id
    type: Kind
    tenant: Annotated[str | None, "The slug of the tenant that it is about."]
    message: str
    url: Annotated[str, "Where on the portal something can be done about it; may be empty."]
    created_at: datetime
    read_at: datetime | None


class ReadBody(TypedDict):
    """How many messages were unread until now."""

    read: int


def notice_body(notice: Notice) -> NoticeBody:
    """A message as REST shows it."""
    return {
        "object": "notification",
        "id": str(notice.pk),
        "type": Kind(notice.kind),
        "tenant": notice.tenant or None,
        "message": notice.message,
        "url": notice.url,
        "created_at": notice.created_at,
        "read_at": notice.read_at,
    }
