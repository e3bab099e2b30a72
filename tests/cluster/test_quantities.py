"""Kubernetes quantities, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.objects import quantities


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("16Gi", Fraction(16 * 1024**3)),
        ("1e3", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("2E2", Fraction(200)),
        ("100n", Fraction(1, 10**7)),
        ("-3", Fraction(-3)),
        (4, Fraction(4)),
        (0.5, Fraction(1, 2)),
    ],
)
def test_a_quantity_is_read_exactly(text: str | float, value: Fraction) -> None:
    assert quantities.parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Gi",
        "1 Gi",
        "1gi",
        "0x10",
        "1e999",
        "١٢",
        "1" * 41,
        "1Gib",
        "--1",
        "nan",
        "inf",
        float("nan"),
        "9Ei",
        "1_0",
    ],
)
def test_hostile_or_wrong_text_is_refused_in_words(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"not a quantity|larger than"):
        quantities.parse_quantity(text)


def test_cpu_is_rounded_up_to_a_thousandth_of_a_core() -> None:
    assert quantities.cpu_millis("0.0001") == 1
    assert quantities.cpu_millis("2") == 2000


def test_a_negative_amount_of_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        quantities.memory_bytes("-1Gi")


def test_half_a_device_is_refused() -> None:
    assert quantities.whole_number("3") == 3
    with pytest.raises(ValueError, match="whole number"):
        quantities.whole_number("500m")


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_bytes_survive_being_written_and_read_again(count: int) -> None:
    assert quantities.memory_bytes(quantities.format_bytes(count)) == count


@given(st.integers(min_value=0, max_value=10**9))
def test_cpu_survives_being_written_and_read_again(millis: int) -> None:
    assert quantities.cpu_millis(quantities.format_millis(millis)) == millis


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (10468982784, "9.8 GiB"), (80 * 1024**3, "80 GiB")],
)
def test_people_read_bytes_to_a_tenth(count: int, shown: str) -> None:
    assert quantities.shown_bytes(count) == shown
