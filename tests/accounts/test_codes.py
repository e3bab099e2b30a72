"""The codes of a second factor, as rules."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.accounts.second_factor import codes

# RFC 6238, appendix B, SHA-1: the last six of its eight digits.
VECTORS = {59: "287082", 1111111109: "081804", 1234567890: "005924", 2000000000: "279037"}
SECRET = b"12345678901234567890"
NOW = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)
STEP = int(NOW.timestamp()) // codes.STEP_SECONDS


@pytest.mark.parametrize(("second", "code"), VECTORS.items())
def test_codes_are_those_of_the_standard(second: int, code: str) -> None:
    assert codes.code_at(SECRET, second // 30) == code
    assert codes.matching_step(SECRET, code, now=datetime.fromtimestamp(second, UTC), after=0) == second // 30


@pytest.mark.parametrize(("off", "found"), [(-2, None), (-1, STEP - 1), (0, STEP), (1, STEP + 1), (2, None)])
def test_a_clock_may_be_a_step_off(off: int, found: int | None) -> None:
    assert codes.matching_step(SECRET, codes.code_at(SECRET, STEP + off), now=NOW, after=0) == found


def test_a_code_opens_once_and_none_before_it_opens_later() -> None:
    earlier, later = codes.code_at(SECRET, STEP), codes.code_at(SECRET, STEP + 1)
    assert codes.matching_step(SECRET, later, now=NOW, after=STEP) == STEP + 1
    after = NOW + timedelta(seconds=30)
    for replayed in (earlier, later):
        assert codes.matching_step(SECRET, replayed, now=after, after=STEP + 1) is None


@pytest.mark.parametrize("typed", ["", "12345", "1234567", "abcdef", "٢٨٧٠٨٢", "-" * 20])
def test_what_is_no_code_opens_nothing(typed: str) -> None:
    assert codes.matching_step(SECRET, typed, now=NOW, after=0) is None


def test_a_code_may_be_typed_as_apps_show_it() -> None:
    code = codes.code_at(SECRET, STEP)
    assert codes.matching_step(SECRET, f" {code[:3]} {code[3:]}", now=NOW, after=0) == STEP


def test_the_app_is_told_all_that_it_needs() -> None:
    assert codes.typed_secret(SECRET) == "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ"
    assert codes.app_address(SECRET, issuer="Allotment a.example", account="ada+x@b") == (
        "otpauth://totp/Allotment%20a.example:ada%2Bx%40b"
        "?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Allotment%20a.example"
    )


def test_a_recovery_code_is_read_however_it_is_typed() -> None:
    made = codes.recovery_code(bytes(range(8)))
    assert (len(made), made.count("-"), codes.recovery_code(bytes(8))) == (14, 2, "0000-0000-0000")
    assert codes.plain(f" {made.upper().replace('-', ' ')} ") == codes.plain(made)
    assert codes.plain("OIL0-i1l") == "0110111"
    with pytest.raises(ValueError, match="8 random bytes"):
        codes.recovery_code(b"short")
