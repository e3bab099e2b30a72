"""Lists in pages: an opaque cursor that stays right while rows come and go (keyset, never an offset)."""

import base64
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from apps.web.perimeter import public
from apps.web.refusals import BadParameter

PARAMETERS = frozenset({"limit", "cursor", "include_total", "sort"})
SORTS = ("created_at", "updated_at", "slug")
DEFAULT_LIMIT, LARGEST_LIMIT = 50, 200

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class _Order:
    field: str
    is_descending: bool

    @property
    def name(self) -> str:
        return f"-{self.field}" if self.is_descending else self.field

    def after(self, value: str, row_id: str) -> Q:
        beyond = "lt" if self.is_descending else "gt"
        parsed = value if self.field == "slug" else instant(value)
        if not isinstance(value, str) or "\0" in value or parsed is None:
            raise ValueError("no place of ours")
        return Q(**{f"{self.field}__{beyond}": parsed}) | Q(**{self.field: parsed, "pk__gt": row_id})

    def place(self, row: Model) -> list[str]:
        value = getattr(row, self.field)
        return [self.name, value.isoformat() if isinstance(value, datetime) else str(value), str(row.pk)]


def paginate(
    request: Request, queryset: QuerySet[Row], render: Callable[[Row], Mapping[str, Any]]
) -> Response:
    """`{"items": [...], "next": url or null}` (and total with include_total=true), by limit, cursor and sort.

    The row's primary key breaks ties, so no row is skipped or shown twice because two share a time.
    """
    fields = {field.name for field in queryset.model._meta.get_fields()}
    known = [name for name in SORTS if name in fields]
    usual = "-created_at" if "created_at" in known else known[0]
    return _paged(request, [queryset], render, sorts=known, usual=usual)


def paginate_together(
    request: Request,
    sources: Sequence[QuerySet[Any]],
    render: Callable[[Any], Mapping[str, Any]],
    sorts: Sequence[str],
) -> Response:
    """The same over several tables as one list. `sorts` are moments that each source has (a column, or an
    annotation), whose primary keys are of one type; the first of them, newest first, is the usual order.
    """
    return _paged(request, sources, render, sorts=sorts, usual=f"-{sorts[0]}")


def page_of(
    sources: Sequence[QuerySet[Any]], sort: str, limit: int, cursor: str | None
) -> tuple[list[Any], str | None]:
    """The rows that come after a cursor in one list of several tables, and the cursor of the next page; None
    where there is none. Raises BadParameter for a cursor that is not one of ours.
    """
    order = _Order(sort.removeprefix("-"), sort.startswith("-"))
    after = _after(order, sources[0].model, cursor) if cursor else Q()
    found: list[Any] = []
    for source in sources:
        found += source.filter(after).order_by(order.name, "pk")[: limit + 1]
    if len(sources) > 1:
        found.sort(key=lambda row: row.pk)
        found.sort(key=lambda row: getattr(row, order.field), reverse=order.is_descending)
    more = _cursor(order.place(found[limit - 1])) if len(found) > limit else None
    return found[:limit], more


def _paged(
    request: Request,
    sources: Sequence[QuerySet[Any]],
    render: Callable[[Any], Mapping[str, Any]],
    *,
    sorts: Sequence[str],
    usual: str,
) -> Response:
    sort = _sort(request, sorts, usual)
    rows, more = page_of(sources, sort, _limit(request), request.query_params.get("cursor"))
    body: dict[str, Any] = {"items": [render(row) for row in rows], "next": more and _next(request, more)}
    if flag(request, "include_total"):
        body["total"] = sum(source.count() for source in sources)
    return Response(body)


def flag(request: Request, name: str) -> bool:
    """A query parameter that is true or false; absent is false."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise BadParameter(name, f"{name} is true or false.")
    return value == "true"


def words(request: Request, name: str, known: Collection[str]) -> list[str] | None:
    """A query parameter of known words, several with commas; None where it is absent."""
    text = request.query_params.get(name)
    asked = None if text is None else text.split(",")
    if asked is not None and not set(asked) <= set(known):
        raise BadParameter(name, f"{name} is one of {', '.join(known)}.")
    return asked


def whole_number(request: Request, name: str, *, default: int, lowest: int, highest: int) -> int:
    """A query parameter that is a whole number within bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and lowest <= int(text) <= highest):
        raise BadParameter(name, f"{name} is a whole number from {lowest} to {highest}.")
    return int(text)


def moment(request: Request, name: str) -> datetime | None:
    """A query parameter that is a time with its zone, in UTC; None where it is absent."""
    text = request.query_params.get(name)
    if text is None:
        return None
    found = instant(text)
    if found is None:
        raise BadParameter(name, f"{name} is a time from 1970 on, such as 2026-11-20T09:00:00Z.")
    return found


def instant(text: str) -> datetime | None:
    """A time with its zone, in UTC; None for every other text, and for times before 1970."""
    try:
        found = parse_datetime(text)
        at = found.astimezone(UTC) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        # No day of the calendar, or one that UTC's calendar does not reach.
        return None
    return at if at and at.year >= 1970 else None


def _limit(request: Request) -> int:
    return whole_number(request, "limit", default=DEFAULT_LIMIT, lowest=1, highest=LARGEST_LIMIT)


def _sort(request: Request, known: Sequence[str], usual: str) -> str:
    asked = request.query_params.get("sort", usual)
    if asked.removeprefix("-") not in known:
        raise BadParameter("sort", f"sort is one of {', '.join(known)}, with - in front for the reverse.")
    return asked


def _after(order: _Order, model: type[Model], cursor: str) -> Q:
    try:
        sort, value, row_id = json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=="))
        if sort != order.name:
            raise BadParameter("cursor", f"The cursor is for sort={sort}.")
        model._meta.pk.to_python(row_id)
        return order.after(value, row_id)
    except (ValueError, TypeError, ValidationError, RecursionError):
        raise BadParameter("cursor", "The cursor is not one of ours; list again from the start.") from None


def _cursor(place: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _next(request: Request, cursor: str) -> str:
    query = {**request.query_params.dict(), "cursor": cursor}
    return public(f"{request.path}?{urlencode(query)}")
