"""Reads and writes bucket rows in bulk: the ORM takes longer over a row than all the arithmetic on it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from apps.cluster.models import Cluster
from apps.metering.ledger.rules import buckets
from apps.metering.ledger.rules.buckets import COUNTED, Row, floor
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.selectors.facts import Spot, micros, moment
from apps.metering.ledger.services import account_sums
from apps.metering.ledger.services.account_sums import Holders, Window
from apps.metering.models import Allocation, Bucket
from apps.metering.specs import Origin

Rows = Mapping[Spot, Sequence[Row]]
_OWNERS = ("allocation_id", "workload_id", "offer_id")
_COLUMNS = ("level", "starts_at", "cluster_id", "gpu", *facts.COLUMNS, *_OWNERS)
_TABLE = Bucket._meta.db_table


@dataclass(frozen=True)
class Book:
    """The buckets of one cluster; `allocations` are those that are known already, by id as text."""

    cluster: Cluster
    allocations: Mapping[str, Allocation]

    def holders(self, level: int, gpus: Iterable[str], window: Window) -> set[str]:
        """Whose rows of a level are stored in a window."""
        stored = self._stored(level, gpus, window)
        return set(stored.order_by().values_list("holder", flat=True).distinct())

    def read(
        self, level: int, gpus: Iterable[str], window: Window, *, holders: Holders = None
    ) -> dict[Spot, list[Row]]:
        """The stored rows of a level in a window, by GPU and bucket."""
        if window[0] >= window[1]:
            return {}
        stored = self._stored(level, gpus, window, holders=holders)
        found: dict[Spot, list[Row]] = {}
        names = ("gpu", "starts_at", *facts.COLUMNS)
        for gpu, at, *values in stored.order_by("gpu", "starts_at", "pk").values_list(*names):
            found.setdefault((gpu, micros(at)), []).append(facts.row_of(values))
        return found

    def parts_alike(self, level: int, gpus: Iterable[str], window: Window, rows: Rows) -> bool:
        """Whether all that is stored beside these rows counts shares in the same parts of its GPU."""
        parts = {spot: group[0].denominator for spot, group in rows.items() if group}
        stored = self._stored(level, gpus, window).order_by()
        known = stored.values_list("gpu", "starts_at", "denominator").distinct()
        return all(parts.get((gpu, micros(at)), count) == count for gpu, at, count in known)

    def replace(
        self, level: int, gpus: Sequence[str], window: Window, rows: Rows, *, holders: Holders = None
    ) -> int:
        """These rows take the place of what the GPUs have in the window, of all holders or of some; how many
        they are.
        """
        stored = self._stored(level, gpus, window, holders=holders)
        # Mostly there is nothing yet: to look for that costs less than to take nothing off and away.
        if stored.exists():
            account_sums.take_off(self.cluster, level, gpus, window, holders=holders)
            stored.delete()
        adapted = cache(lambda at: connection.ops.adapt_datetimefield_value(moment(at)))
        owners = self._owners({row.holder for group in rows.values() for row in group if row.holder})
        cluster = _uuid(self.cluster.pk)
        made = [
            (level, at, cluster, spot[0], *_values(row), *owners.get(row.holder, (None,) * len(_OWNERS)))
            for spot, group in rows.items()
            for at in (adapted(spot[1]),)
            for row in group
        ]
        marks = ", ".join(["%s"] * len(_COLUMNS))
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {_TABLE} ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608 - our own names
                made,
            )
        account_sums.add(self.cluster, level, gpus, window, holders=holders)
        return len(made)

    def _stored(
        self, level: int, gpus: Iterable[str], window: Window, *, holders: Holders = None
    ) -> QuerySet[Bucket]:
        rows = Bucket.objects.filter(
            cluster=self.cluster, gpu__in=list(gpus), level=level,
            starts_at__gte=window[0], starts_at__lt=window[1],
        )  # fmt: skip
        return rows if holders is None else rows.filter(holder__in=holders)

    def _owners(self, holders: set[str]) -> dict[str, tuple[Any, ...]]:
        """Allocation, workload and offer by holder; a claim of others has none."""
        missing = _uuids(holder for holder in holders if holder not in self.allocations)
        own = Allocation.objects.filter(cluster=self.cluster, origin=Origin.ALLOTMENT)
        found = own.filter(pk__in=missing) if missing else ()
        known = {**self.allocations, **{str(row.pk): row for row in found}}
        return {
            holder: tuple(_uuid(pk) for pk in (row.pk, row.workload_id, row.offer_id))
            for holder in holders
            if (row := known.get(holder)) is not None
        }


def summed(finer: Rows, level: int) -> dict[Spot, list[Row]]:
    """The rows of a level that rows of a finer one make, in the order of time."""
    groups: dict[Spot, list[Row]] = {}
    for gpu, at in sorted(finer):
        start = micros(floor(moment(at), level))
        groups.setdefault((gpu, start), []).extend(finer[gpu, at])
    return {spot: buckets.summed(rows) for spot, rows in groups.items()}


def _values(row: Row) -> list[Any]:
    values = list(_counted(row))
    values[_TENANT] = _uuid(UUID(row.tenant)) if row.tenant else None
    values[_HISTOGRAM] = str(row.histogram)  # of whole numbers: as JSON writes them
    return values


_counted = attrgetter(*COUNTED)
_TENANT, _HISTOGRAM = COUNTED.index("tenant"), COUNTED.index("histogram")


def _uuid(value: UUID | None) -> UUID | str | None:
    return value if value is None or connection.features.has_native_uuid_field else value.hex


def _uuids(texts: Iterable[str]) -> list[UUID]:
    """Only what may be an allocation's id: a claim of others has a uid of its own."""
    found = []
    for text in texts:
        with suppress(ValueError):
            found.append(UUID(text))
    return found
