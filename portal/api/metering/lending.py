"""REST of what a tenant used, lent and borrowed over time."""

from datetime import datetime
from typing import Annotated, TypedDict

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.metering.lending.rules.steps import Step
from apps.metering.lending.selectors import lending_history
from apps.tenants.selectors import tenant_for
from portal.api.base.views import ApiView
from portal.api.declared.declaring import named, pages
from portal.api.declared.queries import OneOf


class LendingValuesBody(TypedDict):
    """In devices; null is unknown."""

    guaranteed: list[float | None]
    used_of_guarantee: list[float | None]
    lent: list[float | None]
    idle: list[float | None]
    borrowed: list[float | None]
    unknown: Annotated[list[float | None], "Devices whose state is unknown."]


From = TypedDict("From", {"from": datetime})


class LendingBody(From):
    """One offer; value i is the step from + i x step_seconds."""

    offer: str
    step_seconds: int
    values: LendingValuesBody


LENT = OneOf(
    "lent",
    "How far back, in steps of 1 h, 4 h or 1 day.",
    tuple(lending_history.SPANS),
    lending_history.USUAL,
)


class LendingView(ApiView):
    """Lent and borrowed over time."""

    scope_group = ScopeGroup.QUOTAS
    parameters = (LENT,)

    @named("tenant_lending")
    @pages(LendingBody)
    def get(self, request: Request, key: str) -> Response:
        """`?lent=24h`, `7d` (the usual) or `30d`, in steps of 1 h, 4 h or 1 day."""
        tenant, span = tenant_for(self.actor, key), LENT.of(request)
        step = int(lending_history.SPANS[span][1].total_seconds())
        found = lending_history.read(tenant, span, now=timezone.now())
        items: list[LendingBody] = [
            {
                "offer": each.offer.slug,
                "from": each.steps[0].at,
                "step_seconds": step,
                "values": _values(each.steps),
            }
            for each in found
        ]
        return Response({"items": items, "next": None})


def _values(steps: tuple[Step, ...]) -> LendingValuesBody:
    return {
        "guaranteed": [_rounded(step.guaranteed) for step in steps],
        "used_of_guarantee": [_rounded(step.own) for step in steps],
        "lent": [_rounded(step.lent) for step in steps],
        "idle": [_rounded(step.idle) for step in steps],
        "borrowed": [_rounded(step.borrowed) for step in steps],
        "unknown": [_rounded(step.unknown) for step in steps],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
