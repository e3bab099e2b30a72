"""What a finding wastes: so far as the ledger has it, and of what it costs the part that is too much. Of the
selectors' floor: reads only.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from apps.metering.billing.rules import effective_split, pricing
from apps.metering.billing.rules.effective_split import Exact
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


def so_far(rows: Mapping[Finding, Iterable[str]], *, now: datetime) -> dict[Finding, Waste]:
    """What the ledger calls waste of each finding's causes, from its first span to the end of the last;
    nothing before the ledger is rolled up as far. Those of workloads are read together.
    """
    charged: dict[Finding, list[Exact]] = {}
    lots = defaultdict[tuple[datetime, int], dict[UUID, Finding]](dict)
    times = Counter[tuple[datetime, UUID]]()
    for row in (each for each in rows if each.idle):
        at = max(now, _last(row))
        if row.workload_id is None:
            charged[row] = [*charges.charges(selectors.held_by(row), *window(row), now=at).values()]
            continue
        # A workload's second finding is of another time: it is read beside other seconds.
        times[at, row.workload_id] += 1
        lots[at, times[at, row.workload_id]][row.workload_id] = row
    for (at, _), lot in lots.items():
        found = charges.charges_each({pk: window(row) for pk, row in lot.items()}, now=at)
        charged |= {row: found[pk] for pk, row in lot.items()}
    return {row: _wasted(charged.get(row, ()), causes) for row, causes in rows.items()}


def _last(row: Finding) -> datetime:
    return datetime.fromtimestamp(row.idle[-1][1], UTC)


def window(row: Finding) -> tuple[datetime, datetime]:
    """From its first span to the end of the last, in whole roll-ups: a cut through one would give the finding
    a part of what is its own as a whole.
    """
    first = datetime.fromtimestamp(row.idle[0][0], UTC)
    return floor(first, LEVELS[0]), floor(_last(row) - MOMENT, LEVELS[0]) + BUCKET


def _wasted(charged: Sequence[Exact], causes: Iterable[str]) -> Waste:
    if not charged:
        return Waste()
    whole = effective_split.together(charged)
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
