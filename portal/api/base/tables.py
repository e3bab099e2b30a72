"""Lists of REST as CSV, for `Accept: text/csv`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rest_framework.renderers import BaseRenderer

from apps.web.requests.sheets import csv_text


class ItemsCsv(BaseRenderer):
    """The items of a list, a line each, in the view's `columns`; the unknown is empty.

    What lies deeper is named with its parents (`suggestion_offer`); money is its amount, beside a column
    `currency`. Where there is a next page, its address is in the header `Link`.
    """

    media_type = "text/csv"
    format = "csv"

    def render(self, data: Any, _type: str | None = None, renderer_context: Any = None) -> bytes:
        """RFC 4180."""
        columns: Sequence[str] = renderer_context["view"].columns
        if data.get("next"):
            renderer_context["response"]["Link"] = f'<{data["next"]}>; rel="next"'
        rows = [dict(_flat(each)) for each in data["items"]]
        return csv_text(columns, ([row.get(name) for name in columns] for row in rows)).encode()


def _flat(item: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in item.items():
        name = f"{under}{key}"
        if not isinstance(value, Mapping):
            yield name, json.dumps(value, default=str) if isinstance(value, list) else value
        elif set(value) == {"amount", "currency"}:
            yield name, value["amount"]
            yield "currency", value["currency"]
        else:
            yield from _flat(value, f"{name}_")
