"""Money in bodies, in the installation's currency."""

from decimal import Decimal
from typing import Annotated, Literal, NotRequired, TypedDict

from django.conf import settings

from apps.quotas.specs import BudgetUnit
from apps.web.shapes import amounts
from apps.web.shapes.bodies import Money
from apps.web.shapes.typed import keywords


class LimitBody(TypedDict):
    """Money with its currency, or hours of physical GPUs with their unit."""

    amount: Annotated[str, keywords(format="decimal")]
    currency: NotRequired[Annotated[str, "ISO 4217."]]
    unit: NotRequired[Literal["gpu_hours"]]


def limit_body(unit: str, amount: Decimal | None) -> LimitBody | None:
    """An amount as a body names it."""
    if amount is None:
        return None
    told = f"{amount.normalize():f}"
    if unit == BudgetUnit.MONEY:
        return {"amount": told, "currency": settings.CONFIG.currency}
    return {"amount": told, "unit": "gpu_hours"}


def money(amount: Decimal | None) -> Money | None:
    """An amount in the installation's currency."""
    return amounts.money(amount, settings.CONFIG.currency)
