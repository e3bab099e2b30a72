"""REST of one's own messages."""

from typing import ClassVar
from uuid import UUID

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.notices import selectors, services
from apps.notices.serializers import NoticeSerializer, ReadSerializer, notice_body
from apps.web.api import ApiView, flag, paginate
from apps.web.serializers import StrictSerializer

GROUP = "notifications"


class NoticesView(ApiView):
    """One's own messages."""

    scope_group = GROUP
    lists = True
    parameters: ClassVar[frozenset[str]] = frozenset({"unread"})

    @extend_schema(operation_id="notifications_list", responses=NoticeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Newest first; `?unread=true` for those not read yet."""
        rows = selectors.notices_of(self.actor.user_id)
        return paginate(request, rows.filter(read_at=None) if flag(request, "unread") else rows, notice_body)


class NoticeView(ApiView):
    """One message."""

    scope_group = GROUP

    @extend_schema(operation_id="notifications_retrieve", responses=NoticeSerializer)
    def get(self, _request: Request, notice: UUID) -> Response:
        """By id."""
        return Response(notice_body(selectors.notice_of(self.actor.user_id, notice)))


class NoticeReadView(ApiView):
    """Having read one."""

    scope_group = GROUP
    write_parameters = frozenset()

    @extend_schema(request=None, responses=NoticeSerializer)
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
    write_parameters = frozenset()

    @extend_schema(operation_id="notifications_read_all", request=None, responses=ReadSerializer)
    def post(self, request: Request) -> Response:
        """Mark all as read; answers how many were not."""
        StrictSerializer.checked(request.data)
        read = services.mark_read(user=self.actor.user_id, pk=None, now=timezone.now())
        return Response({"read": read})
