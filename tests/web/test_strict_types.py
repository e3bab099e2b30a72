"""A number is no text, in any field of any body."""

from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework import serializers

from apps.errors import Invalid
from portal.api.base.serializers import StrictSerializer
from portal.api.declared.declaring import operation_of
from tests.matrix import routes


def taken() -> set[type[StrictSerializer]]:
    """Every serializer that a declared operation takes."""
    views = [view.cls for view in routes.served().values() if hasattr(getattr(view, "cls", None), "query")]
    found = (operation_of(view, method) for view in views for method in routes.METHODS)
    return {each.takes for each in found if each and each.takes and issubclass(each.takes, StrictSerializer)}


def texts(serializer: type[StrictSerializer]) -> Iterator[tuple[str, Any]]:
    """The fields of text, and a body with a number there."""
    for name, field in serializer().fields.items():
        if isinstance(field, serializers.CharField) and not field.read_only:
            yield name, 0
        if isinstance(field, serializers.ListField) and isinstance(field.child, serializers.CharField):
            yield name, [0]


def test_a_number_is_no_text() -> None:
    kept = []
    for each in sorted(taken(), key=lambda one: one.__name__):
        for name, value in texts(each):
            with pytest.raises(Invalid) as refused:
                each.checked({name: value})
            if not any(problem.pointer.startswith(f"/{name}") for problem in refused.value.problems):
                kept.append(f"{each.__name__}.{name}")
    assert kept == []
    assert len(taken()) > 20
