"""Whether a request can start now, must wait, or never can, and the words for it.

Pure arithmetic in whole devices of one offer, after Kueue's rules for quota in a cohort. Admits nothing:
Kueue does. Knows nothing of prices or trust.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from apps.quotas.specs import GrantSpan, OfferQuota
from apps.ranges import DEVICES
from apps.words import Word


class VerdictKind(Word):
    """What becomes of a request."""

    NOW = "now", "Starts now"
    WAITS = "waits", "Waits"
    HELD = "held", "Held"
    NEVER = "never", "Can never start"
    NOT_OFFERED = "not_offered", "Not offered"


@dataclass(frozen=True)
class Use:
    """One tenant's quota of an offer with the devices that are reserved for it now."""

    quota: OfferQuota
    used: int


@dataclass(frozen=True)
class Verdict:
    """The answer with its reasons: `reachable` is the most that the tenant could ever hold at once."""

    kind: VerdictKind
    reachable: int
    message: str
    hint: str = ""

    @property
    def words(self) -> str:
        """Message and hint as one text."""
        return f"{self.message} {self.hint}".strip()


def verdict(
    asked: int,
    quota: OfferQuota,
    *,
    others: Sequence[OfferQuota],
    used: int,
    free_in_cohort: int,
    tenant: str,
) -> Verdict:
    """Rule: more than the tenant can reach never starts, what exceeds the present room waits, the rest starts
    now.

    `others` are the other quotas of this offer in the department, `used` what the tenant holds of it,
    `free_in_cohort` what it could take this moment (`available`, at most what is physically free). Where
    nothing can be reached, it is "not offered". Units: devices.
    """
    reach = reachable(quota, others)
    if reach == 0:
        hint = "Take another offer, or ask a platform engineer for quota."
        return Verdict(VerdictKind.NOT_OFFERED, 0, f"{tenant} has no quota of {quota.offer}.", hint)
    if asked > reach:
        parts = f"{min(quota.nominal, reach)} guaranteed + {reach - min(quota.nominal, reach)}"
        message = f"{asked} {quota.offer} can never start; {tenant} reaches {reach} ({parts})."
        hint = f"Ask for {reach} or fewer, or ask a platform engineer for quota."
        return Verdict(VerdictKind.NEVER, reach, message, hint)
    if asked <= free_in_cohort and used + asked <= reach:
        return Verdict(VerdictKind.NOW, reach, f"{asked} {quota.offer} can start now.")
    free = max(0, min(free_in_cohort, reach - used))
    message = f"{asked} {quota.offer} must wait: {free} free for {tenant} now, {used} of {reach} in use."
    return Verdict(VerdictKind.WAITS, reach, message)


def effective(quota: OfferQuota, grants: Iterable[GrantSpan], *, now: datetime) -> OfferQuota:
    """What a tenant is guaranteed at a moment: its quota and every grant that has begun and not ended.

    Rule: a grant counts in [starts_at, ends_at); it raises the guarantee alone, so what may be borrowed and
    what must be lent stay as they are.
    """
    given = sum(DEVICES.within(grant.count) for grant in grants if _counts(grant, now))
    return replace(quota, nominal=DEVICES.within(quota.nominal + given)) if given else quota


def next_change(grants: Iterable[GrantSpan], *, now: datetime) -> datetime | None:
    """The first moment after `now` at which a grant begins or ends; None: no grant will change anything."""
    moments = (at for grant in grants for at in (grant.starts_at, grant.ends_at) if at > now)
    return min(moments, default=None)


def _counts(grant: GrantSpan, now: datetime) -> bool:
    return grant.starts_at <= now < grant.ends_at


def reachable(quota: OfferQuota, others: Sequence[OfferQuota]) -> int:
    """The most devices a tenant could hold if nobody else used any.

    Rule (Kueue's potential capacity): its guarantee plus what the others of the cohort may lend, at most its
    guarantee plus its borrowing limit. Nothing of an offer that is closed to it.
    """
    if quota.closed:
        return 0
    lent = sum(other.lendable for other in others)
    if quota.borrowing_limit is None:
        return quota.nominal + lent
    return quota.nominal + min(quota.borrowing_limit, lent)


def available(own: Use, others: Sequence[Use]) -> int:
    """How many more devices quota lets a tenant take at this moment; never below 0.

    Rule (Kueue's `available` for a queue in a flat cohort): a queue keeps what it does not lend; the cohort's
    pool is what all lend less what each uses beyond what it keeps; a queue takes its own kept rest and from
    the pool, within its borrowing limit. Nothing of an offer that is closed to it.
    """
    if own.quota.closed:
        return 0
    kept = own.quota.nominal - own.quota.lendable
    pool = own.quota.lendable + sum(use.quota.lendable for use in others)
    taken = max(0, own.used - kept)
    taken_by_all = taken + sum(max(0, use.used - (use.quota.nominal - use.quota.lendable)) for use in others)
    from_pool = pool - taken_by_all
    if own.quota.borrowing_limit is not None:
        from_pool = min(from_pool, own.quota.lendable - taken + own.quota.borrowing_limit)
    return max(0, max(0, kept - own.used) + from_pool)


def borrowed(use: Use) -> int:
    """What a tenant holds beyond its guarantee."""
    return max(0, use.used - use.quota.nominal)


def lent(own: Use, others: Sequence[Use], *, ahead: int) -> int:
    """How much of a tenant's guarantee others hold: its part by `part_lent`. The first `ahead` of the others
    stand before it in the order of names.
    """
    idle = [_idle(use) for use in others]
    in_all = sum(borrowed(use) for use in (own, *others))
    return part_lent(_idle(own), Counter(idle[:ahead]), Counter(idle[ahead:]), in_all)


def _idle(use: Use) -> int:
    """What a tenant could lend and does not use."""
    return min(use.quota.lendable, max(0, use.quota.nominal - use.used))


def part_lent(own: int, ahead: Mapping[int, int], behind: Mapping[int, int], in_all: int) -> int:
    """One lender's part of what is borrowed `in_all`. It has `own` idle; `ahead` and `behind` say how many of
    the other lenders, before it and after it in the order of names, have how much idle.

    Kueue takes borrowed devices from the pool, not from a lender. Rule: they are spread over the lenders in
    proportion to what each has idle and lendable, by largest remainder, so that all lenders' parts sum to
    what is borrowed. Equal remainders go in the order of names.
    """
    if not in_all or not own:
        return 0
    room = own + sum(idle * many for those in (ahead, behind) for idle, many in those.items())
    total = min(in_all, room)
    part, remainder = divmod(total * own, room)
    rest, before = total - part, 0
    for those, wins_ties in ((ahead, True), (behind, False)):
        for idle, many in those.items():
            whole, other = divmod(total * idle, room)
            rest -= whole * many
            before += many if other > remainder or (wins_ties and other == remainder) else 0
    return part + (1 if before < rest else 0)
