"""A row of every model of the product, those that a test lacks made from their columns alone."""

from datetime import date, time, timedelta
from typing import Any

from django.db import models
from django.utils import timezone

PLANTED = "planted-4f0e"
"""Stands in every column that is withheld."""
EMPTY = frozenset({"quotas.Budget.department", "metering.Finding.made"})
"""What leads nowhere where another column leads somewhere."""


def row_of(model: type[models.Model]) -> models.Model:
    """Some row of the model, with what it needs."""
    known = model._base_manager.first()
    if known is not None:
        return known
    row = model(**{each.attname: _value(each) for each in model._meta.concrete_fields if _is_asked(each)})
    model._base_manager.bulk_create([row])
    return row


def plant(row: models.Model, fields: list[models.Field]) -> None:  # type: ignore[type-arg]
    """Write a secret into columns that must not be read."""
    values = {each.name: planted_in(each) for each in fields}
    type(row)._base_manager.filter(pk=row.pk).update(**values)


def planted_in(field: models.Field) -> Any:  # type: ignore[type-arg]
    """The secret, as a column can hold it."""
    if isinstance(field, models.BinaryField):
        return PLANTED.encode()
    return [PLANTED] if isinstance(field, models.JSONField) else PLANTED


def _is_asked(field: models.Field) -> bool:  # type: ignore[type-arg]
    is_own = isinstance(field, models.AutoField) or field.has_default()
    return not is_own and not (field.null and not field.is_relation)


def _is_pointing(field: models.Field) -> bool:  # type: ignore[type-arg]
    is_itself = field.related_model is field.model
    return not field.null or not (is_itself or f"{field.model._meta.label}.{field.name}" in EMPTY)


def _value(field: models.Field) -> Any:  # type: ignore[type-arg]
    if isinstance(field, models.ForeignKey):
        return row_of(field.related_model).pk if _is_pointing(field) else None
    if field.choices:
        return field.flatchoices[0][0]
    now = timezone.now()
    values: dict[type[models.Field], Any] = {  # type: ignore[type-arg]
        models.DateTimeField: now + timedelta(hours=1),
        models.DateField: date(now.year, now.month, 1),
        models.TimeField: time(9),
        models.BooleanField: False,
        models.JSONField: [],
        models.BinaryField: b"x",
        models.DecimalField: 1,
        models.IntegerField: 1,
    }
    return next(
        (value for kind, value in values.items() if isinstance(field, kind)), "some"[: field.max_length]
    )
