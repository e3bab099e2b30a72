"""A month as its bill says it: in two prices, and as files. Reads only."""

from django.http import HttpResponse

from apps.metering.billing.rules.two_prices import TwoPrices
from apps.metering.billing.selectors import months
from apps.metering.billing.selectors.months import Month
from apps.web.requests.sheets import csv_file

FILES = ("lines", "focus")


def picture(month: Month) -> TwoPrices:
    """Picture (f) of the devices, in cents."""
    return TwoPrices(
        allocated=month.allocated,
        refunded=month.refunded,
        hoarded=month.cause("hoarded"),
        zombie=month.cause("zombie"),
        idle=month.cause("idle"),
        partly=month.cause("partly"),
        unknown=month.part("unknown"),
        effective=month.part("effective"),
        currency=month.currency,
    )


def file_of(month: Month, what: str) -> HttpResponse:
    """One of the two files of a month."""
    name = f"{month.tenant.slug}-{month.month:%Y-%m}-{what}"
    if what == "focus":
        return csv_file(name, months.FOCUS_HEAD, months.focus_rows(month))
    return csv_file(name, months.HEAD, months.cells(month))
