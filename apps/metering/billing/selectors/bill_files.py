"""A month as its bill says it: in two prices, and as files. Reads only."""

from datetime import datetime

from django.http import HttpResponse

from apps.metering.billing.rules.effective_split import CAUSES
from apps.metering.billing.rules.two_prices import TwoPrices
from apps.metering.billing.selectors import focus_export, months
from apps.metering.billing.selectors.months import Month
from apps.web.requests.sheets import csv_file, download

FILES = ("lines", "focus")


def picture(month: Month) -> TwoPrices:
    """Picture (f) of the devices, in cents."""
    return TwoPrices(
        allocated=month.allocated,
        refunded=month.refunded,
        causes={cause: month.cause(cause) for cause in CAUSES},
        unknown=month.part("unknown"),
        effective=month.part("effective"),
        currency=month.currency,
    )


def file_of(month: Month, what: str, *, now: datetime) -> HttpResponse:
    """One of the two files of a month."""
    name = f"{month.tenant.slug}-{month.month:%Y-%m}-{what}"
    if what == "focus":
        return download(name, focus_export.text_of(month, now=now))
    return csv_file(name, months.HEAD, months.cells(month))
