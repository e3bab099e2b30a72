"""The picture of what a team used, lent and borrowed, on its quota page, with its table and its file."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.http import HttpResponse, QueryDict

from apps.metering.lending.selectors.lending_history import SPANS, OfferHistory, read, span_of
from apps.tenants.models import Tenant
from apps.web.requests.sheets import csv_file
from portal.pages.parts.pictures.lending_columns import Column

HEAD = ("offer", "from", "guaranteed", "used_of_guarantee", "lent", "idle", "borrowed", "unknown")


@dataclass(frozen=True)
class Choice:
    """A link to another span."""

    key: str
    label: str
    current: bool


@dataclass(frozen=True)
class Picture:
    """One offer's picture; `told` is its conclusion."""

    name: str
    told: str
    columns: tuple[Column, ...]

    @property
    def has_unknown(self) -> bool:
        """Whether anything of it is drawn as unknown."""
        return any(each.unknown for each in self.columns)

    @property
    def words(self) -> str:
        """The conclusion with the offer's name, for who does not see what it stands beside."""
        return f"{self.name}: {self.told}"


def page(tenant: Tenant, query: QueryDict, *, now: datetime) -> dict[str, Any]:
    """Context of `team/quota/lending.html`, as `lending`; read only where the template asks for it."""
    span = span_of(query)
    label, step, _ = SPANS[span]
    spans = [Choice(key, words, key == span) for key, (words, _, _) in SPANS.items()]

    @cache
    def pictures() -> list[Picture]:
        return [_picture(each, step, label) for each in read(tenant, span, now=now)]

    return {"lending": {"pictures": pictures, "span": span, "spans": spans, "step": step}}


def csv_of(tenant: Tenant, query: QueryDict, *, now: datetime) -> HttpResponse:
    """The figures of all its pictures."""
    rows = [
        (each.offer.slug, s.at, s.guaranteed, s.own, s.lent, s.idle, s.borrowed, s.unknown)
        for each in read(tenant, span_of(query), now=now)
        for s in each.steps
    ]
    return csv_file(f"{tenant.slug}-lent-and-borrowed", HEAD, rows)


def _picture(found: OfferHistory, step: timedelta, label: str) -> Picture:
    columns = tuple(Column(s.at, s.own, s.lent, s.idle, s.unknown, s.borrowed) for s in found.steps)
    hours = step / timedelta(hours=1)
    sums = [hours * sum(each.of(name) for each in columns) for name in ("borrowed", "lent", "unknown")]
    borrowed, lent, unknown = sums
    told = f"borrowed {borrowed:.0f} and lent {lent:.0f} device-hours in {label}"
    if unknown:
        told += f"; {unknown:.0f} more are unknown, from before its quota was known here"
    return Picture(found.offer.name, told, columns)
