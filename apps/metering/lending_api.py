"""REST of what a tenant used, lent and borrowed over time."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.metering.lending import Step
from apps.metering.pages import lending
from apps.tenants.selectors import tenant_for
from apps.web.api import ApiView
from apps.web.queries import OneOf


class LendingSerializer(serializers.Serializer[Any]):
    """One offer; value i is the step from + i x step_seconds, in devices."""

    offer = serializers.CharField()
    step_seconds = serializers.IntegerField()
    values = serializers.JSONField(
        help_text="guaranteed, used_of_guarantee, lent, idle, borrowed: null is unknown; unknown"
    )


LENT = OneOf("lent", "How far back, in steps of 1 h, 4 h or 1 day.", tuple(lending.SPANS), lending.USUAL)


class LendingView(ApiView):
    """Lent and borrowed over time."""

    scope_group = ScopeGroup.QUOTAS
    parameters = (LENT,)

    @extend_schema(operation_id="tenant_lending", responses=LendingSerializer(many=True))
    def get(self, request: Request, key: str) -> Response:
        """`?lent=24h`, `7d` (the usual) or `30d`, in steps of 1 h, 4 h or 1 day."""
        tenant, span = tenant_for(self.actor, key), LENT.of(request)
        step = int(lending.SPANS[span][1].total_seconds())
        found = lending.read(tenant, span, now=timezone.now())
        items = [
            {
                "offer": each.offer.slug,
                "from": each.steps[0].at,
                "step_seconds": step,
                "values": _values(each.steps),
            }
            for each in found
        ]
        return Response({"items": items, "next": None})


def _values(steps: tuple[Step, ...]) -> dict[str, list[float | None]]:
    fields = {
        "guaranteed": "guaranteed", "used_of_guarantee": "own", "lent": "lent", "idle": "idle",
        "borrowed": "borrowed", "unknown": "unknown",
    }  # fmt: skip
    return {name: [_rounded(getattr(step, field)) for step in steps] for name, field in fields.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
