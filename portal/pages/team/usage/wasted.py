"""The tables beside the pictures: charges, how much of them did work, and where the rest went."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from apps.metering.billing.rules import two_prices
from apps.metering.billing.rules.effective_split import CAUSES, INEFFICIENCY, RECOVERABLE
from apps.metering.billing.rules.two_prices import ZERO, Split, sum_of
from apps.metering.billing.selectors.costs import CostLine
from portal.pages.parts.pictures.usage_curves import Slice

HEAD = (
    "name", "charged", "effective", "hoarded", "zombie", "idle", "partly_used", "unknown", "crashing",
    "oversized", "recoverable", "inefficiency",
)  # fmt: skip


@dataclass(frozen=True)
class Money:
    """What something cost, exactly: charged = effective + waste (by cause) + unknown. Pages show `cut`."""

    effective: Decimal = ZERO
    unknown: Decimal = ZERO
    causes: Mapping[str, Decimal] = field(default_factory=dict)

    @classmethod
    def total(cls, parts: Collection["Money"]) -> "Money":
        """The sum of several, column by column: a page has hundreds."""
        if len(parts) == 1:
            return next(iter(parts))
        causes = {key: sum((each.of(key) for each in parts), ZERO) for key in CAUSES}
        effective, unknown = ([getattr(each, name) for each in parts] for name in ("effective", "unknown"))
        return cls(sum(effective, ZERO), sum(unknown, ZERO), causes)

    def of(self, cause: str) -> Decimal:
        """What went to one cause."""
        return self.causes.get(cause, ZERO)

    @property
    def split(self) -> Split:
        """By what was done with it."""
        recoverable, rest = (sum_of(self.causes, which) for which in (RECOVERABLE, INEFFICIENCY))
        return Split(self.effective, recoverable, rest, self.unknown)

    @cached_property
    def cut(self) -> Split:
        """The same to the cent, so that it adds up."""
        return self.split.in_cents()

    @property
    def charged(self) -> Decimal:
        """What is to be paid."""
        return self.split.charged

    def percent(self, part: Decimal) -> int | None:
        """Of what was charged; None while nothing was."""
        return None if not self.charged else round(100 * part / self.charged)

    @property
    def percent_recoverable(self) -> int | None:
        """Of what was charged."""
        return self.percent(self.split.recoverable)

    @property
    def percent_inefficiency(self) -> int | None:
        """Of what was charged."""
        return self.percent(self.split.inefficiency)

    @property
    def is_unknown(self) -> bool:
        """Charged, and nobody knows whether it did work."""
        return self.charged > 0 and self.unknown >= self.charged

    @property
    def slices(self) -> list[Slice]:
        """The parts as a bar shows them."""
        wasted = [(f"m-{key}", _word(key), self.of(key)) for key in CAUSES]
        parts = [("m-effective", "effective", self.effective), *wasted]
        return [
            Slice(kind, word, float(value))
            for kind, word, value in [*parts, ("m-unknown", "unknown", self.unknown)]
        ]

    @property
    def by_cause(self) -> list[tuple[str, str, Decimal]]:
        """Class, word and money of each cause that took any, most first; to the cent, so that recoverable
        waste and inefficiency are their sums.
        """
        found: list[tuple[str, str, Decimal]] = []
        for which, total in ((RECOVERABLE, self.cut.recoverable), (INEFFICIENCY, self.cut.inefficiency)):
            money = two_prices.shared([self.of(key) for key in which], total)
            found += [(f"m-{key}", _word(key), part) for key, part in zip(which, money, strict=True) if part]
        return sorted(found, key=lambda each: -each[2])


def _word(cause: str) -> str:
    return two_prices.WORDS[cause].lower()


@dataclass(frozen=True)
class Line:
    """One row: whose money it was; `under` is a second line of words, `key` what it was added up by."""

    name: str
    money: Money
    url: str = ""
    under: str = ""
    key: Any = None


@dataclass(frozen=True)
class Bill:
    """The lines, most recoverable waste first, and what they sum to over [begins, ends)."""

    begins: datetime
    ends: datetime
    total: Money
    lines: Sequence[Line] = ()


def money_of(line: CostLine) -> Money:
    """As `costs` sums it."""
    return Money(line.effective, line.unknown, line.causes)


def folded(
    lines: Iterable[tuple[Any, Money]], named: Callable[[Any], tuple[str, str, str]]
) -> Sequence[Line]:
    """The lines added up by key, most recoverable first; `named` gives name, address, second line."""
    parts: dict[Any, list[Money]] = defaultdict(list)
    for key, money in lines:
        parts[key].append(money)
    rows = []
    for key, each in parts.items():
        name, url, under = named(key)
        rows.append(Line(name, Money.total(each), url, under, key))
    return sorted(rows, key=_order)


def _order(row: Line) -> tuple[Decimal, Decimal, Decimal, str]:
    split = row.money.split
    return -split.recoverable, -split.waste, -split.charged, row.name


def cells(lines: Iterable[Line]) -> Iterable[Sequence[Any]]:
    """For a file: amounts in full."""
    for line in lines:
        money, split = line.money, line.money.split
        causes = [money.of(key) for key in ("hoarded", "zombie", "idle", "partly")]
        more = (money.of("crashing"), money.of("oversized"), split.recoverable, split.inefficiency)
        yield (line.name, split.charged, money.effective, *causes, money.unknown, *more)
