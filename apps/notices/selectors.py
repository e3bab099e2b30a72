"""Reading one's own messages. Nobody sees another's.

`tenants`: the only ones that a credential may hear about; None if it has no limit.
"""

from collections.abc import Collection
from uuid import UUID

from django.db.models import Count, QuerySet, UUIDField

from apps.notices.models import Notice
from apps.prepared import Prepared
from apps.web.requests.lookups import one


def notices_of(user: UUID | None, tenants: Collection[str] | None = None) -> QuerySet[Notice]:
    """The messages of one person."""
    found = Notice.objects.filter(user=user)
    return found if tenants is None else found.filter(tenant__in=tenants)


def notice_of(user: UUID | None, pk: UUID, tenants: Collection[str] | None = None) -> Notice:
    """One message of that person; raises NotFound."""
    return one(notices_of(user, tenants).filter(pk=pk))


def unread(user: UUID | None) -> int:
    """How many a person has not read."""
    return (_UNREAD.first(user) or 0) if user else 0


_UNREAD = Prepared(
    lambda user: (
        Notice.objects.filter(user=user, read_at=None)
        .order_by()
        .values("user")
        .annotate(n=Count("pk"))
        .values_list("n", flat=True)
    ),
    UUIDField(),
)
