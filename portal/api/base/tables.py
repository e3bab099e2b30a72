"""Lists of REST as CSV, for `Accept: text/csv`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rest_framework.renderers import BaseRenderer

from apps.web.requests.sheets import csv_text


class ItemsCsv(BaseRenderer):
    """The items of a list, a line each, in the view's `columns`; the unknown is empty.

    See `line` on what lies deeper. Where there is a next page, its address is in the header `Link`.
    """

    media_type = "text/csv"
    format = "csv"

    def render(self, data: Any, _type: str | None = None, renderer_context: Any = None) -> bytes:
        """RFC 4180."""
        columns: Sequence[str] = renderer_context["view"].columns
        if data.get("next"):
            renderer_context["response"]["Link"] = f'<{data["next"]}>; rel="next"'
        return csv_text(columns, (line(each, columns) for each in data["items"])).encode()


def line(item: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """One item in the order of the columns.

    What lies deeper is named with its parents (`suggestion_offer`); money is its amount, beside a column
    `currency`; an object that has a column of its own name is JSON.
    """
    found = dict(_flat(item, columns))
    return [found.get(name) for name in columns]


def _flat(item: Mapping[str, Any], columns: Sequence[str], under: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in item.items():
        name = f"{under}{key}"
        is_money = isinstance(value, Mapping) and set(value) == {"amount", "currency"}
        if isinstance(value, list) or (isinstance(value, Mapping) and not is_money and name in columns):
            yield name, json.dumps(value, default=str, ensure_ascii=False)
        elif is_money:
            yield name, value["amount"]
            yield "currency", value["currency"]
        elif isinstance(value, Mapping):
            yield from _flat(value, columns, f"{name}_")
        else:
            yield name, value
