"""One run of Kueue's scheduler as a pure function: queues, flavors and workloads in, decisions out.

Cycles like the real one: the head of every queue is nominated, entries are ordered (no borrowing first, then
priority, then age), each is admitted, preempts, or waits with its message; until nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.controllers.kueue.flavors import Assigner, Assignment, Mode
from sandbox.controllers.kueue.model import (
    Admit,
    CohortSpec,
    Evict,
    Flavor,
    FlavorResource,
    Outcome,
    QueueSpec,
    Wait,
    Work,
)
from sandbox.controllers.kueue.preempt import Preemptor, Snapshot, Target
from sandbox.controllers.kueue.quota import QuotaTree


@dataclass
class _Entry:
    work: Work
    assignment: Assignment
    targets: list[Target]


@dataclass
class _Log:
    admitted: list[Admit] = field(default_factory=list)
    evicted: dict[str, Evict] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)


def queue_order(work: Work) -> tuple[int, str, str]:
    """A ClusterQueue's order: priority, then queue timestamp, then uid."""
    return -work.priority, work.order, work.uid


def run(
    queues: Sequence[QueueSpec],
    cohorts: Sequence[CohortSpec],
    flavors: Mapping[str, Flavor],
    works: Iterable[Work],
) -> Outcome:
    """Decide on all pending workloads until a cycle changes nothing.

    Rule: StrictFIFO stops at the first head that waits; BestEffortFIFO sets it aside together with all
    workloads
    of the same shape (those get no message, as in Kueue with equivalence hashing); a head whose preemption is
    under way keeps its place.
    """
    return _Run(queues, cohorts, flavors, list(works)).decide()


