"""REST of the ledger: does it balance? Contract: docs/api.md. Reads only."""

from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.cluster.models import Cluster
from apps.errors import NotFound
from apps.metering.billing.rules import pricing
from apps.metering.ledger.rules.buckets import LEVELS, MILLION, floor
from apps.metering.ledger.selectors import facts
from apps.metering.models import Bucket
from apps.metering.specs import Account
from apps.metering.usage.selectors import aggregates
from apps.metering.usage.selectors.aggregates import AccountLine
from portal.api.base.views import ApiView
from portal.api.declared.declaring import answers, refuses
from portal.api.metering import allocations
from portal.api.metering.balance_bodies import BalanceBody


class BalanceView(ApiView):
    """`allocations/balance`: the fleet's time, shared out."""

    scope_group = "metering"
    parameters = allocations.PERIOD

    @answers(200, BalanceBody)
    @refuses("not_found")
    def get(self, request: Request) -> Response:
        """For those who see the whole fleet; others would see parts that cannot balance."""
        if not self.actor.sees_everything:
            raise NotFound
        begins, ends = allocations.period(request, timezone.now())
        reached = aggregates.until() or begins
        begins, ends = floor(begins, LEVELS[0]), floor(max(begins, min(ends, reached)), LEVELS[0])
        parts = aggregates.spans(begins, ends)
        return Response(_balance(parts[0][1], parts[-1][2]) if parts else _balance(begins, begins))


def _balance(begins: datetime, ends: datetime) -> BalanceBody:
    """RULE: the devices that were there come from hardware facts only, the accounts from roll-ups."""
    lines = aggregates.by_account(Bucket.objects.all(), begins, ends) if begins < ends else []
    there = sum(facts.there(cluster, begins, ends) for cluster in Cluster.objects.all())
    accounts = {account: _sum(line for line in lines if line.account == account) for account in Account}
    return {
        "from": begins,
        "to": ends,
        "device_seconds": _seconds(Fraction(there)),
        "tenants": _seconds(accounts[Account.TENANT]),
        "idle": _seconds(accounts[Account.IDLE]),
        "idle_by_reason": {
            line.reason: _seconds(line.totals.gpu) for line in lines if line.account == Account.IDLE
        },
        "unattributed": _seconds(accounts[Account.UNATTRIBUTED]),
        "difference": _seconds(there - sum(accounts.values(), Fraction(0))),
    }


def _sum(lines: Iterable[AccountLine]) -> Fraction:
    return sum((line.totals.gpu for line in lines), Fraction(0))


def _seconds(gpu_us: Fraction) -> str:
    """Seconds of a GPU, to 8 decimals; "0" where it is exactly nothing."""
    return f"{pricing.amount(gpu_us / MILLION):f}" if gpu_us else "0"
