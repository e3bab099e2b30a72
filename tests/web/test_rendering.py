"""Bodies are, byte for byte, what DRF's own renderer writes."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.utils.safestring import mark_safe
from rest_framework.renderers import JSONRenderer

from apps.workloads.specs import Phase
from portal.api.base.rendering import FastJSONRenderer

AT = datetime(2026, 11, 20, 9, 0, 19, 120, tzinfo=UTC)
BODIES: list[Any] = [
    None,
    {},
    {"text": 'é "quoted" \\ / \n\t\x7f\x00\u2028\u2029 \U0001f600'},
    {"at": AT, "elsewhere": AT.astimezone(timezone(timedelta(hours=2))), "day": date(2026, 11, 20)},
    {"naive": datetime(2026, 11, 20, 9, 0), "time": timedelta(seconds=90)},  # noqa: DTZ001 - DRF writes these too
    {"amount": Decimal("0.10000000"), "id": UUID(int=7), "phase": Phase.RUNNING, "safe": mark_safe("<b>")},
    {Phase.RUNNING: 1, 2: "two", None: 3},
    {"numbers": [0, -1, 2**63, 2**64, -(2**70), 0.1, 1.0, 123456.789, True, None], "tuple": (1, 2)},
    [[], {}, set(), frozenset({1}), (n for n in (1, 2))],
]


@pytest.mark.parametrize("body", BODIES[:-1], ids=repr)
@pytest.mark.parametrize("media", ["application/json", "application/json; indent=2"])
def test_a_body_is_written_as_drf_writes_it(body: Any, media: str) -> None:
    assert FastJSONRenderer().render(body, media) == JSONRenderer().render(body, media)


def test_what_can_be_gone_through_is_a_list() -> None:
    assert FastJSONRenderer().render(BODIES[-1], "application/json") == b"[[],{},[],[1],[1,2]]"


def test_what_has_no_form_in_json_is_an_error_and_no_text() -> None:
    with pytest.raises(TypeError):
        FastJSONRenderer().render({"thing": object()}, "application/json")
