"""The lines of a bill by who owns what they are for, the dearest first. Pure."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from apps.metering.billing.rules.rounding import Line

PRICES = ("amount", "effective", "recoverable", "inefficiency", "unknown")
"""What is summed of lines: what is to be paid, and what it did."""


class HasLine(Protocol):
    """A line with whatever else is known of it."""

    @property
    def line(self) -> Line:
        """What is charged."""
        ...


R = TypeVar("R", bound=HasLine)


@dataclass(frozen=True)
class Owned(Generic[R]):
    """The lines of one owner; None is nobody's, such as what was made with kubectl."""

    owner: UUID | None
    rows: Sequence[R]
    sums: Sequence[Decimal]
    """By PRICES."""


def by_owner(rows: Iterable[R], owners: Mapping[UUID, UUID]) -> list[Owned[R]]:
    """RULE: each line is in one group, so that the sums of all groups are those of all lines. The dearest
    owner is first, and with each what is dearest: all lines of a workload together, in their order. Equals
    stay in theirs.
    """
    groups: dict[UUID | None, dict[Hashable, list[R]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        key = row.line.key
        groups[owners.get(key.workload) if key.workload else None][key.workload or key].append(row)
    found = [_owned(owner, list(works.values())) for owner, works in groups.items()]
    return sorted(found, key=lambda each: -each.sums[0])


def sums_of(rows: Iterable[HasLine]) -> list[Decimal]:
    """By PRICES."""
    lines = [row.line for row in rows]
    return [sum((getattr(line, name) for line in lines), Decimal(0)) for name in PRICES]


def _owned(owner: UUID | None, works: list[list[R]]) -> Owned[R]:
    works.sort(key=lambda rows: -sum((row.line.amount for row in rows), Decimal(0)))
    ordered = [row for rows in works for row in rows]
    return Owned(owner, ordered, sums_of(ordered))
