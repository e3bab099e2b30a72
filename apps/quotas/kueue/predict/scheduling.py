"""Kueue's scheduling cycles (v0.19) run to rest on a snapshot: heads of all queues, flavors, order,
admission, preemption. Pure.

Simplified in two places: preempted work is gone before the next cycle, and a queue is looked at again once
nothing else moves, which is what Kueue's batching of a second amounts to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum

from apps.quotas.kueue.predict import preemption
from apps.quotas.kueue.predict.tree import Node, Snapshot, find_height_of_lowest_subtree_that_fits
from apps.quotas.kueue.predict.view import FlavorResource, Prediction, Queue, View, Work

MOST_CYCLES = 5_000
Reserved = tuple[Node, FlavorResource, int]


class Mode(IntEnum):
    """How well a flavor suits a request, the worst first."""

    NO_FIT = 0
    NO_PREEMPTION_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


@dataclass(frozen=True)
class Nomination:
    """A queue's head with the flavor that suits best, and whom it would have to preempt."""

    work: Work
    mode: Mode
    borrows: int
    usage: Mapping[FlavorResource, int]
    targets: tuple[Work, ...] = ()


@dataclass
class _Line:
    """The waiting work of one queue: to be tried, and put aside until something changes."""

    spec: Queue
    active: list[Work]
    aside: list[Work]
    first: str = ""

    def pop(self) -> Work | None:
        """The head: the one that waits for its preemptions, else by priority and age. A strict queue waits
        for a head that was put aside.
        """
        is_blocked = self.spec.is_stopped or (self.spec.is_strict and bool(self.aside))
        if is_blocked or not self.active:
            return None
        head = min(self.active, key=lambda w: (w.key != self.first, -w.priority, w.created, w.uid or w.key))
        self.active.remove(head)
        return head


class _Run:
    """One prediction in the making."""

    def __init__(self, view: View, now: datetime) -> None:
        self.snapshot = Snapshot(view)
        self.now = now
        self.lines = {queue.name: _Line(queue, [], []) for queue in view.queues}
        for work in view.work:
            if not work.flavors and work.queue in self.lines:
                self.lines[work.queue].active.append(work)
        self.preempted: dict[str, str] = {}
        self.changed = False

    def settle(self) -> bool:
        """Cycle until nothing moves; False when that takes too long."""
        for _ in range(MOST_CYCLES):
            heads = [head for line in self.lines.values() if (head := line.pop()) is not None]
            if heads:
                self._cycle(heads)
            elif self.changed:
                self._retry()
            else:
                return True
        return False

    def _retry(self) -> None:
        self.changed = False
        for line in self.lines.values():
            line.active += line.aside
            line.aside = []

    def _cycle(self, heads: Iterable[Work]) -> None:
        nominations = [nominate(self.snapshot, head) for head in heads]
        nominations.sort(
            key=lambda n: (n.borrows, -n.work.priority, n.work.created, n.work.uid or n.work.key)
        )
        gone: dict[str, Work] = {}
        reserved: list[Reserved] = []
        for nomination in nominations:
            self._process(nomination, gone, reserved)
        for node, fr, amount in reserved:
            node.remove_usage(fr, amount)
        for work in gone.values():
            self._evict(work)

    def _process(self, nomination: Nomination, gone: dict[str, Work], reserved: list[Reserved]) -> None:
        work, line = nomination.work, self.lines[nomination.work.queue]
        queue = self.snapshot.queues[work.queue]
        if nomination.mode is Mode.NO_FIT:
            line.aside.append(work)
        elif nomination.mode is not Mode.FIT and not nomination.targets:
            line.aside.append(work)
            if line.spec.reclaim_within_cohort != "Any":
                _reserve(queue, _reservation(queue, nomination), reserved)
        elif any(target.key in gone for target in nomination.targets) or not self._still_fits(
            nomination, gone
        ):
            line.active.append(work)
        elif nomination.mode is Mode.FIT:
            self._admit(nomination, line)
        else:
            gone |= {target.key: target for target in nomination.targets}
            self.preempted |= {target.key: work.key for target in nomination.targets}
            _reserve(queue, nomination.usage, reserved)
            line.active.append(work)
            line.first = "" if line.spec.is_strict else work.key

    def _still_fits(self, nomination: Nomination, gone: Mapping[str, Work]) -> bool:
        leaving = {**gone, **{target.key: target for target in nomination.targets}}
        for work in leaving.values():
            self.snapshot.remove_workload(work)
        queue = self.snapshot.queues[nomination.work.queue]
        fits = all(amount <= max(0, queue.available(fr)) for fr, amount in nomination.usage.items())
        for work in leaving.values():
            self.snapshot.add_workload(work)
        return fits

    def _admit(self, nomination: Nomination, line: _Line) -> None:
        flavors = {resource: flavor for flavor, resource in nomination.usage}
        self.snapshot.add_workload(replace(nomination.work, flavors=flavors, reserved_at=self.now))
        if line.first == nomination.work.key:
            line.first = ""

    def _evict(self, work: Work) -> None:
        self.snapshot.remove_workload(work)
        self.lines[work.queue].active.append(replace(work, flavors={}, reserved_at=None))
        self.changed = True


