"""REST of one's own messages."""

from uuid import UUID

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.notices import selectors, services
from apps.notices.serializers import NoticeBody, ReadBody, notice_body
from apps.web.api import ApiView, paginate
from apps.web.declaring import answers, named, pages
from apps.web.queries import Flag
from apps.web.serializers import StrictSerializer

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
        rows = selectors.notices_of(self.actor.user_id)
        return paginate(request, rows.filter(read_at=None) if UNREAD.of(request) else rows, notice_body)


class NoticeView(ApiView):
    """One message."""

    scope_group = GROUP

    @named("notifications_retrieve")
    @answers(200, NoticeBody)
    def get(self, _request: Request, notice: UUID) -> Response:
        """By id."""
        return Response(notice_body(selectors.notice_of(self.actor.user_id, notice)))


class NoticeReadView(ApiView):
    """Having read one."""

    scope_group = GROUP
    write_parameters = ()
    keyed = False

    @answers(200, NoticeBody)
    def post(self, request: Request, notice: UUID) -> Response:
        """Mark it as read; again changes nothing."""
        StrictSerializer.checked(request.data)
        user = self.actor.user_id
        found = selectors.notice_of(user, notice)
        services.mark_read(user=user, pk=found.pk, now=timezone.now())
        return Response(notice_body(selectors.notice_of(user, notice)))


class NoticesReadView(ApiView):
    """Having read all."""

    scope_group = GROUP
    write_parameters = ()
    keyed = False

    @named("notifications_read_all")
    @answers(200, ReadBody)
    def post(self, request: Request) -> Response:
        """Mark all as read; answers how many were not."""
        StrictSerializer.checked(request.data)
        read = services.mark_read(user=self.actor.user_id, pk=None, now=timezone.now())
        return Response({"read": read})
