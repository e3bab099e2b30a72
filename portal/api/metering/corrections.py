"""REST of correcting an allocation. Contract: docs/api.md."""

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.metering.allocations.selectors import devices_held
from apps.metering.billing.services import corrections
from apps.metering.billing.services.corrections import Moved
from apps.metering.models import Allocation
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, idempotent
from portal.api.base.writing import written
from portal.api.declared.declaring import answers, refuses, takes
from portal.api.metering.balance_bodies import CorrectedBody, allocation_body, effect_body


class CorrectionSerializer(StrictSerializer):
    """When it really began and ended, and why that is known."""

    reason = serializers.CharField(max_length=500)

    def get_fields(self) -> dict[str, Any]:
        """`from` and `to`, as everywhere; `to` null keeps the observed end."""
        ends = serializers.DateTimeField(allow_null=True, default=None)
        return {**super().get_fields(), "from": serializers.DateTimeField(), "to": ends}


class CorrectView(ApiView):
    """`allocations/{id}/correct`."""

    scope_group = "metering"

    @takes(CorrectionSerializer)
    @answers(200, CorrectedBody)
    @refuses("wrong_phase")
    def post(self, request: Request, key: str) -> Response:
        """Appends a correction; the answer tells what it changes of each month's charge."""
        row = devices_held.correctable(self.actor, key)
        corrections.require_corrector(self.actor, row)
        asked = CorrectionSerializer.checked(request.data)
        moved: list[Moved] = []
        return idempotent(
            request,
            lambda: written(request, lambda: self._correct(row, asked, moved), lambda r: _answer(r, moved)),
        )

    def _correct(self, row: Allocation, asked: dict[str, Any], moved: list[Moved]) -> Allocation:
        now = timezone.now()
        wish = corrections.Wish(asked["from"], asked["to"], asked["reason"])
        moved[:] = corrections.correct_and_tell(actor=self.actor, allocation=row, wish=wish, now=now)
        return row


def _answer(row: Allocation, moved: list[Moved]) -> Response:
    shown = allocation_body(devices_held.line_of(row), timezone.now())
    body: CorrectedBody = {**shown, "effect": [effect_body(each) for each in moved]}
    return Response(body)
