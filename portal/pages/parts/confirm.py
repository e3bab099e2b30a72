"""The question before what cannot be taken back: its consequences, what runs, and one button."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.quotas.catalogue.selectors.price_book import price_at
from apps.workloads.models import Workload
from apps.workloads.selectors.reading import spec_of, workloads_for
from apps.workloads.specs import Phase
from portal.pages.parts.figures import RUNNING
from portal.pages.parts.htmx import render_page

LIVE = (*RUNNING, Phase.PENDING)


@dataclass(frozen=True)
class Running:
    """A workload that goes on, and what it costs per hour; None: no price, or it only waits."""

    workload: Workload
    hourly: Decimal | None


@dataclass(frozen=True)
class Question:
    """What is asked, what follows from it, and what the person concerned runs; None: it is about nobody."""

    title: str
    sentences: Sequence[str]
    button: str
    back: str
    work: Sequence[Running] | None = None
    reason: str = ""
    """The label of a field for why, sent as `reason`; empty: nobody asks."""
    other: tuple[str, str] | None = None
    """What else one may want here: words and address."""

    @property
    def hourly(self) -> Decimal:
        """What goes on costing per hour."""
        return sum((each.hourly for each in self.work or () if each.hourly), Decimal(0))


def page(request: HttpRequest, question: Question) -> HttpResponse:
    """The question; its button posts to the same address."""
    return render_page(request, "parts/confirm.html", {"question": question})


def work_of(actor: Actor, owner: User, tenant: str = "") -> list[Running]:
    """What somebody has running or waiting, as far as the actor sees it; of one tenant if one is named."""
    rows = workloads_for(actor).filter(owner=owner, phase__in=LIVE).order_by("created_at")
    now = timezone.now()
    return [Running(row, _hourly(row, now)) for row in (rows.filter(tenant__slug=tenant) if tenant else rows)]


def _hourly(row: Workload, now: datetime) -> Decimal | None:
    price = price_at(row.offer, now, row.tenant) if row.phase in RUNNING else None
    return None if price is None else price * spec_of(row).devices
