"""The lines of a bill by person, as its table shows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from urllib.parse import urlencode
from uuid import UUID

from django.template.defaultfilters import floatformat
from django.urls import reverse

from apps.accounts import selectors as accounts
from apps.errors import NotFound
from apps.metering.billing.rules.by_owner import PRICES, Owned, by_owner
from apps.metering.billing.selectors import months
from apps.metering.billing.selectors.months import Month, Row
from apps.web.shapes.amounts import to_the_cent

MOST = 100
"""Lines of a person that come at once; sums and files are of all of them."""
NOBODY = "nobody"
"""Stands in an address for who owns what was made with kubectl."""
NOBODYS = ("Made with kubectl", "nobody's")
NONE = "-"
PARTS = ("Effective", "Recoverable", "Inefficiency", "Unknown")


@dataclass(frozen=True)
class Line:
    """A line of the bill as the table shows it, with where its name and its quantity lead."""

    name: str
    url: str
    quantity: str
    held_url: str
    cells: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Person:
    """One owner's lines: their sums, and those that the page has now."""

    key: str
    name: str
    under: str
    cells: Sequence[tuple[str, str]]
    lines: Sequence[Line]
    next: int
    """How many the page after skips; 0: no more follow."""
    count: int
    is_open: bool
    page: str
    """The query of the page with the lines, and of the part that is them, as of the same moment."""
    part: str


@dataclass(frozen=True)
class Asked:
    """Which lines are wanted: of one person from `skip` on, all of them where it is printed, or none."""

    person: str = ""
    skip: int = 0
    is_printed: bool = False
    sees_ledger: bool = False


@dataclass(frozen=True)
class Lines:
    """A month's lines by person."""

    month: Month
    asked: Asked

    @cached_property
    def groups(self) -> Sequence[Owned[Row]]:
        """By owner, dearest first."""
        return by_owner(self.month.rows, months.owners_of(self.month.rows))

    @property
    def people(self) -> Sequence[Person]:
        """The same as the table shows them."""
        names = accounts.names_of(group.owner for group in self.groups if group.owner)
        names[None] = NOBODYS
        return [self._person(group, *names[group.owner]) for group in self.groups]

    @property
    def person(self) -> Person:
        """The one whose lines are asked for; raises NotFound where there is none."""
        group = next((each for each in self.groups if _key(each.owner) == self.asked.person), None)
        if group is None:
            raise NotFound
        return self._person(group)

    @cached_property
    def sums(self) -> Sequence[Decimal]:
        """Of all groups."""
        return [sum(column, Decimal(0)) for column in zip(*(each.sums for each in self.groups), strict=True)]

    @property
    def cells(self) -> Sequence[tuple[str, str]]:
        """What stands in the table's last row, by column."""
        return self._sums(len(self.month.rows), self.sums)

    def _person(self, group: Owned[Row], name: str = "", under: str = "") -> Person:
        key, count = _key(group.owner), len(group.rows)
        first, last = self._window(key, count)
        lines = [self._line(row) for row in months.alone(group.rows[first:last])] if first < last else []
        asked = {"month": f"{self.month.month:%Y-%m}", "person": key}
        of_part = {"part": "lines", "at": self.month.until.isoformat()}
        return Person(
            key=key,
            name=name,
            under=under,
            cells=self._sums(count, group.sums),
            lines=lines,
            count=count,
            next=last if last < count and lines else 0,
            is_open=bool(lines),
            page=urlencode(asked),
            part=urlencode(asked | of_part),
        )

    def _window(self, key: str, count: int) -> tuple[int, int]:
        """From which to which of a person's lines the page has now."""
        if self.asked.is_printed:
            return 0, count
        return (self.asked.skip, min(count, self.asked.skip + MOST)) if key == self.asked.person else (0, 0)

    def _sums(self, count: int, sums: Iterable[Decimal]) -> list[tuple[str, str]]:
        return [
            ("Quantity", f"{count} line{'' if count == 1 else 's'}"),
            ("Per hour", NONE),
            *zip(self._heads, map(to_the_cent, sums), strict=True),
        ]

    @property
    def _heads(self) -> tuple[str, ...]:
        return (self.month.currency, *PARTS)

    def _line(self, row: Row) -> Line:
        line, work, slug = row.line, row.workload, self.month.tenant.slug
        money = [to_the_cent(getattr(line, name)) for name in (PRICES if row.is_measured else PRICES[:1])]
        money += [NONE] * (len(PRICES) - len(money))
        return Line(
            name=line.description,
            url=reverse("workload", args=[slug, work.pk]) if work and not work.deleted_at else "",
            quantity=f"{floatformat(line.quantity, 2)} {line.unit}" if line.quantity else NONE,
            held_url=self._held_url(row) if line.quantity and (row.is_measured or line.key.offer) else "",
            cells=[("Per hour", row.price), *zip(self._heads, money, strict=True)],
        )

    def _held_url(self, row: Row) -> str:
        """Where the allocations behind a line are listed."""
        slug, work = self.month.tenant.slug, row.workload
        if work is None:
            asked = {"month": f"{self.month.month:%Y-%m}", "origin": "kubectl", "offer": row.offer}
            query = urlencode(asked | {"capacity": row.line.key.capacity})
            return f"{reverse('tenant-allocations', args=[slug])}?{query}"
        if self.asked.sees_ledger:
            return reverse("console-allocations", args=[work.pk])
        return reverse("workload-allocations", args=[slug, work.pk])


def _key(owner: UUID | None) -> str:
    return str(owner) if owner else NOBODY
