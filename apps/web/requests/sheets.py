"""Tables as CSV files for people with spreadsheets."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.http import HttpResponse

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes text that begins so for a formula."""


def csv_file(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """A download: one head, one line per row; None, which is unknown, is empty."""
    return download(name, csv_text(head, rows))


def download(name: str, text: str) -> HttpResponse:
    """A file of text that is CSV already."""
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    answer["Cache-Control"] = "no-store"
    return answer


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """RFC 4180, times in UTC; names cannot become formulas."""
    return csv_lines((head, *rows))


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """The same of lines alone, for a file that is written bit by bit."""
    out = io.StringIO()
    csv.writer(out).writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULAS) else text
