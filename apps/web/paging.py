"""Lists in pages: an opaque cursor that stays right while rows come and go (keyset, never an offset)."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.web.perimeter import public
from apps.web.queries import Flag, Parameter, Sort, Text, WholeNumber, instant
from apps.web.refusals import BadParameter

LIMIT = WholeNumber("limit", "How many items a page holds.", default=50, lowest=1, highest=200)
CURSOR = Text("cursor", "Where the page begins: part of the address that `next` holds.")
INCLUDE_TOTAL = Flag("include_total", "Also answer `total`, the number of items on all pages.")
LONGEST_ID = 36
"""Of a UUID; a number of so many digits is none that a column can be compared with."""

Row = TypeVar("Row", bound=Model)
Bodies = Sequence[Mapping[str, Any]]


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
        is_ours = all(isinstance(each, str) and "\0" not in each for each in (value, row_id))
        if not is_ours or parsed is None or len(row_id) > LONGEST_ID:
            raise ValueError("no place of ours")
        return Q(**{f"{self.field}__{beyond}": parsed}) | Q(**{self.field: parsed, "pk__gt": row_id})

    def place(self, row: Model) -> list[str]:
        value = getattr(row, self.field)
        return [self.name, value.isoformat() if isinstance(value, datetime) else str(value), str(row.pk)]


@cache
def parameters(sorts: tuple[str, ...]) -> tuple[Parameter[Any], ...]:
    """What every list takes: the page, and the order where there is a choice."""
    page: tuple[Parameter[Any], ...] = (LIMIT, CURSOR, INCLUDE_TOTAL)
    return (*page, Sort("sort", "The order; - in front reverses it.", sorts)) if sorts else page


def paginate(
    request: Request, queryset: QuerySet[Row], render: Callable[[Row], Mapping[str, Any]]
) -> Response:
    """`{"items": [...], "next": url or null}` (and total with include_total=true), by limit, cursor and sort.

    The row's primary key breaks ties, so no row is skipped or shown twice because two share a time.
    """
    return paginate_whole(request, queryset, lambda rows: [render(row) for row in rows])


def paginate_whole(
    request: Request, queryset: QuerySet[Row], render: Callable[[list[Row]], Bodies]
) -> Response:
    """The same where the bodies of a page are made together, because its rows share what they are made of."""
    return _paged(request, [queryset], render)


def paginate_together(
    request: Request, sources: Sequence[QuerySet[Any]], render: Callable[[Any], Mapping[str, Any]]
) -> Response:
    """The same over several tables as one list. The view's `sorts` are columns or annotations that each
    source has; their primary keys are of one type.
    """
    return _paged(request, sources, lambda rows: [render(row) for row in rows])


def _paged(
    request: Request, sources: Sequence[QuerySet[Any]], render: Callable[[list[Any]], Bodies]
) -> Response:
    (sort,) = (each for each in parameters(_sorts(request)) if isinstance(each, Sort))
    rows, more = page_of(sources, sort.of(request), LIMIT.of(request), CURSOR.of(request))
    body: dict[str, Any] = {"items": render(rows), "next": more and _next(request, more)}
    if INCLUDE_TOTAL.of(request):
        body["total"] = sum(source.count() for source in sources)
    return Response(body)


def _sorts(request: Request) -> tuple[str, ...]:
    found: tuple[str, ...] = request.parser_context["view"].sorts
    return found


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


def _after(order: _Order, model: type[Model], cursor: str) -> Q:
    try:
        sort, value, row_id = json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=="))
        if sort != order.name:
            raise BadParameter("cursor", f"The cursor is for sort={sort}.")
        model._meta.pk.to_python(row_id)
        return order.after(value, row_id)
    except (ValueError, TypeError, OverflowError, AttributeError, ValidationError, RecursionError):
        raise BadParameter("cursor", "The cursor is not one of ours; list again from the start.") from None


def _cursor(place: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _next(request: Request, cursor: str) -> str:
    query = {**request.query_params.dict(), "cursor": cursor}
    return public(f"{request.path}?{urlencode(query)}")
