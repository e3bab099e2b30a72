"""What a finding wastes: so far as the ledger has it, and of what it costs the part that is too much. Of the
selectors' floor: reads only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.selectors import charges
from apps.metering.findings.rules import money
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.selectors.verdicts import DeviceVerdict, Judged
from apps.metering.ledger.rules.buckets import BUCKET, LEVELS, floor
from apps.metering.models import Allocation, Finding
from apps.metering.specs import FindingKind
from apps.quotas.catalogue.selectors.price_book import prices_at
from apps.workloads.models import Workload

MOMENT = timedelta(microseconds=1)
NOTHING, ALL = Decimal(0), Decimal(1)
SIZED = frozenset({FindingKind.OVERSIZED, FindingKind.WRONG_SHARING_MODE})


@dataclass(frozen=True)
class Waste:
    """Money so far, what the devices were charged in the same time, and what of that did work."""

    wasted: Decimal = NOTHING
    charged: Decimal = NOTHING
    effective: Decimal = NOTHING


def hourly(row: Workload | Allocation, devices: int, now: datetime) -> Decimal:
    """What so many devices of its offer cost per hour; 0 without a price."""
    if row.offer is None:
        return NOTHING
    return prices_at([row.offer], now, row.tenant).get(row.offer.pk, NOTHING) * devices


def hourly_of(held: Iterable[Allocation], now: datetime) -> Decimal:
    """The same of what is held; devices of one claim made with kubectl may be of several offers."""
    return sum((hourly(each, 1, now) for each in held), NOTHING)


def so_far(row: Finding, causes: Iterable[str], *, now: datetime) -> Waste:
    """What the ledger calls waste of these causes, from the first of the finding's spans to the last one's
    end; nothing before the ledger is rolled up as far.
    """
    if not row.idle:
        return Waste()
    first, last = (datetime.fromtimestamp(at, UTC) for at in (row.idle[0][0], row.idle[-1][1]))
    # Whole roll-ups: a cut through one would give the finding a part of what is its own as a whole.
    begins, ends = floor(first, LEVELS[0]), floor(last - MOMENT, LEVELS[0]) + BUCKET
    found = charges.charges(selectors.held_by(row), begins, ends, now=max(now, last)).values()
    if not found:
        return Waste()
    whole = effective_split.together(list(found))
    parts = whole.parts()
    own = sum((parts[cause] for cause in causes), start=parts["unknown"] * 0)
    return Waste(*map(pricing.amount, (own, whole.charged, parts["effective"])))


def part_of(row: Finding, judged: Judged, smaller_hourly: Decimal | None, *, now: datetime) -> Decimal:
    """Of what it costs, the part that a finding of this kind says is wasted as things are, 0 to 1.

    RULE: what idles, all of it; of several devices those that idle; of a size what the smaller offer would
    not take, or where there is none to be had the part that the detector says was too much.
    """
    kind = FindingKind(row.kind)
    if kind not in money.CAUSES:
        return NOTHING
    if kind is FindingKind.SCALE_TO_ZERO:
        return idle_part(judged, now)
    if kind is FindingKind.DATA_STARVED:
        return waiting_part(judged)
    if kind not in SIZED:
        return ALL
    if judged.idle_devices:
        return _rounded(judged.idle_devices / len(judged.devices))
    present = hourly_of((each.held for each in judged.devices), now)
    if smaller_hourly is not None and present:
        return max(NOTHING, 1 - smaller_hourly / present)
    return _too_much(judged.devices, now)


def _too_much(devices: Sequence[DeviceVerdict], now: datetime) -> Decimal:
    wasted = sum(each.verdict.wasted_device_seconds for each in devices)
    share = sum(
        (now - each.held.started_at).total_seconds() * each.held.share_numerator / each.held.share_denominator
        for each in devices
    )
    return _rounded(wasted / share) if share else NOTHING


def idle_part(judged: Judged, now: datetime) -> Decimal:
    """Of the time judged, the part in which none of its devices did anything, 0 to 1."""
    held = min(each.held.started_at for each in judged.devices)
    begins = max(held, judged.begins or held).timestamp()
    idle = sum(b - max(a, begins) for a, b in judged.idle if b > begins)
    return _rounded(idle / (now.timestamp() - begins))


def waiting_part(judged: Judged) -> Decimal:
    """Of the time seen, the part that was no work (the effective price's), over all its devices, 0 to 1; 0
    where nobody knows.
    """
    known = [each.figures.work for each in judged.devices if each.figures.work is not None]
    return _rounded(1.0 - sum(known) / len(known)) if known else NOTHING


def _rounded(part: float) -> Decimal:
    return Decimal(str(round(min(1.0, max(0.0, part)), 6)))
