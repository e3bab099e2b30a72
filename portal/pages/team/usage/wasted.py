"""The tables beside the pictures: charges, how much of them did work, and where the rest went."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.metering.billing.selectors.costs import CostLine
from portal.pages.parts.pictures.usage_curves import Slice

CAUSES = {"hoarded": "hoarded", "zombie": "zombie", "idle": "idle", "partly": "partly used"}
HEAD = ("name", "charged", "effective", "hoarded", "zombie", "idle", "partly_used", "unknown")
ZERO = Decimal(0)


@dataclass(frozen=True)
class Money:
    """What something cost: charged = effective + waste (by cause) + unknown."""

    charged: Decimal = ZERO
    effective: Decimal = ZERO
    waste: Decimal = ZERO
    unknown: Decimal = ZERO
    causes: Mapping[str, Decimal] | None = None

    def __add__(self, other: "Money") -> "Money":
        causes = {key: self.of(key) + other.of(key) for key in CAUSES}
        return Money(
            self.charged + other.charged,
            self.effective + other.effective,
            self.waste + other.waste,
            self.unknown + other.unknown,
            causes,
        )

    def of(self, cause: str) -> Decimal:
        """What went to one cause."""
        return (self.causes or {}).get(cause, ZERO)

    @property
    def percent(self) -> int | None:
        """Waste of what was charged; None while nothing was."""
        return None if not self.charged else round(100 * self.waste / self.charged)

    @property
    def is_unknown(self) -> bool:
        """Charged, and nobody knows whether it did work."""
        return self.charged > 0 and self.unknown >= self.charged

    @property
    def slices(self) -> list[Slice]:
        """The parts as a bar shows them."""
        wasted = [(f"m-{key}", word, self.of(key)) for key, word in CAUSES.items()]
        parts = [("m-effective", "effective", self.effective), *wasted]
        return [
            Slice(kind, word, float(value))
            for kind, word, value in [*parts, ("m-unknown", "unknown", self.unknown)]
        ]

    @property
    def by_cause(self) -> list[tuple[str, str, Decimal]]:
        """Class, word and money of each cause that took any, most first."""
        found = [(f"m-{key}", word, self.of(key)) for key, word in CAUSES.items() if self.of(key)]
        return sorted(found, key=lambda each: -each[2])


@dataclass(frozen=True)
class Line:
    """One row: whose money it was; `under` is a second line of words."""

    name: str
    money: Money
    url: str = ""
    under: str = ""


@dataclass(frozen=True)
class Bill:
    """The lines, dearest waste first, and what they sum to over [begins, ends)."""

    begins: datetime
    ends: datetime
    total: Money
    lines: Sequence[Line]


def money_of(line: CostLine) -> Money:
    """As `costs` sums it."""
    return Money(line.charged, line.effective, line.waste, line.unknown, line.causes)


def folded(
    lines: Iterable[tuple[Any, Money]], named: Callable[[Any], tuple[str, str, str]]
) -> Sequence[Line]:
    """The lines added up by key, most waste first; `named` gives a key its name, address and second line."""
    sums: dict[Any, Money] = {}
    for key, money in lines:
        sums[key] = sums.get(key, Money()) + money
    rows = [Line(name, money, url, under) for key, money in sums.items() for name, url, under in [named(key)]]
    return sorted(rows, key=lambda row: (-row.money.waste, -row.money.charged, row.name))


def cells(lines: Iterable[Line]) -> Iterable[Sequence[Any]]:
    """For a file: amounts in full."""
    for line in lines:
        money = line.money
        causes = [money.of(key) for key in CAUSES]
        yield (line.name, money.charged, money.effective, *causes, money.unknown)
