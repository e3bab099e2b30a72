"""Values of records as a page shows them: every link between rows, no value longer than a page can bear."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse
from django.utils.text import capfirst

from portal.pages.console.records.columns import name_of
from portal.pages.console.records.withheld import is_listed

if TYPE_CHECKING:
    from portal.pages.console.records.withheld import Column

LONGEST, LONGEST_IN_A_LIST = 20_000, 80
"""Characters of a value."""
NONE = "-"
UUID_OF = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Names = Mapping[tuple[type[Model], Any], str]
"""What rows are called, by model and key."""


@dataclass(frozen=True)
class Cell:
    """One value: the name of its column, its text, where it leads, and the moment that it is."""

    name: str
    text: str
    url: str = ""
    at: datetime | None = None
    is_long: bool = False


def address(model: type[Model], key: Any) -> str:
    """The page of a row; empty where the records do not show its model."""
    if not is_listed(model):
        return ""
    options = model._meta
    return reverse("records-row", args=[options.app_label, options.model_name, quote(str(key))])


def names_behind(rows: Sequence[Model], fields: Iterable[Column]) -> Names:
    """What the rows are called that these lead to: a query for each model, however many rows there are."""
    keys: defaultdict[type[Model], set[Any]] = defaultdict(set)
    for field in fields:
        target: Any = field.related_model
        if field.is_relation and is_listed(target) and name_of(target):
            keys[target] |= {getattr(row, field.attname) for row in rows} - {None}
    return {
        (model, key): name
        for model, wanted in keys.items()
        if wanted
        for key, name in model._base_manager.filter(pk__in=wanted).values_list("pk", name_of(model))
    }


def cell(row: Model, field: Column, names: Names, longest: int = LONGEST) -> Cell:
    """A row's value in a column."""
    name, value = capfirst(str(field.verbose_name)), getattr(row, field.attname)
    if value is None or value == "":
        return Cell(name, NONE)
    if field.is_relation:
        target: Any = field.related_model
        return Cell(name, names.get((target, value), str(value)), address(target, value))
    return Cell(
        name, clipped(text(value), longest), at=value if isinstance(value, datetime) else None,
        is_long=len(text(value)) > LONGEST_IN_A_LIST,
    )  # fmt: skip


def led(row: Model, line: Sequence[Cell]) -> list[Cell]:
    """A line of a list: its first value leads to the row, and ids are short."""
    first, *rest = [replace(each, text=_short(each.text)) for each in line]
    return [replace(first, url=address(type(row), row.pk)), *rest]


def _short(words: str) -> str:
    return words[:8] if UUID_OF.fullmatch(words) else words


def text(value: Any) -> str:
    """A value in plain text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, indent=1, default=str)
    return str(value)


def clipped(words: str, longest: int) -> str:
    """The beginning of a text, which says how much is not there."""
    return words if len(words) <= longest else f"{words[:longest]}... ({len(words)} characters)"
