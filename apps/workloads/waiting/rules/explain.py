"""Why a workload waits, in words: cause, place, who holds the capacity, what would free it, what would start
now instead. Pure.

It words facts that selectors gathered, in the same words for page, API and message. The cluster's own message
is shown as a detail and never read for meaning.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from apps.quotas.catalogue.rules.room import Room
from apps.web.shapes.amounts import to_the_cent
from apps.web.shapes.durations import clock
from apps.words import ordinal
from apps.workloads.waiting.rules import causes, node_room
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.rules.situation import (
    Alternative,
    Cause,
    Explanation,
    Holder,
    Situation,
    Stop,
    View,
)


def explain(situation: Situation, view: View, *, now: datetime) -> Explanation:
    """Short sentences, figures first, no blame; times are UTC, with the day where it is not today's.

    RULE: while Kueue or the cluster is silent, or lacks what it needs, nothing starts, so neither need,
    estimate nor alternative is told; what somebody holds has no estimate either.
    """
    seen = masked(situation, view.named)
    told = _Words(seen, view, now)
    cause = cause_of(seen)
    nothing_starts = cause in causes.NOWHERE
    is_queued = not nothing_starts and cause not in causes.APART
    frees = told.frees(cause)
    what = told.of(cause)
    given_back = told.refund(cause)
    sentences = [what, given_back, "" if frees in what else frees, *(told.queue() if is_queued else [])]
    others = () if nothing_starts or told.is_alike_anywhere(cause) else seen.alternatives
    sentences += told.instead(others)
    if cause in causes.SHRINKS:
        sentences += told.fewer()
    return Explanation(
        headline=_headline(seen),
        cause=cause,
        sentences=tuple(filter(None, sentences)),
        frees=frees,
        position=seen.position,
        of=seen.of,
        starts=seen.starts if is_queued else None,
        holders=seen.holders,
        alternatives=others,
        reason=seen.reason,
        detail=seen.message,
        smaller=seen.smaller if cause in causes.SHRINKS else None,
    )


def cause_of(situation: Situation) -> Cause:
    """The first cause that holds."""
    rules = (_silence, _decision, _size, _node, _way, _quota, _hardware, _order)
    found = (decide(situation) for decide in rules)
    return next(cause for cause in found if cause)


def held(holder: Holder, now: datetime) -> str:
    """`speech 4 (first ends by 14:05)`."""
    end = f"first ends by {clock(holder.until, now)}" if holder.until else "no end known"
    return f"{holder.tenant or 'other tenants'} {holder.count} ({end})"


def masked(situation: Situation, named: frozenset[str] | None) -> Situation:
    """The same situation without the tenants that the viewer may not be told of; None: all may be told."""
    if named is None or all(holder.tenant in named for holder in situation.holders):
        return situation
    return replace(situation, holders=known(situation.holders, named))


def known(holders: Iterable[Holder], named: frozenset[str] | None) -> tuple[Holder, ...]:
    """The holders as somebody may know them who is told of these tenants; None: of all."""
    return merged(
        replace(each, tenant=each.tenant if named is None or each.tenant in named else None)
        for each in holders
    )


def merged(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """One line per tenant and offer, most first; `until` is the earliest known end."""
    found: dict[tuple[str | None, str], Holder] = {}
    for holder in holders:
        key = (holder.tenant, holder.offer)
        old = found.get(key)
        ends = [at for at in (holder.until, old.until if old else None) if at]
        count = holder.count + (old.count if old else 0)
        found[key] = Holder(holder.tenant, holder.offer, count, min(ends, default=None))
    return tuple(sorted(found.values(), key=lambda h: (-h.count, h.tenant or "~")))


def span(starts: Interval, now: datetime) -> str:
    """`About 14:20 (14:05 to 15:10)`."""
    low, middle, high = (clock(at, now) for at in (starts.p10, starts.p50, starts.p90))
    return f"About {middle}" if low == high else f"About {middle} ({low} to {high})"


def _silence(s: Situation) -> Cause | None:
    if s.silent_since:
        return Cause.CLUSTER_SILENT
    if s.lack:
        return s.lack.cause
    return Cause.KUEUE_SILENT if s.kueue_silent else None


def _decision(s: Situation) -> Cause | None:
    decided = s.stop or s.trouble
    return decided.cause if decided else None


def _size(s: Situation) -> Cause | None:
    too_wide = s.room is not None and 0 < s.room.largest < s.per_pod
    return Cause.TOO_LARGE if s.asked > s.reachable or too_wide else None


def _node(s: Situation) -> Cause | None:
    """RULE: where a node that is out of service has what it asks for, that is what it waits for."""
    if s.unplaced is None:
        return None
    is_down = not s.unplaced.placed and _hardware(s) is Cause.NODE_DOWN
    return Cause.NODE_DOWN if is_down else Cause.FITS_NO_NODE


def _way(s: Situation) -> Cause | None:
    if not s.admitted and s.position is None:
        return s.refused.cause if s.refused else Cause.ON_ITS_WAY
    return s.eviction.cause if s.eviction else None


def _quota(s: Situation) -> Cause | None:
    if s.admitted or s.asked <= s.available:
        return None
    if s.own_used + s.asked > s.reachable:
        return Cause.QUOTA_USED
    return Cause.LENT if s.lent and s.own_used + s.asked <= s.nominal else Cause.NONE_TO_LEND


def _hardware(s: Situation) -> Cause | None:
    room = s.room
    if room is None or (room.most >= s.per_pod and room.free >= s.asked):
        return None
    if room.down and room.free + room.down >= s.asked:
        return Cause.NODE_DOWN
    return Cause.FRAGMENTED if room.free >= s.asked or room.elsewhere else Cause.NO_DEVICE


def _order(s: Situation) -> Cause:
    return Cause.BEHIND if (s.position or 1) > 1 else Cause.NEXT


def _headline(s: Situation) -> str:
    if s.admitted:
        return "It cannot start yet."
    if s.position is None:
        return "Waiting."
    if s.position == 1:
        return "Waiting, first in line."
    return f"Waiting, {ordinal(s.position)} of {s.of}."


@dataclass(frozen=True)
class _Words:
    """The sentences of one situation for one viewer."""

    s: Situation
    view: View
    now: datetime

    @property
    def pods(self) -> int:
        """How many of its pods ask for devices."""
        return max(1, self.s.asked // max(1, self.s.per_pod))

    def of(self, cause: Cause) -> str:
        """What keeps it."""
        decided = self._decided(cause)
        return decided.words if decided else _SENTENCES[cause](self)

    def frees(self, cause: Cause) -> str:
        """What would end the wait; "" where it ends by itself in a moment."""
        s = self.s
        if decided := self._decided(cause):
            return decided.frees
        if s.eviction and s.eviction.cause is cause:
            return self.frees(_quota(s) or _hardware(s) or _order(s)) or "It starts again in a moment."
        if cause in _ENDINGS:
            return _ENDINGS[cause](self)
        lacking = max(1, s.asked - s.available)
        end = "s" if lacking == 1 else ""
        own = s.own_used + s.asked - s.reachable
        return {
            Cause.QUOTA_USED: f"It starts when {own} of {s.tenant}'s own end{'s' if own == 1 else ''}.",
            Cause.LENT: f"It starts when {lacking} come{end} back: borrowers keep them until their work ends "
            "or more urgent work asks.",
            Cause.NONE_TO_LEND: f"It starts when {lacking} come{end} free in {s.department}.",
        }.get(cause, "")

    def queue(self) -> list[str]:
        """When, and who holds the capacity."""
        of = "the jobs ahead have" if (self.s.position or 1) > 1 else "what runs has"
        sentences = [
            f"{span(self.s.starts, self.now)}." if self.s.starts else f"No start time: {of} no known end."
        ]
        if self.s.holders:
            sentences.append(f"Held by {', '.join(held(each, self.now) for each in self.s.holders)}.")
        return sentences

    def is_alike_anywhere(self, cause: Cause) -> bool:
        """Whether another offer gets around nothing of what keeps it."""
        decided = self._decided(cause)
        return cause in causes.ALIKE and not (decided and decided.is_of_its_offer)

    def instead(self, others: Sequence[Alternative]) -> list[str]:
        """What would start now."""
        if not others:
            return []
        other = others[0]
        price = "" if other.hourly is None else f", {other.hourly:.2f} {other.currency}/h"
        return [f"Starts now instead: {other.name}{price}."]

    def fewer(self) -> list[str]:
        """How much less of the same would start now."""
        return [f"{self.s.smaller.words} would start now."] if self.s.smaller else []

    def silent_cluster(self) -> str:
        since = f" since {clock(self.s.silent_since, self.now)}" if self.s.silent_since else ""
        return f"{self.s.cluster} is silent{since}."

    def silent_kueue(self) -> str:
        return "Kueue does not answer: no pod can start."

    def too_large(self) -> str:
        s, largest = self.s, self.s.room.largest if self.s.room else 0
        if s.asked <= s.reachable:
            return f"{self.needs()} in one pod; no node has more than {largest}, so it can never start."
        if not s.reachable:
            return f"{self.needs()}; {s.tenant} has no quota of it any more."
        return f"{self.needs()}; {s.tenant} can hold at most {s.reachable}, so it can never start."

    def smaller(self) -> str:
        s = self.s
        if s.asked <= s.reachable:
            return f"Ask for {s.room.largest if s.room else 0} or fewer per pod."
        if not s.reachable:
            return "Take another offer, or request quota."
        return f"Ask for {s.reachable} or fewer, or request quota."

    def evicted(self) -> str:
        at = f" {clock(self.s.eviction.at, self.now)}" if self.s.eviction else ""
        lost = f"{self.s.asked} {self.s.offer_name}"
        is_reclaimed = self.s.eviction is not None and self.s.eviction.cause is Cause.RECLAIMED
        why = (
            f"it ran on {lost} lent by others, who took them back"
            if is_reclaimed
            else f"more urgent work took its {lost}"
        )
        return f"Preempted{at}: {why}. {self.quota()}"

    def refund(self, cause: Cause) -> str:
        """What comes back of a lost run, in money; empty where nothing was lost."""
        eviction = self.s.eviction
        if eviction is None or eviction.cause is not cause or eviction.refund is None:
            return ""
        words, given = "What its last hour cost is refunded", eviction.refund
        if given.amount is None:
            return f"{words}; the sum is not counted yet."
        return f"{words}: {to_the_cent(given.amount)} {given.currency}."

    def quota(self) -> str:
        s = self.s
        if s.own_used >= s.reachable:
            all_of = f"all {s.reachable}" if s.reachable > 1 else "the 1"
            return f"{self.needs()}; {s.tenant} uses {all_of} it may have."
        if s.own_used + s.asked > s.reachable:
            return f"{self.needs()}; {s.tenant} uses {s.own_used} of the {s.reachable} it may have."
        return f"{self.needs()}; {s.tenant} uses {s.own_used} of {s.reachable}."

    def lent(self) -> str:
        s = self.s
        lent = f"{s.lent} of them {'are' if s.lent > 1 else 'is'} lent"
        return f"{self.needs()}; {s.tenant} uses {s.own_used} of its {s.nominal} guaranteed, and {lent}."

    def none_to_lend(self) -> str:
        s = self.s
        uses = f"{s.tenant} uses {s.own_used} of {s.reachable}"
        if s.available:
            return f"{self.needs()}; {uses}, and {s.department} has only {s.available} free for it now."
        return f"{self.needs()}; {uses}, and {s.department} has none to lend now."

    def node_down(self) -> str:
        room = self.s.room or Room(0, 0, 0, 0)
        several = f"{len(room.nodes_down)} node{'s' if len(room.nodes_down) > 1 else ''}"
        names = ", ".join(room.nodes_down) if self.view.knows_nodes else several
        return f"{self.needs()}; {room.free} free, and {room.down} more on {names}, out of service."

    def fits_no_node(self) -> str:
        s = self.s
        need = s.per_pod, self.pods, s.offer_name
        if s.unplaced is None:
            return ""
        since = clock(s.unplaced.since, self.now)
        return f"{node_room.keeps(s.unplaced, s.room, need)} It has been so since {since}."

    def room_on_a_node(self) -> str:
        s = self.s
        return node_room.frees(s.unplaced, s.room, (s.per_pod, self.pods), self.now) if s.unplaced else ""

    def fragmented(self) -> str:
        room, each = self.s.room or Room(0, 0, 0, 0), self.s.per_pod
        if room.free >= self.s.asked:
            free = f"{room.free} are free, but at most {room.most} on one"
            return f"{self.needs()}, {each} on one node; {free}."
        return f"{self.needs()}; {node_room.slices_apart(room)}"

    def together(self) -> str:
        if self.s.room and self.s.room.free >= self.s.asked:
            return f"It starts when {self.s.per_pod} are free together; fewer per pod start sooner."
        return "It starts when a place comes free or the layout is changed."

    def no_device(self) -> str:
        free = self.s.room.free if self.s.room else 0
        amount = f"only {free} {'are' if free > 1 else 'is'}" if free else "none is"
        where = self.s.cluster or "the cluster"
        return f"{self.needs()}; quota allows it, but {amount} free in {where}."

    def behind(self) -> str:
        ahead = (self.s.position or 1) - 1
        return f"{self.needs()}; {ahead} ahead of it {'are' if ahead > 1 else 'is'} served first."

    def next(self) -> str:
        return f"{self.needs()}; it is free: it starts in a moment."

    def on_its_way(self) -> str:
        return "It is on its way into the queue."

    def _decided(self, cause: Cause) -> Stop | None:
        decided = (self.s.lack, self.s.stop, self.s.trouble, self.s.refused)
        return next((stop for stop in decided if stop and stop.cause is cause), None)

    def needs(self) -> str:
        return f"Needs {self.s.asked} {self.s.offer_name}"


_SENTENCES: dict[Cause, Callable[[_Words], str]] = {
    Cause.CLUSTER_SILENT: _Words.silent_cluster,
    Cause.KUEUE_SILENT: _Words.silent_kueue,
    Cause.TOO_LARGE: _Words.too_large,
    Cause.ON_ITS_WAY: _Words.on_its_way,
    Cause.RECLAIMED: _Words.evicted,
    Cause.PREEMPTED: _Words.evicted,
    Cause.QUOTA_USED: _Words.quota,
    Cause.LENT: _Words.lent,
    Cause.NONE_TO_LEND: _Words.none_to_lend,
    Cause.NODE_DOWN: _Words.node_down,
    Cause.FITS_NO_NODE: _Words.fits_no_node,
    Cause.FRAGMENTED: _Words.fragmented,
    Cause.NO_DEVICE: _Words.no_device,
    Cause.BEHIND: _Words.behind,
    Cause.NEXT: _Words.next,
}

_ENDINGS: dict[Cause, Callable[[_Words], str]] = {
    Cause.CLUSTER_SILENT: lambda _: (
        "Nothing to do: what you asked for is stored and applied as soon as it answers."
    ),
    Cause.KUEUE_SILENT: lambda _: (
        "Nothing to do: what you asked for is stored and starts by itself once Kueue answers; platform "
        "engineers see it in the console."
    ),
    Cause.TOO_LARGE: _Words.smaller,
    Cause.NODE_DOWN: lambda _: "It starts when they are back, or when others end.",
    Cause.FITS_NO_NODE: _Words.room_on_a_node,
    Cause.FRAGMENTED: _Words.together,
    Cause.NO_DEVICE: lambda _: "It starts when enough come free.",
    Cause.BEHIND: lambda _: "Its turn comes when they have started.",
}
