"""Cells of CSV files as people and spreadsheets read them."""

from decimal import Decimal

from apps.web.requests.sheets import csv_text


def test_money_is_written_out_and_a_name_is_no_formula() -> None:
    row = [Decimal("0E-8"), Decimal("1E+3"), Decimal("2.50"), None, 0.25, "=1+1"]
    assert csv_text(["a"], [row]).splitlines() == ["a", "0.00000000,1000,2.50,,0.25,'=1+1"]
