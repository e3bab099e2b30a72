"""The two-price bill: what was charged, and what it did. Pure.

RULE: allocated - refunds = charged = effective + recoverable + inefficiency + unknown, in the words of
`effective_split`. Every page cuts them to the cent here, so that what is shown adds up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from apps.metering.billing.rules.effective_split import CAUSES, INEFFICIENCY, RECOVERABLE
from apps.metering.billing.rules.pricing import apportion

ZERO, CENT = Decimal(0), Decimal("0.01")
WORDS = {
    "hoarded": "Hoarded",
    "zombie": "Zombie",
    "crashing": "Crash loops",
    "oversized": "Oversized",
    "idle": "Idle",
    "partly": "Partly used",
    "unknown": "Unknown",
}


def sum_of(causes: Mapping[str, Decimal], which: tuple[str, ...]) -> Decimal:
    """What these causes took; one that is not told took nothing."""
    return sum((causes.get(cause, ZERO) for cause in which), ZERO)


@dataclass(frozen=True)
class Split:
    """What is charged, by what was done with it."""

    effective: Decimal = ZERO
    recoverable: Decimal = ZERO
    inefficiency: Decimal = ZERO
    unknown: Decimal = ZERO

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.effective + self.waste + self.unknown

    @property
    def waste(self) -> Decimal:
        """What of it was seen and did no work."""
        return self.recoverable + self.inefficiency

    def in_cents(self) -> "Split":
        """RULE: each is rounded on its own, half to even, so that a figure is the same wherever it stands.
        What the sum is off by then, a cent or two, is put on what is effective or unknown, or if there is
        neither on inefficiency; never on what is recoverable.
        """
        cut = {name: cent(money) for name, money in asdict(self).items()}
        rest = cent(self.charged) - sum(cut.values())
        takers = [name for name in ("effective", "unknown") if getattr(self, name)]
        for name in (*sorted(takers, key=lambda name: -cut[name]), "inefficiency"):
            taken = max(rest, -cut[name])
            cut[name], rest = cut[name] + taken, rest - taken
        return Split(**cut)


def cent(money: Decimal) -> Decimal:
    """Rounded to the cent, half to even."""
    return money.quantize(CENT, ROUND_HALF_EVEN)


def shared(parts: Sequence[Decimal], total: Decimal) -> list[Decimal]:
    """Amounts to the cent which add up to a total that is in cents already."""
    return apportion([Fraction(part) for part in parts], int(total * 100), 2)


@dataclass(frozen=True)
class TwoPrices:
    """Money of a period, in cents or finer; the parts sum to what is charged."""

    allocated: Decimal
    refunded: Decimal
    causes: Mapping[str, Decimal]
    unknown: Decimal
    effective: Decimal
    currency: str

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.allocated - self.refunded

    @property
    def recoverable(self) -> Decimal:
        """Waste that somebody can end, because a finding says so."""
        return sum_of(self.causes, RECOVERABLE)

    @property
    def inefficiency(self) -> Decimal:
        """The rest of the waste, inside work that is wanted."""
        return sum_of(self.causes, INEFFICIENCY)

    @property
    def waste(self) -> Decimal:
        """What of it was wasted."""
        return self.recoverable + self.inefficiency

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
        waste = f"{self.recoverable:,.2f} recoverable waste, {self.inefficiency:,.2f} inefficiency"
        known = f"{self.effective:,.2f} effective, {waste}, {self.unknown:,.2f} unknown"
        return f"{self.charged:,.2f} {self.currency} charged: {known}"

    @property
    def steps(self) -> list["Step"]:
        """The rows of picture and table, from top to bottom."""
        found = [Step("total", "Allocated", self.allocated, ZERO, self.allocated)]
        found.append(Step("refunds", "Refunds", -self.refunded, self.charged, self.allocated))
        found.append(Step("total", "Charged", self.charged, ZERO, self.charged))
        taken = {cause: self.causes.get(cause, ZERO) for cause in CAUSES} | {"unknown": self.unknown}
        end = self.charged
        for kind, money in taken.items():
            found.append(Step(kind, WORDS[kind], -money, end - money, end))
            end -= money
        return [*found, Step("effective", "Effective", self.effective, ZERO, self.effective)]


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
