"""The files in FOCUS's columns, judged by the FinOps Foundation's own validator (`focus-validator` on PyPI).

It needs a Python of 3.12 or newer, and comes with the rules of 1.2. It is installed once, beside the other
programs of the tests, in an environment of its own.
"""

import re
import subprocess
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from apps.metering.billing.selectors import focus_export, months
from apps.metering.models import Correction
from apps.quotas.models import Price
from portal.pages.console.fleet import fleet_focus
from tests.conftest import Cast, as_actor
from tests.controlplane.binaries import cache_root
from tests.factories import make_workload
from tests.interpreters import interpreters
from tests.metering.books import Books
from tests.metering.closing import AT, DAY, HOUR, NOVEMBER, NOW, close
from tests.metering.made_buckets import roll
from tests.metering.priced_scene import held, preempt, price

pytestmark = [pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(900)]
WANTS = ("focus-validator==2.2.1", "numpy<2", "pyarrow<20")
"""It wants an old numpy and any pyarrow, of which the newest wants a new one."""
OURS = (
    "ACCOUNT_NAMING", "MULTIPLE_PRICING_CATEGORIES", "NEGOTIATED_PRICING", "PUBLIC_PRICE_LIST", "TAGGING",
    "USAGE_MEASUREMENT", "UNIT_PRICING", "SUB_ACCOUNT", "BILLING_BASED_ON_PROVISIONED_RESOURCES",
    "RESOURCE_TYPE_ASSIGNMENT",
)  # fmt: skip
"""What of a provider's abilities we have: rules of others do not apply."""
NOT_JUDGED = re.compile(r"InvoiceId-C-00[0345]-C|ConsumedQuantity-C-00[03456]-C|CostAndUsage-D-00[02]-M")
"""Rules that no file fulfils: InvoiceId 004 and 005 are one rule and its opposite, of which each file breaks
one; that of ConsumedQuantity reads a column of commitment discounts, of which we have none; the rest sum up.
"""


@pytest.fixture(scope="module")
def validator() -> Path:
    """The folder of its packages, where it wants to be started."""
    python = next(filter(is_new, interpreters()), None)
    if python is None:
        pytest.skip("focus-validator needs a Python of 3.12 or newer: name one by PYTHONS")
    folder = cache_root().parent / "focus" / WANTS[0].replace("==", "-")
    if not (folder / "complete").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", *WANTS], check=True)
        (folder / "complete").touch()
    return next(folder.glob("lib/python3*/site-packages"))


def is_new(python: str) -> bool:
    test = "import sys; sys.exit(sys.version_info < (3, 12))"
    return not subprocess.run([python, "-c", test], check=False).returncode


def judged(validator: Path, file: Path) -> tuple[set[str], int]:
    """The rules that the file breaks, and how many it keeps."""
    program = validator.parents[2] / "bin" / "focus-validator"
    criteria = ",".join(f"{name}_SUPPORTED" for name in OURS)
    answer = subprocess.run(
        [
            str(program), "--data-file", str(file), "--validate-version", "1.2.0.1", "--block-download",
            "--focus-dataset", "CostAndUsage", "--applicability-criteria", criteria,
        ],
        cwd=validator, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (kept,) = re.findall(r"^Total: \d+ \| Pass: (\d+) ", answer.stdout, re.MULTILINE)
    return set(re.findall(r"(\S+): FAIL", answer.stdout)), int(kept)


def holds(validator: Path, file: Path, text: str) -> None:
    file.write_text(text)
    broken, kept = judged(validator, file)
    assert [name for name in sorted(broken) if not NOT_JUDGED.fullmatch(name)] == []
    assert kept > 200


def test_a_filled_closed_month_and_its_correction_hold(cast: Cast, validator: Path, tmp_path: Path) -> None:
    """Own and list prices, spot, refunds, minimum units, CPU; and a month of negative corrections."""
    Price.objects.update(valid_from=AT - 90 * DAY, hourly=Decimal(2))
    price(cast.offer, "1.50", AT - 60 * DAY, tenant=cast.vision, least_seconds=3600)
    price(None, "0.04", AT - 60 * DAY, resource="cpu")
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    first = held(row, AT, AT + 10 * HOUR, capacity="spot")
    roll(first, NOW, effective=0.5, idle=0.25)
    preempt(row, AT + 10 * HOUR)
    held(row, AT + DAY, AT + 3 * DAY + timedelta(seconds=17), "d1")
    october = close(cast)
    holds(
        validator, tmp_path / "october.csv", focus_export.text_of(months.month_of_statement(october), now=NOW)
    )
    Correction.objects.create(
        allocation=first, started_at=AT, ended_at=AT + HOUR, reason="clock", made_by="petra", made_at=NOW
    )
    november = months.month_of_statement(close(cast, NOVEMBER, now=NOW + 40 * DAY))
    text = focus_export.text_of(november, now=NOW + 40 * DAY)
    assert ",Correction," in text
    holds(validator, tmp_path / "november.csv", text)


def test_the_fleets_open_month_holds(cast: Cast, validator: Path, tmp_path: Path) -> None:
    """With rows of the platform's own: what nobody held."""
    begun = AT - 5 * DAY
    Price.objects.update(valid_from=begun - 90 * DAY, hourly=Decimal("2.9371"))
    books = Books(cast)
    books.whole("GPU-1", begun)
    books.hold("GPU-1", begun + HOUR, begun + 5 * HOUR)
    books.roll(begun + 36 * HOUR)
    text = fleet_focus.text_of(as_actor(cast.petra), begun.date().replace(day=1), now=begun + 36 * HOUR)
    assert ",platform," in text
    holds(validator, tmp_path / "fleet.csv", text)