def predict(view: View, *, now: datetime) -> Prediction:
    """What becomes of every workload of the view once Kueue has come to rest. RULE: the view's queues and
    cohorts are as they shall be, its workloads as they are.
    """
    run = _Run(view, now)
    is_settled = run.settle()
    holds = frozenset(key for running in run.snapshot.running.values() for key in running)
    before = {work.key for work in view.work if work.flavors}
    return Prediction(
        holds=holds,
        waits=frozenset(work.key for work in view.work) - holds,
        starts=tuple(work.key for work in view.work if work.key in holds - before),
        preempted={key: by for key, by in run.preempted.items() if key in before},
        returns=frozenset(key for key in run.preempted if key in before & holds),
        is_settled=is_settled,
    )


def nominate(snapshot: Snapshot, work: Work) -> Nomination:
    """The flavor for a workload at this moment. RULE: flavors in order; the first that fits ends the search,
    one that needs preemption only where no other fits (Kueue's defaults of flavorFungibility).
    """
    best = Nomination(work, Mode.NO_FIT, 0, {})
    short: frozenset[FlavorResource] = frozenset()
    for flavor in snapshot.specs[work.queue].flavors:
        tried, needing = _with_flavor(snapshot, work, flavor)
        if tried.mode is not Mode.NO_FIT and (tried.mode, -tried.borrows) > (best.mode, -best.borrows):
            best, short = tried, needing
        if tried.mode is Mode.FIT:
            break
    if best.mode in (Mode.NO_FIT, Mode.FIT):
        return best
    found = preemption.targets(snapshot, preemption.Need(work, best.usage, short))
    return replace(best, targets=tuple(found))


def _with_flavor(snapshot: Snapshot, work: Work, flavor: str) -> tuple[Nomination, frozenset[FlavorResource]]:
    usage = {(flavor, resource): amount for resource, amount in work.requests.items()}
    worst, borrows, most = Mode.FIT, 0, 0
    short = set()
    for fr, amount in usage.items():
        mode, height = _fits_resource_quota(snapshot, work, fr, amount)
        if (mode, -height) < (worst, -borrows):
            worst, borrows = mode, height
        most = max(most, height)
        if mode is Mode.NO_FIT:
            break
        if mode is not Mode.FIT:
            short.add(fr)
    return Nomination(work, worst, most, usage), frozenset(short)


def _fits_resource_quota(snapshot: Snapshot, work: Work, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
    queue = snapshot.queues[work.queue]
    if fr not in queue.quotas or amount > queue.potential_available(fr):
        return Mode.NO_FIT, 0
    height, may_reclaim = find_height_of_lowest_subtree_that_fits(queue, fr, amount)
    if amount <= max(0, queue.available(fr)):
        return Mode.FIT, height
    if queue.quotas[fr].nominal < amount and not may_reclaim:
        return Mode.NO_FIT, height
    found = preemption.targets(snapshot, preemption.Need(work, {fr: amount}, frozenset({fr})))
    if not found:
        return Mode.NO_PREEMPTION_CANDIDATES, height
    for other in found:
        snapshot.remove_workload(other)
    height, _ = find_height_of_lowest_subtree_that_fits(queue, fr, amount)
    for other in found:
        snapshot.add_workload(other)
    return (Mode.PREEMPT if any(other.queue == work.queue for other in found) else Mode.RECLAIM), height


def _reserve(queue: Node, usage: Mapping[FlavorResource, int], reserved: list[Reserved]) -> None:
    """Keep room for this cycle, so that who comes later in it does not take it."""
    for fr, amount in usage.items():
        queue.add_usage(fr, amount)
        reserved.append((queue, fr, amount))


def _reservation(queue: Node, nomination: Nomination) -> dict[FlavorResource, int]:
    kept = {}
    for fr, amount in nomination.usage.items():
        quota, used = queue.quota(fr), queue.usage[fr]
        if not nomination.borrows:
            kept[fr] = max(0, min(amount, quota.nominal - used))
        elif quota.borrowing_limit is None:
            kept[fr] = amount
        else:
            kept[fr] = min(amount, quota.nominal + quota.borrowing_limit - used)
    return kept
