"""Reading one's own messages. Nobody sees another's."""

from uuid import UUID

from django.db.models import Count, QuerySet, UUIDField

from apps.errors import NotFound
from apps.notices.models import Notice
from apps.prepared import Prepared


def notices_of(user: UUID | None) -> QuerySet[Notice]:
    """The messages of one person."""
    return Notice.objects.filter(user=user)


def notice_of(user: UUID | None, pk: UUID) -> Notice:
    """One message of that person; raises NotFound."""
    found = notices_of(user).filter(pk=pk).first()
    if found is None:
        raise NotFound
    return found


def unread(user: UUID | None) -> int:
    """How many a person has not read."""
    return sum(_UNREAD(user)) if user else 0


_UNREAD = Prepared(
    lambda user: (
        notices_of(user)
        .filter(read_at=None)
        .order_by()
        .values("user")
        .annotate(count=Count("pk"))
        .values_list("count", flat=True)
    ),
    UUIDField(),
)
