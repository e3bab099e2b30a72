"""What would help: stop it, or an offer of the right size that the tenant has. Reads only; what is needed was
measured by the detector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, TypedDict

from apps.metering.detector import gpu_models, sizing
from apps.metering.detector.sizing import Need, Size
from apps.metering.findings.rules import money
from apps.metering.findings.rules.messages import ADVICE
from apps.metering.findings.selectors import waste
from apps.metering.findings.selectors.verdicts import Judged
from apps.metering.specs import Advised, FindingKind
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import price_book
from apps.quotas.models import Offer
from apps.quotas.specs import SharingMode
from apps.workloads.models import Workload

STOPS = frozenset(
    {
        FindingKind.HOARDER,
        FindingKind.ZOMBIE,
        FindingKind.EVASION,
        FindingKind.FORGOTTEN,
        FindingKind.CRASH_LOOP,
        FindingKind.SCALE_TO_ZERO,
    }
)
RESIZES = frozenset({FindingKind.OVERSIZED, FindingKind.UNDERSIZED, FindingKind.WRONG_SHARING_MODE})
MIB = 2**20


class Suggestion(TypedDict):
    """What is the same of it stored and shown."""

    action: Advised
    offer: Annotated[str | None, "The offer to take, by slug."]
    offer_name: str | None
    risk: Annotated[str, "What may go wrong."]
    memory_mib: Annotated[int | None, "The memory that is needed, with its margin."]
    words: str


class Kept(Suggestion):
    """As it is stored: money as text."""

    saving_weekly: str | None


@dataclass(frozen=True)
class Fit:
    """An offer that is enough, its price per hour for all devices, and how much longer the work may take."""

    offer: Offer
    hourly: Decimal
    slowdown: float

    @property
    def risk(self) -> str:
        """What may go wrong, in words."""
        if self.slowdown <= 1.0:
            return "none seen: memory and compute fit with their margins"
        return f"up to {100 * (self.slowdown - 1):.0f} % slower at peaks"


def suggestion(kind: FindingKind, row: Workload, judged: Judged, *, now: datetime) -> tuple[Kept, Fit | None]:
    """As a finding keeps it; never `kubectl`, which is for what was made with it."""
    present, ahead = (
        waste.hourly(row, len(judged.devices), now), money.hours_ahead(row.stops_at, row.hours, now),
    )  # fmt: skip
    if kind in STOPS:
        asked = kind is FindingKind.SCALE_TO_ZERO
        saved = present * ahead * (waste.idle_part(judged, now) if asked else 1)
        risk = "what is in memory is lost; disks stay"
        return _said(
            kind, Advised.STOP, saved, f"{risk}; the next request waits for the start" if asked else risk
        ), None
    if judged.idle_devices:
        saved = waste.hourly(row, judged.idle_devices, now) * ahead
        words = f"{judged.idle_devices} of {len(judged.devices)} devices do nothing: ask for fewer."
        return {**_said(kind, Advised.FEWER, saved, "none for the devices that work"), "words": words}, None
    found = fit(kind, row, judged, now=now) if kind in RESIZES else None
    if found is None:
        waits = kind is FindingKind.DATA_STARVED
        gained = present * ahead * waste.waiting_part(judged) if waits else None
        return _said(kind, Advised.FIX, gained, "none: the same work is done sooner" if waits else ""), None
    told = _said(kind, Advised.RESIZE, (present - found.hourly) * ahead, found.risk)
    needed = need_of(judged)
    words = (
        f"{found.offer.name} is enough." if found.hourly < present else f"{found.offer.name} has more room."
    )
    return {
        **told,
        "offer": found.offer.slug,
        "offer_name": found.offer.name,
        "memory_mib": int(needed.memory_mib) if needed else None,
        "words": words,
    }, found


def by_kubectl(kind: FindingKind, saved: Decimal, how: str) -> Kept:
    """The same of what was made with kubectl, which is ended with kubectl alone: `how` says it."""
    return {**_said(kind, Advised.KUBECTL, saved, "what is in memory is lost"), "words": how}


def fit(kind: FindingKind, row: Workload, judged: Judged, *, now: datetime) -> Fit | None:
    """The cheapest offer of the same GPU model that the tenant may take, has quota of, and that is enough;
    for what is too large one that costs less, for what is too small one with the memory that is needed.
    """
    needed = need_of(judged)
    if needed is None:
        return None
    offers = _choices(row)
    prices = price_book.prices_at([*offers, row.offer], now, row.tenant)
    present, count = prices.get(row.offer_id), len(judged.devices)
    most = max(each.total_mib for each in judged.devices)
    larger = most if kind is FindingKind.UNDERSIZED else None
    found = []
    for offer in offers:
        slowdown = _slowdown(row.offer, offer, needed, larger_than=larger)
        price = prices.get(offer.pk)
        if slowdown is None or price is None or present is None:
            continue
        if kind is FindingKind.UNDERSIZED or price < present:
            found.append(Fit(offer, price * count, slowdown))
    return min(found, key=lambda each: (each.hourly, each.offer.gpu_memory_bytes), default=None)


def need_of(judged: Judged) -> Need | None:
    """The largest need of its devices; None where none was measured."""
    needs = [each.need for each in judged.devices if each.need is not None]
    if not needs or len(needs) < len(judged.devices):
        return None
    told = [each.verdict.recommended_mib or 0 for each in judged.devices]
    memory = max(*(need.memory_mib for need in needs), float(max(told)))
    return Need(memory, max(need.sms for need in needs), max(need.bandwidth for need in needs))


def _choices(row: Workload) -> Sequence[Offer]:
    held = entitlements.offers_held(row.tenant)
    rows = catalogue_offers.offers_of(row.tenant).filter(flavor__model=row.offer.flavor.model, pk__in=held)
    isolated = (SharingMode.EXCLUSIVE, SharingMode.MIG)
    return [
        offer
        for offer in rows.filter(sharing_mode__in=isolated).exclude(pk=row.offer_id)
        if not catalogue_offers.refusal_of(offer, row.tenant)
    ]


def _slowdown(present: Offer, offer: Offer, needed: Need, *, larger_than: float | None) -> float | None:
    """How much longer the work takes there; None where it does not fit, or has not more than so many MiB."""
    now, then = _size(present), _size(offer)
    if now is None or then is None or then.memory_mib < needed.memory_mib:
        return None
    if larger_than is not None:
        return 1.0 if then.memory_mib > larger_than and then.sms >= now.sms else None
    slowdown = max(needed.sms / then.sms, needed.bandwidth * now.bandwidth / then.bandwidth)
    return max(1.0, slowdown) if slowdown <= sizing.SLOWDOWN else None


def _size(offer: Offer) -> Size | None:
    return gpu_models.size_of(offer.flavor.model, offer.profile, offer.gpu_memory_bytes / MIB)


def _said(kind: FindingKind, action: Advised, saving: Decimal | None, risk: str) -> Kept:
    return {
        "action": action,
        "offer": None,
        "offer_name": None,
        "saving_weekly": None if saving is None else f"{saving:f}",
        "risk": risk,
        "memory_mib": None,
        "words": ADVICE[kind],
    }
