"""Lists in pages, and what a query may say: limit, cursor, sort, flags, words, numbers, times."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.db.models import Model, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.web.requests.cursors import LONGEST, page_of
from apps.web.requests.perimeter import public
from portal.api.declared.queries import Flag, Parameter, Sort, Text, WholeNumber

LIMIT = WholeNumber("limit", "How many items a page holds.", default=50, lowest=1, highest=200)
CURSOR = Text("cursor", "Where the page begins: part of the address that `next` holds.", longest=LONGEST)
INCLUDE_TOTAL = Flag("include_total", "Also return `total`, the number of items on all pages.")
Row = TypeVar("Row", bound=Model)
Bodies = Sequence[Mapping[str, Any]]


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
    """As `paginate`, for rows whose bodies are made together because they share what they read."""
    return _paged(request, queryset, render)


def _paged(request: Request, rows: QuerySet[Row], render: Callable[[list[Row]], Bodies]) -> Response:
    (sort,) = (each for each in parameters(_sorts(request)) if isinstance(each, Sort))
    found, more = page_of(rows, sort.of(request), LIMIT.of(request), CURSOR.of(request))
    body: dict[str, Any] = {"items": render(found), "next": more and _next(request, more)}
    if INCLUDE_TOTAL.of(request):
        body["total"] = rows.count()
    return Response(body)


def _sorts(request: Request) -> tuple[str, ...]:
    found: tuple[str, ...] = request.parser_context["view"].sorts
    return found


def _next(request: Request, cursor: str) -> str:
    query = {**request.query_params.dict(), "cursor": cursor}
    return public(f"{request.path}?{urlencode(query)}")