class _Run:
    def __init__(
        self,
        queues: Sequence[QueueSpec],
        cohorts: Sequence[CohortSpec],
        flavors: Mapping[str, Flavor],
        works: list[Work],
    ) -> None:
        self._specs = {queue.name: queue for queue in queues}
        tree = QuotaTree(queues, cohorts)
        self._snapshot = Snapshot(tree, self._specs, [w for w in works if w.reserved])
        self._preemptor = Preemptor(self._snapshot)
        self._flavors = flavors
        self._log = _Log()
        self._pending: dict[str, list[Work]] = {name: [] for name in self._specs}
        for work in sorted((w for w in works if not w.reserved), key=queue_order):
            self._enter(work)

    def _enter(self, work: Work) -> None:
        queue = self._specs.get(work.queue)
        if work.blocked:
            self._log.waiting[work.key] = work.blocked
        elif queue is not None and queue.active:
            self._pending[work.queue].append(work)

    def decide(self) -> Outcome:
        while self._cycle():
            pass
        return Outcome(
            tuple(self._log.admitted),
            tuple(self._log.evicted.values()),
            tuple(Wait(key, message) for key, message in self._log.waiting.items()),
        )

    def _cycle(self) -> bool:
        entries = [self._nominate(works[0]) for works in self._pending.values() if works]
        entries.sort(key=lambda e: (e.assignment.borrowing, *queue_order(e.work)))
        usage = [(node, node.usage.copy()) for node in self._snapshot.tree.nodes()]
        admitted: list[_Entry] = []
        preempted: set[str] = set()
        moved = [self._process(entry, admitted, preempted) for entry in entries]
        for node, before in usage:
            node.usage = before
        for entry in admitted:
            self._settle(entry)
        return any(moved)

    def _nominate(self, work: Work) -> _Entry:
        queue = self._specs[work.queue]
        node = self._snapshot.tree.queues[work.queue]
        assignment = Assigner(queue, node, self._flavors, self._preemptor.simulate).assign(work)
        targets: list[Target] = []
        if assignment.grade not in (Mode.FIT, Mode.NO_FIT):
            targets = self._preemptor.targets(work, assignment.usage, frozenset(assignment.needing))
        return _Entry(work, assignment, targets)

    def _process(self, entry: _Entry, admitted: list[_Entry], preempted: set[str]) -> bool:
        """Returns whether the queue moved on: admitted, or the head set aside."""
        if entry.assignment.grade is Mode.NO_FIT:
            return self._set_aside(entry)
        if entry.assignment.grade is not Mode.FIT and not entry.targets:
            if self._specs[entry.work.queue].preemption.reclaim_within_cohort != "Any":
                self._reserve(entry)
            return self._set_aside(entry)
        if any(target.work.key in preempted for target in entry.targets):
            return self._skip(entry, "Workload has overlapping preemption targets with another workload")
        if not self._still_fits(entry, preempted):
            return self._skip(entry, "Workload no longer fits after processing another workload")
        preempted.update(target.work.key for target in entry.targets)
        self._snapshot.tree.add_usage(entry.work.queue, entry.assignment.usage)
        if entry.targets:
            self._preempt(entry)
            return False
        admitted.append(entry)
        return True

    def _still_fits(self, entry: _Entry, preempted: set[str]) -> bool:
        going = {target.work.key for target in entry.targets} | preempted
        leaving = [w for held in self._snapshot.held.values() for w in held.values() if w.key in going]
        for work in leaving:
            self._snapshot.tree.remove_usage(work.queue, work.usage)
        node = self._snapshot.tree.queues[entry.work.queue]
        fits = all(value <= node.available(fr) for fr, value in entry.assignment.usage.items())
        for work in leaving:
            self._snapshot.tree.add_usage(work.queue, work.usage)
        return fits

    def _reserve(self, entry: _Entry) -> None:
        """Keep what the queue may use for a head that must wait, so that a later entry does not take it."""
        node = self._snapshot.tree.queues[entry.work.queue]
        reserved: dict[FlavorResource, int] = {}
        for fr, value in entry.assignment.usage.items():
            quota = node.quota(fr)
            if entry.assignment.borrowing == 0:
                reserved[fr] = max(0, min(value, quota.nominal - node.usage[fr]))
            elif quota.borrowing_limit is None:
                reserved[fr] = value
            else:
                reserved[fr] = min(value, quota.nominal + quota.borrowing_limit - node.usage[fr])
        self._snapshot.tree.add_usage(entry.work.queue, reserved)

    def _set_aside(self, entry: _Entry) -> bool:
        work, works = entry.work, self._pending[entry.work.queue]
        self._log.waiting[work.key] = entry.assignment.message
        if self._specs[work.queue].strict_fifo:
            return False
        same = [w for w in works if w.key == work.key or (work.shape and w.shape == work.shape)]
        self._pending[work.queue] = [w for w in works if w not in same]
        return True

    def _skip(self, entry: _Entry, message: str) -> bool:
        self._log.waiting[entry.work.key] = message
        return False

    def _preempt(self, entry: _Entry) -> None:
        work, count = entry.work, len(entry.targets)
        tree = self._snapshot.tree
        self._log.waiting[work.key] = (
            f"{entry.assignment.message}. Pending the preemption of {count} workload(s)"
        )
        for target in entry.targets:
            victim = target.work
            if victim.evicted:
                continue
            message = (
                f"Preempted to accommodate a workload (UID: {work.uid}, JobUID: {work.job_uid or 'UNKNOWN'}) "
                f"due to {target.variant.words}; preemptor path: {tree.queues[work.queue].path()}; "
                f"preemptee path: {tree.queues[victim.queue].path()}"
            )
            self._log.evicted[victim.key] = Evict(victim.key, work.key, target.variant.value, message)
            self._snapshot.mark_evicted(victim)

    def _settle(self, entry: _Entry) -> None:
        work, assignment = entry.work, entry.assignment
        self._log.admitted.append(Admit(work.key, work.queue, tuple(assignment.pod_sets)))
        self._log.waiting.pop(work.key, None)
        self._pending[work.queue].remove(work)
        held = Work(
            **{**work.__dict__, "reserved": True, "usage": dict(assignment.usage), "reserved_at": "~"}
        )
        self._snapshot.add_workload(held)
