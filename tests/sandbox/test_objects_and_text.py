"""Quantities, selectors and ages read and print as the real server does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.api.meta import quantity
from sandbox.api.meta import selectors as meta_selectors
from sandbox.api.meta.errors import ApiError
from sandbox.api.printers.ages import age

FIELDS = frozenset({"metadata.name", "spec.nodeName"})


@pytest.mark.parametrize(
    ("given_text", "stored"),
    [
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("2000", "2k"),
        ("0.1m", "1m"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("100Ki", "100Ki"),
        ("1500Mi", "1500Mi"),
    ],
)
def test_a_quantity_is_stored_in_its_canonical_form(given_text: str, stored: str) -> None:
    assert quantity.canonical(given_text) == stored


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_the_canonical_form_keeps_the_value_and_is_stable(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert quantity.parse(quantity.canonical(text)) == quantity.parse(text)
    assert quantity.canonical(quantity.canonical(text)) == quantity.canonical(text)


def test_text_that_is_no_quantity_is_refused() -> None:
    with pytest.raises(quantity.BadQuantity):
        quantity.parse("12 GB")
    assert quantity.parse("1Ki") == Decimal(1024)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=web", True),
        ("app!=web", False),
        ("app in (web,db),tier", True),
        ("app notin (web)", False),
        ("!missing", True),
        ("missing!=x", True),
        ("size>2", True),
        ("size<3", False),
    ],
)
def test_a_label_selector_reads_as_kubectl_writes_it(text: str, *, matches: bool) -> None:
    assert meta_selectors.labels(text)({"app": "web", "tier": "front", "size": "3"}) is matches


def test_a_broken_label_selector_is_a_400() -> None:
    with pytest.raises(ApiError) as refused:
        meta_selectors.labels("a===b(")
    assert refused.value.code == 400


def test_a_field_selector_knows_only_the_fields_of_its_kind() -> None:
    test = meta_selectors.fields("spec.nodeName=n1,metadata.name!=b", FIELDS)
    assert test({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}})
    assert not test({"metadata": {"name": "b"}, "spec": {"nodeName": "n1"}})
    with pytest.raises(ApiError) as refused:
        meta_selectors.fields("spec.other=x", FIELDS)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (5, "5s"),
        (125, "2m5s"),
        (900, "15m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (200_000, "2d7h"),
        (9 * 86_400, "9d"),
    ],
)
def test_an_age_is_as_short_as_kubectl_prints_it(seconds: int, shown: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now) == shown
