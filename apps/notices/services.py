"""Telling people, and marking what they have read. Sends nothing out of the product.

Reading is one's own business and leaves no audit record; what a message tells of has one already.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.web.streams import events


def tell(
    users: Iterable[UUID], *, kind: Kind, message: str, url: str, at: datetime, tenant: str = ""
) -> list[Notice]:
    """One message to each of these people, in the caller's transaction; their open pages are told after it.

    Rule: each person once, however often named; to nobody is no error. `url` is a path of the portal.
    """
    rows = [
        Notice(user_id=user, kind=kind, message=message[:1000], url=url, created_at=at, tenant=tenant)
        for user in dict.fromkeys(users)
    ]
    Notice.objects.bulk_create(rows)
    for row in rows:
        data = {"type": "notification.created", "object": "notification", "id": str(row.pk)}
        events.publish([f"user:{row.user_id}"], part="notices", data=data)
    return rows


def mark_read(rows: QuerySet[Notice], *, now: datetime) -> int:
    """Marks as read those of these messages that the reader sees; answers how many were unread."""
    return rows.filter(read_at=None).update(read_at=now)
