"""Money as REST has it and as people read it, in one form for every app. Pure."""

from decimal import ROUND_HALF_EVEN, Decimal
from typing import overload

from apps.web.shapes.bodies import Money

CENT = Decimal("0.01")


@overload
def money(amount: Decimal, currency: str) -> Money: ...
@overload
def money(amount: None, currency: str) -> None: ...
@overload
def money(amount: Decimal | None, currency: str) -> Money | None: ...
def money(amount: Decimal | None, currency: str) -> Money | None:
    """Up to 8 decimals and at least 2, never rounded to the cent; None, which is unknown, stays null."""
    if amount is None:
        return None
    whole, _, rest = f"{amount:.8f}".rstrip("0").partition(".")
    return {"amount": f"{whole}.{rest:0<2}", "currency": currency}


def to_the_cent(amount: Decimal) -> str:
    """`1,204.50`: for people, in pages, sentences and messages alike, rounded as on bills."""
    return f"{amount.quantize(CENT, ROUND_HALF_EVEN):,}"
