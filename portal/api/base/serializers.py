"""Serializers that refuse what they do not know, and the translation of their errors into field problems.

Never drops a field silently: unknown and read-only ones are refused together with every other mistake.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from django.utils.dateparse import parse_datetime
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.settings import api_settings

from apps.errors import MOST_PROBLEMS, Invalid
from apps.web.problems.field_problems import field_problems
from apps.words import nearest

IGNORED = frozenset({"status", "generation", "updated_at"})
"""Fields of an object that a client sends back without meaning a change."""


class Shaped:
    """Mixed into a field whose value something else checks: `shape` is the TypedDict that describes it,
    `is_patch` says that it is merged into what is there, so that no member is required.
    """

    shape: ClassVar[Any]
    is_patch: ClassVar[bool] = False


def repeats(sent: Any, shown: Any) -> bool:
    """Whether the value repeats what was shown. A time may be written differently: typed clients write
    `+00:00` for our `Z`.
    """
    if sent == shown or not (isinstance(sent, str) and isinstance(shown, str)):
        return bool(sent == shown)
    with suppress(ValueError, TypeError):
        moment = parse_datetime(shown)
        return moment is not None and parse_datetime(sent) == moment
    return False


class StrictSerializer(serializers.Serializer[Any]):
    """Knows exactly its fields; `context["current"]` is the object as shown: read-only ones may repeat it,
    each where it is shown.
    """

    def to_internal_value(self, data: Any) -> Any:
        """Every mistake at once: those of the fields, plus unknown and read-only ones."""
        wrong = self._strange(data) | self._mistyped(data) if isinstance(data, Mapping) else {}
        try:
            value = super().to_internal_value(data)
        except ValidationError as error:
            raise ValidationError({**_mapping(error.detail), **wrong}) from None
        if wrong:
            raise ValidationError(wrong)
        return value

    def _mistyped(self, data: Mapping[str, Any]) -> dict[str, list[ErrorDetail]]:
        """Refuses numbers where text is due: the framework would turn them into texts."""
        return {
            name: [ErrorDetail("Not a valid string.", code="invalid")]
            for name, field in self.fields.items()
            if not field.read_only and _is_number(field, data.get(name))
        }

    def _strange(self, data: Mapping[str, Any]) -> dict[str, list[ErrorDetail]]:
        writable = {name for name, field in self.fields.items() if not field.read_only}
        current = self._current()
        strange = [
            name
            for name in data
            if not (
                name in writable
                or name in IGNORED
                or (name in current and repeats(data[name], current[name]))
            )
        ]
        wrong = {}
        if len(strange) > MOST_PROBLEMS:
            words = f"{len(strange) - MOST_PROBLEMS} more fields are unknown or cannot be set."
            wrong[api_settings.NON_FIELD_ERRORS_KEY] = [ErrorDetail(words, code="unknown_field")]
        for name in strange[:MOST_PROBLEMS]:
            if name in self.fields or name in current:
                wrong[name] = [ErrorDetail("This field cannot be set.", code="read_only_field")]
            else:
                wrong[name] = [ErrorDetail(did_you_mean(name, writable), code="unknown_field")]
        return wrong

    def _current(self) -> Mapping[str, Any]:
        """The part of the object as shown that this serializer takes."""
        if not isinstance(self.parent, StrictSerializer):
            return self.context.get("current") or {}
        shown = self.parent._current().get(str(self.field_name))
        return shown if isinstance(shown, Mapping) else {}

    @classmethod
    def checked(cls, data: Any, **options: Any) -> dict[str, Any]:
        """The validated values; raises `Invalid` with every wrong field. Options: partial, context."""
        serializer = cls(data=data, **options)
        if not serializer.is_valid():
            raise Invalid(field_problems(serializer.errors))
        return dict(serializer.validated_data)


def _is_number(field: Any, value: Any) -> bool:
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        return any(_is_number(field.child, each) for each in value)
    return isinstance(field, serializers.CharField) and isinstance(value, int | float)


class _Counted(serializers.Field[Any, Any, Any, Any]):
    """Counts the entries before it looks at any: the framework judges each of them first."""

    max_length: int | None = 0

    def __init__(self, **options: Any) -> None:
        most = options.pop("max_length", type(self).max_length)
        super().__init__(**options)
        self.max_length = most

    def to_internal_value(self, data: Any) -> Any:
        """Refuses what has too many entries."""
        if isinstance(data, Mapping | list) and len(data) > (self.max_length or 0):
            raise ValidationError(f"At most {self.max_length} entries.", code="max_length")
        return super().to_internal_value(data)


class BoundedDict(_Counted, serializers.DictField):
    """An object of free keys, at most `max_length` of them."""


class BoundedList(_Counted, serializers.ListField):
    """A list of at most `max_length` entries."""


def did_you_mean(name: str, known: set[str] | frozenset[str]) -> str:
    """What to say about an unknown name: the nearest known one, else all of them."""
    near = nearest(name, known)
    return f"Did you mean {near}?" if near else f"Unknown. Known: {', '.join(sorted(known)) or 'none'}."


def _mapping(detail: Any) -> dict[str, Any]:
    return dict(detail) if isinstance(detail, Mapping) else {"non_field_errors": detail}


class ReasonSerializer(StrictSerializer):
    """The body of an action or a decision: why. The audit record keeps it."""

    reason = serializers.CharField(max_length=500, allow_blank=True, default="")
