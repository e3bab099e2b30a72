"""The two-price bill: what was charged, and where it went. Pure.

RULE: allocated - refunds = charged; charged - hoarded - zombie - idle - partly used - unknown = effective.
"""

from dataclasses import dataclass
from decimal import Decimal

ZERO = Decimal(0)


@dataclass(frozen=True)
class TwoPrices:
    """Money of a period, in cents or finer; the parts sum to what is charged."""

    allocated: Decimal
    refunded: Decimal
    hoarded: Decimal
    zombie: Decimal
    idle: Decimal
    partly: Decimal
    unknown: Decimal
    effective: Decimal
    currency: str

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.allocated - self.refunded

    @property
    def waste(self) -> Decimal:
        """What of it was wasted."""
        return self.hoarded + self.zombie + self.idle + self.partly

    @property
    def is_empty(self) -> bool:
        """Nothing was allocated."""
        return not self.allocated

    @property
    def adds_up(self) -> bool:
        """The sum check: the parts are the whole, to the last decimal."""
        return self.charged == self.effective + self.waste + self.unknown

    @property
    def words(self) -> str:
        """The conclusion, which is also the text alternative."""
        if self.is_empty:
            return "Nothing charged"
        known = f"{self.effective:,.2f} effective, {self.waste:,.2f} waste, {self.unknown:,.2f} unknown"
        return f"{self.charged:,.2f} {self.currency} charged: {known}"

    @property
    def steps(self) -> list["Step"]:
        """The rows of picture and table, from top to bottom."""
        taken = [
            ("hoarded", self.hoarded),
            ("zombie", self.zombie),
            ("idle", self.idle),
            ("partly", self.partly),
            ("unknown", self.unknown),
        ]
        found = [Step("total", "Allocated", self.allocated, ZERO, self.allocated)]
        found.append(Step("refunds", "Refunds", -self.refunded, self.charged, self.allocated))
        found.append(Step("total", "Charged", self.charged, ZERO, self.charged))
        end = self.charged
        for kind, money in taken:
            found.append(Step(kind, WORDS[kind], -money, end - money, end))
            end -= money
        return [*found, Step("effective", "Effective", self.effective, ZERO, self.effective)]


WORDS = {
    "hoarded": "Hoarded",
    "zombie": "Zombie",
    "idle": "Idle",
    "partly": "Partly used",
    "unknown": "Unknown",
}


@dataclass(frozen=True)
class Step:
    """One row: `money` is added or taken, its bar lies between `low` and `high` on the axis of money."""

    kind: str
    word: str
    money: Decimal
    low: Decimal
    high: Decimal

    @property
    def css(self) -> str:
        """Its class: what is shared with the bars of waste elsewhere, or a sum's own."""
        return f"b-{self.kind}" if self.kind in ("total", "refunds") else f"m-{self.kind}"

    @property
    def is_total(self) -> bool:
        """A sum, not a part."""
        return self.kind in ("total", "effective")
