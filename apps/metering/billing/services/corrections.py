"""Keeping the ledger: the regular roll-up, and corrections by people. A correction is a fact of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django.conf import settings
from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.models import Cluster
from apps.errors import FieldProblem, Invalid, NotAllowed
from apps.metering import policies
from apps.metering.allocations.selectors import rivals
from apps.metering.billing.rules import rounding
from apps.metering.billing.selectors import line_items
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation, Correction, RollPosition, Statement
from apps.quotas.budgets.rules import budget
from apps.web.requests.rehearsals import rehearsal


@dataclass(frozen=True)
class Wish:
    """When an allocation really began and ended (None: the observed end holds), and why that is known."""

    started_at: datetime
    ended_at: datetime | None
    reason: str


@dataclass(frozen=True)
class Moved:
    """What a correction changes of one month's charge of the workload. `number` is that of the month's closed
    statement, which stays as it is: the next one has a line of the `difference`; empty: it is not closed.
    """

    month: date
    number: str
    before: Decimal
    after: Decimal

    @property
    def difference(self) -> Decimal:
        """What is charged more, or less."""
        return self.after - self.before


@transaction.atomic
def correct_allocation(
    *,
    actor: Actor,
    allocation: Allocation,
    started_at: datetime,
    ended_at: datetime | None,
    reason: str,
    now: datetime,
) -> Correction:
    """A better word on when an allocation began and ended; the observed interval stays beside it.

    RULE: platform engineers only, with a reason; nothing in the future, no time that the ledger can no
    longer make anew, none before the workload was asked for or the device was there, and none that somebody
    else held (errors: NotAllowed, Invalid). `ended_at` None keeps the observed end. The same again is another
    fact that changes nothing. A closed statement stays; the next one carries the difference.
    """
    require_corrector(actor, allocation)
    # Two corrections of one device, at once: the later one is judged by what the first left.
    Cluster.objects.select_for_update(no_key=True).get(pk=allocation.cluster_id)
    held = Allocation.objects.select_for_update().get(pk=allocation.pk)
    before = held.interval
    after = (started_at, ended_at or held.ended_at)
    _require_possible(held, Wish(started_at, ended_at, reason), now)
    made = Correction.objects.create(
        allocation=held, started_at=started_at, ended_at=ended_at, reason=reason.strip(),
        made_by=actor.username, made_at=now,
    )  # fmt: skip
    changed = _moved(before, after, now)
    invalidation.mark(held.cluster, [(facts.gpu_of(held), begins, ends) for begins, ends in changed])
    changes = dict(zip(("from", "to"), zip(before, after, strict=True), strict=True))
    audit.record(actor, "allocation.corrected", held, now=now, changes=changes, reason=reason.strip())
    return made


def require_corrector(actor: Actor, allocation: Allocation) -> None:
    """Rule: platform engineers correct the ledger; raises NotAllowed."""
    if not policies.can_correct(actor, allocation.tenant):
        raise NotAllowed("Platform engineers correct the ledger.")


def correct_and_tell(*, actor: Actor, allocation: Allocation, wish: Wish, now: datetime) -> list[Moved]:
    """`correct_allocation`, and what it changes of each month's charge of its workload: devices, CPU, memory
    and disks. Months of which no cent moves are left out.
    """
    require_corrector(actor, allocation)
    _require_possible(allocation, wish, now)
    months = _months([*allocation.interval, wish.started_at, wish.ended_at or allocation.ended_at], now)
    before = [_charged(allocation, month, now) for month in months]
    correct_allocation(
        actor=actor, allocation=allocation, started_at=wish.started_at, ended_at=wish.ended_at,
        reason=wish.reason, now=now,
    )  # fmt: skip
    after = [_charged(allocation, month, now) for month in months]
    closed = Statement.objects.filter(tenant=allocation.tenant_id, month__in=months)
    numbers = dict(closed.values_list("month", "number"))
    found = zip(months, before, after, strict=True)
    return [Moved(month, numbers.get(month, ""), old, new) for month, old, new in found if old != new]


def foretell(*, actor: Actor, allocation: Allocation, wish: Wish, now: datetime) -> list[Moved]:
    """What `correct_and_tell` would tell; nothing is kept."""
    with rehearsal():
        return correct_and_tell(actor=actor, allocation=allocation, wish=wish, now=now)


def _months(moments: Sequence[datetime | None], now: datetime) -> list[date]:
    """The calendar months from the first of these moments to the last; None is now."""
    known = [min(at or now, now) for at in moments]
    found, last = [budget.month_of(min(known))], budget.month_of(max(known))
    while found[-1] < last:
        found.append(budget.bounds(found[-1])[1].date())
    return found


def _charged(allocation: Allocation, month: date, now: datetime) -> Decimal:
    begins, ends = budget.bounds(month)
    row = allocation.work
    found = line_items.charges_of(row.tenant, begins, min(ends, now), now=now, workload=row)
    return rounding.rounded(sum((each.charged for each in found), Fraction(0)))


def _require_possible(allocation: Allocation, wish: Wish, now: datetime) -> None:
    after = (wish.started_at, wish.ended_at or allocation.ended_at)
    changed = list(_moved(allocation.interval, after, now))
    problems = [*_wrong(wish, now), *_too_late(allocation.cluster, changed, now)]
    if problems := problems or list(_impossible(allocation, after[0], after[1] or now, now)):
        raise Invalid(problems)


def _moved(
    before: tuple[datetime, datetime | None], after: tuple[datetime, datetime | None], now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """The time that belongs to one interval only."""
    for old, new in ((before[0], after[0]), (before[1] or now, after[1] or now)):
        if old != new:
            yield min(old, new), max(old, new)


def _wrong(wish: Wish, now: datetime) -> Iterator[FieldProblem]:
    if not wish.reason.strip():
        yield FieldProblem("/reason", "required", "Say why: it goes into the record.")
    if wish.started_at > now:
        yield FieldProblem("/from", "out_of_range", "It cannot begin in the future.")
    if wish.ended_at is not None and wish.ended_at > now:
        yield FieldProblem("/to", "out_of_range", "It cannot end in the future.")
    if wish.ended_at is not None and wish.ended_at < wish.started_at:
        yield FieldProblem("/to", "out_of_range", "It ends before it begins.")


def _impossible(
    allocation: Allocation, begins: datetime, ends: datetime, now: datetime
) -> Iterator[FieldProblem]:
    """The time that it gains must have been there to be held. What it had before is not judged again."""
    began, ended = allocation.interval
    asked = allocation.work.created_at
    if begins < min(began, asked):
        words = f"{allocation.work.slug} was asked for on {asked:%Y-%m-%d %H:%M:%S} UTC"
        yield FieldProblem("/from", "out_of_range", f"{words}, and held nothing before.")
    gained = (("/from", begins, min(ends, began)), ("/to", max(begins, ended or now), ends))
    for pointer, since, until in gained:
        if since < until:
            for words in rivals.hindrances(allocation, since, until):
                yield FieldProblem(pointer, "out_of_range", words)


def _too_late(
    cluster: Cluster, changed: list[tuple[datetime, datetime]], now: datetime
) -> Iterator[FieldProblem]:
    """Buckets can be made anew while their samples and 5 minutes are kept."""
    oldest = now - timedelta(days=settings.CONFIG.telemetry_retention_days)
    pruned = RollPosition.objects.filter(cluster=cluster).values_list("pruned_until", flat=True).first()
    oldest = max(oldest, pruned or oldest)
    if any(begins < oldest for begins, _ in changed):
        words = f"The ledger is closed before {oldest:%Y-%m-%d %H:%M} UTC."
        yield FieldProblem("/from", "out_of_range", words)
