"""A month in cents: exact charges to lines that sum to the total, and what has to be put right of months that
are closed. Pure.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from apps.metering.billing.rules.effective_split import CAUSES, INEFFICIENCY, RECOVERABLE
from apps.metering.billing.rules.pricing import apportion, cents
from apps.metering.billing.rules.two_prices import sum_of
from apps.metering.specs import LineKind

CENT = Decimal("0.01")
NOTHING = Fraction(0)


@dataclass(frozen=True)
class Key:
    """What a charge is for."""

    kind: LineKind
    workload: UUID | None = None
    offer: UUID | None = None
    capacity: str = ""


@dataclass(frozen=True)
class Charge:
    """What a period charges for one thing, exactly.

    Of a GPU, `parts` (effective, the four causes, unknown) sum to `allocated - refunded`; what has one price
    has no parts. `quantity` counts `unit`; a price of None changed within the period.
    """

    key: Key
    what: str
    allocated: Fraction
    quantity: Fraction
    unit: str
    refunded: Fraction = NOTHING
    refunded_quantity: Fraction = NOTHING
    parts: Mapping[str, Fraction] = field(default_factory=dict)
    listed: Fraction = NOTHING
    unit_price: Decimal | None = None
    list_price: Decimal | None = None

    @property
    def charged(self) -> Fraction:
        """What is to be paid."""
        return self.allocated - self.refunded if self.refunded else self.allocated


@dataclass(frozen=True)
class Line:
    """A line of a statement, in cents. `about` is what a correction corrects, else the kind again."""

    kind: LineKind
    about: LineKind
    key: Key
    description: str
    quantity: Decimal
    unit: str
    amount: Decimal
    begins: datetime
    ends: datetime
    effective: Decimal = Decimal(0)
    unknown: Decimal = Decimal(0)
    causes: Mapping[str, Decimal] = field(default_factory=dict)
    listed: Decimal = Decimal(0)
    unit_price: Decimal | None = None
    list_price: Decimal | None = None

    @property
    def waste(self) -> Decimal:
        """What of it was wasted."""
        return sum(self.causes.values(), Decimal(0))

    @property
    def recoverable(self) -> Decimal:
        """Waste that somebody can end, because a finding says so."""
        return sum_of(self.causes, RECOVERABLE)

    @property
    def inefficiency(self) -> Decimal:
        """The rest of the waste, inside work that is wanted."""
        return sum_of(self.causes, INEFFICIENCY)


@dataclass(frozen=True)
class Billed:
    """What one thing was billed for a month so far: the closed line, its refund and every correction."""

    amount: Decimal = Decimal(0)
    parts: Mapping[str, Decimal] = field(default_factory=dict)

    def with_line(self, amount: Decimal, parts: Mapping[str, Decimal]) -> "Billed":
        """And one line more."""
        names = {*self.parts, *parts}
        zero = Decimal(0)
        return Billed(self.amount + amount, {n: self.parts.get(n, zero) + parts.get(n, zero) for n in names})


def lines(charges: Sequence[Charge], begins: datetime, ends: datetime) -> list[Line]:
    """The lines of a period.

    RULE: what is charged for each thing is cut to the cent by largest remainder, so that the lines sum to
    the total, which is the exact sum rounded once. A refund is a line of its own below its charge. Effective,
    waste and unknown share out what is charged of each thing in the same way.
    """
    found: list[Line] = []
    for charge, amount in zip(charges, cents([each.charged for each in charges]), strict=True):
        back = rounded(charge.refunded)
        told = _told(charge, amount)
        found.append(
            Line(charge.key.kind, charge.key.kind, charge.key, charge.what, _hours(charge.quantity),
                 charge.unit, amount + back, begins, ends, listed=rounded(charge.listed),
                 unit_price=charge.unit_price, list_price=charge.list_price, **told)
        )  # fmt: skip
        if charge.refunded:
            found.append(
                Line(LineKind.REFUND, charge.key.kind, charge.key, f"Refund: {charge.what}",
                     -_hours(charge.refunded_quantity), charge.unit, -back, begins, ends,
                     listed=-_refunded_at_list(charge), unit_price=charge.unit_price,
                     list_price=charge.list_price)
            )  # fmt: skip
    return found


def _refunded_at_list(charge: Charge) -> Decimal:
    """What is given back, at everybody's price: in the part of what is listed that was given back of what was
    charged, its last unit included; where its own price alone changed meanwhile, by its time.
    """
    if charge.unit_price is None and charge.list_price is not None:
        return rounded(charge.refunded_quantity * Fraction(charge.list_price))
    return rounded(charge.listed * charge.refunded / charge.allocated)


def corrections(
    charges: Sequence[Charge], billed: Mapping[Key, Billed], begins: datetime, ends: datetime
) -> list[Line]:
    """What a closed month would be now less what was billed for it, thing by thing.

    RULE: less than a cent of a charge, or two of a part of it, is rounding and stays as it was billed.
    """
    found = []
    known = {charge.key: charge for charge in charges}
    for key in sorted({*known, *billed}, key=_order):
        line = _corrected(known.get(key), key, billed.get(key, Billed()), (begins, ends))
        if line is not None:
            found.append(line)
    return found


def _corrected(
    charge: Charge | None, key: Key, before: Billed, period: tuple[datetime, datetime]
) -> Line | None:
    exact = charge.charged if charge else NOTHING
    amount = rounded(exact)
    if abs(exact - Fraction(before.amount)) < Fraction(CENT):
        amount = before.amount
    told = _told(charge, amount) if charge else {}
    parts = _parts(told)
    zero = Decimal(0)
    moved = {n: parts.get(n, zero) - before.parts.get(n, zero) for n in {*parts, *before.parts}}
    if amount == before.amount and all(abs(change) < 2 * CENT for change in moved.values()):
        return None
    what = charge.what if charge else "What is no longer charged"
    return Line(
        LineKind.CORRECTION, key.kind, key, f"Correction of {period[0]:%B %Y}: {what}", Decimal(0),
        charge.unit if charge else "", amount - before.amount, *period,
        effective=moved.get("effective", zero), unknown=moved.get("unknown", zero),
        causes={cause: moved.get(cause, zero) for cause in CAUSES},
    )  # fmt: skip


def parts_of(effective: Decimal, causes: Mapping[str, Decimal], unknown: Decimal) -> dict[str, Decimal]:
    """The parts of a line by name."""
    return {"effective": effective, **causes, "unknown": unknown}


def _parts(told: Mapping[str, Any]) -> dict[str, Decimal]:
    return parts_of(told["effective"], told["causes"], told["unknown"]) if told else {}


def _told(charge: Charge, amount: Decimal) -> dict[str, Any]:
    """Effective, causes and unknown in cents, which sum to the amount; nothing where there is one price."""
    if not charge.parts:
        return {}
    names = list(charge.parts)
    shared = apportion(list(charge.parts.values()), int(amount * 100), 2)
    found = dict(zip(names, shared, strict=True))
    causes = {cause: found[cause] for cause in CAUSES}
    return {"effective": found["effective"], "causes": causes, "unknown": found["unknown"]}


def rounded(exact: Fraction) -> Decimal:
    """To the cent, half to even."""
    cents, rest = divmod(exact.numerator * 100, exact.denominator)
    half = 2 * rest - exact.denominator
    return Decimal(cents + (half > 0 or (half == 0 and cents % 2))).scaleb(-2)


def _hours(quantity: Fraction) -> Decimal:
    value = Decimal(quantity.numerator) / Decimal(quantity.denominator)
    return value.quantize(Decimal("0.00000001"), rounding=ROUND_HALF_EVEN)


def _order(key: Key) -> tuple[str, str, str, str]:
    return key.kind, str(key.workload), str(key.offer), key.capacity


def digest(head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 over the head and the lines in their order, as JSON with sorted keys."""
    text = json.dumps([dict(head), [dict(row) for row in rows]], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
