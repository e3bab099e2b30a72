"""A tenant's quota as bars, as the home page, a team's and a tenant's show them. Reads only."""

from dataclasses import dataclass
from datetime import datetime

from apps.accounts.specs import Actor
from apps.quotas.allowances.selectors import standing
from apps.tenants.models import Tenant
from portal.pages.parts.pictures import charts


@dataclass(frozen=True)
class Bar:
    """A quota bar with the offer's name and what is free of it this moment."""

    name: str
    bar: charts.QuotaBar
    free: int
    one_node: str
    """How many of these one pod could have; empty: all of them."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of it is used, lent or waited for: its place is below what is."""
        return not (self.bar.used or self.bar.lent or self.bar.pending)


def bars(actor: Actor, tenant: Tenant, *, now: datetime) -> list[Bar]:
    """One bar for each offer the tenant has a quota of."""
    found = standing.quota_bars(actor, tenant, now=now)
    return [Bar(each.offer.name, picture_of(each), each.free, each.one_node) for each in found]


def picture_of(each: standing.QuotaBar) -> charts.QuotaBar:
    """The bar of one offer."""
    return charts.QuotaBar(
        offer=each.offer.name,
        guaranteed=each.guaranteed,
        used=each.used,
        lent=each.lent,
        borrow_limit=each.borrow_limit,
        pending=each.pending,
    )
