"""REST of one's own messages."""

from uuid import UUID

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.notices import selectors, services
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, paginate
from portal.api.declared.declaring import answers, named, pages
from portal.api.declared.queries import Flag
from portal.api.people.notifications_bodies import NoticeBody, ReadBody, notice_body

GROUP = "notifications"
UNREAD = Flag("unread", "Only those not read yet.")


class NoticesView(ApiView):
    """One's own messages."""

    scope_group = GROUP
    lists = True
    sorts = ("-created_at",)
    parameters = (UNREAD,)

    @named("notifications_list")
    @pages(NoticeBody)
    def get(self, request: Request) -> Response:
        """Newest first; `?unread=true` for those not read yet."""
        rows = selectors.notices_of(self.actor.user_id, self.actor.tenants)
        return paginate(request, rows.filter(read_at=None) if UNREAD.of(request) else rows, notice_body)


class NoticeView(ApiView):
    """One message."""

    scope_group = GROUP

    @named("notifications_retrieve")
    @answers(200, NoticeBody)
    def get(self, _request: Request, notice: UUID) -> Response:
        """By id."""
        return Response(notice_body(selectors.notice_of(self.actor.user_id, notice, self.actor.tenants)))


class NoticeReadView(ApiView):
    """Having read one."""

    scope_group = GROUP
    write_parameters = ()
    keyed = False

    @answers(200, NoticeBody)
    def post(self, request: Request, notice: UUID) -> Response:
        """Mark it as read; again changes nothing."""
        StrictSerializer.checked(request.data)
        row = selectors.notice_of(self.actor.user_id, notice, self.actor.tenants)
        services.mark_read(selectors.notices_of(row.user_id).filter(pk=row.pk), now=timezone.now())
        row.refresh_from_db()
        return Response(notice_body(row))


class NoticesReadView(ApiView):
    """Having read all."""

    scope_group = GROUP
    write_parameters = ()
    keyed = False

    @named("notifications_read_all")
    @answers(200, ReadBody)
    def post(self, request: Request) -> Response:
        """Mark all that the credential sees as read; answers how many were not."""
        StrictSerializer.checked(request.data)
        rows = selectors.notices_of(self.actor.user_id, self.actor.tenants)
        read = services.mark_read(rows, now=timezone.now())
        return Response({"read": read})
