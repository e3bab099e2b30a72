"""What a list of records shows, sorts, filters and searches, each derived from the model.

RULE: a table of few rows may be read whole. In a larger one only what leads an index is sorted, filtered,
searched and followed, so that no list reads millions of rows.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from apps.cluster.models import Reconciled
from portal.pages.console.records.withheld import columns_of

if TYPE_CHECKING:
    from portal.pages.console.records.withheld import Column

NAMES = ("slug", "username", "name")
"""Columns by which people know a row, the best first."""
STATES = ("phase", "status", "kind")
STARTS = ("created_at", "at")
"""Moments by which few rows are ordered, the newest first."""
BOOKKEEPING = frozenset(each.name for each in Reconciled._meta.fields) - {"cluster"}
MOST_COLUMNS, MOST_FILTERS = 9, 5
LARGEST = 2**63 - 1
_LONG = (models.JSONField, models.TextField)


@cache
def leading(model: type[models.Model]) -> frozenset[str]:
    """The columns that an index over all rows begins with, and that are shown."""
    options = model._meta
    names = {each.name for each in options.concrete_fields if each.unique or getattr(each, "db_index", False)}
    names |= {each.fields[0].lstrip("-") for each in options.indexes if each.fields and not each.condition}
    names |= {
        each.fields[0]
        for each in options.constraints
        if isinstance(each, models.UniqueConstraint) and each.fields and not each.condition
    }
    return frozenset(names & {each.name for each in columns_of(model)})


def _within(model: type[models.Model], *, whole: bool) -> list[Column]:
    """The columns that may be looked through."""
    return [each for each in columns_of(model) if whole or each.name in leading(model)]


def name_of(model: type[models.Model]) -> str:
    """The column by which people know its rows; empty where there is none."""
    names = {each.name for each in columns_of(model)}
    return next((name for name in NAMES if name in names), "")


def in_a_list(model: type[models.Model]) -> list[str]:
    """The columns of its list: what it is called, its state, what it belongs to, moments, then the rest."""
    called = name_of(model)
    short = [each for each in ordered(model) if not isinstance(each, _LONG)]
    return [each.name for each in short if not called or not _is_id(each)][:MOST_COLUMNS]


def ordered(model: type[models.Model]) -> list[Column]:
    """All columns that are shown, what people ask for first."""
    called = name_of(model) or model._meta.pk.name
    return sorted(columns_of(model), key=lambda each: 0 if each.name == called else _rank(each))


def _is_id(field: Column) -> bool:
    return field.primary_key and isinstance(field, models.UUIDField)


def _rank(field: Column) -> int:
    places: dict[int, bool] = {
        9: isinstance(field, models.JSONField),
        8: field.name in BOOKKEEPING,
        1: field.name in NAMES or field.primary_key,
        2: field.name in STATES,
        3: field.name in STARTS,
        4: field.is_relation,
        5: isinstance(field, models.DateField),
        6: isinstance(field, models.CharField),
    }
    return next((place for place, is_there in places.items() if is_there), 7)


def sortable(model: type[models.Model], *, whole: bool) -> list[str]:
    """The columns of its list that order it."""
    plain = {each.name for each in _within(model, whole=whole) if not each.is_relation}
    return [name for name in in_a_list(model) if name in plain]


def order(model: type[models.Model], *, whole: bool) -> str:
    """Newest first, where that needs no more than the rows of a page."""
    known = {each.name for each in columns_of(model)} if whole else set()
    return next((f"-{name}" for name in STARTS if name in known), f"-{model._meta.pk.attname}")


def filtered(model: type[models.Model], *, whole: bool) -> list[str]:
    """Some of the columns with a few values each."""
    may = _within(model, whole=whole)
    within = [each for each in ordered(model) if each in may]
    named = [each.name for each in within if each.choices]
    return [*named, *(each.name for each in within if isinstance(each, models.BooleanField))][:MOST_FILTERS]


def may_narrow(model: type[models.Model], name: str, *, whole: bool) -> Column | None:
    """The column of that name, if an address may ask for one of its values."""
    return next((each for each in _within(model, whole=whole) if each.name == name), None)


def is_value(field: Column, text: str) -> bool:
    """Whether a column can have the value that a text stands for; the database is not asked."""
    try:
        value = _target(field).to_python(text)
    except (ValidationError, ValueError):
        return False
    return not isinstance(value, int) or -LARGEST <= value <= LARGEST


def _target(field: Column) -> Column:
    return field.target_field if field.is_relation else field  # type: ignore[attr-defined]


def matching(model: type[models.Model], text: str, *, whole: bool) -> Q | None:
    """The rows with this id or text, among few also with a part of one; None: no column can have it."""
    lookups = [_lookup(each, whole=whole) for each in searched(model, whole=whole) if is_value(each, text)]
    return Q(*((lookup, text) for lookup in lookups), _connector=Q.OR) if lookups else None


def searched(model: type[models.Model], *, whole: bool) -> list[Column]:
    """The columns that a search looks into: ids, texts and what leads to other rows."""
    return [each for each in _within(model, whole=whole) if _is_searched(each)]


def _is_searched(field: Column) -> bool:
    if isinstance(_target(field), models.IntegerField):
        return field.primary_key or field.is_relation
    return isinstance(_target(field), models.UUIDField | models.CharField | models.TextField)


def _lookup(field: Column, *, whole: bool) -> str:
    is_text = isinstance(field, models.CharField | models.TextField)
    return f"{field.name}__icontains" if whole and is_text else field.attname


def pointing(model: type[models.Model]) -> list[Column]:
    """The columns of other models that lead to one of its rows, and that lead an index."""
    relations = [each for each in model._meta.get_fields(include_hidden=True) if each.auto_created]
    fields = [each.field for each in relations if each.one_to_many or each.one_to_one]  # type: ignore[union-attr]
    return [each for each in fields if each.name in leading(each.model)]
