"""Which admitted workloads would have to go for a pending one: Kueue's classical preemption.

Candidates from the same queue, from queues over which the preemptor has a hierarchical advantage, and by
priority; removed in order until the workload fits, then added back while it still fits. Issues nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sandbox.controllers.kueue.flavors import Grade, Mode
from sandbox.controllers.kueue.model import FlavorResource, QueueSpec, Work
from sandbox.controllers.kueue.quota import (
    Node,
    QuotaTree,
    find_height_of_lowest_subtree_that_fits,
    quantities_fit_in_quota,
)

Usage = Mapping[FlavorResource, int]


class Variant(StrEnum):
    """Why a candidate may be preempted; the value is the Preempted condition's reason."""

    WITHIN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

    @property
    def words(self) -> str:
        """Kueue's words for the reason."""
        return _WORDS[self]


_WORDS = {
    Variant.WITHIN_QUEUE: "prioritization in the ClusterQueue",
    Variant.RECLAIM: "reclamation within the cohort",
    Variant.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


@dataclass(frozen=True)
class Target:
    """A workload to preempt."""

    work: Work
    variant: Variant


@dataclass(frozen=True)
class _Need:
    """What a workload needs, and which flavor resources of it are short."""

    work: Work
    usage: Usage
    short: frozenset[FlavorResource]


@dataclass(frozen=True)
class _Candidate:
    work: Work
    variant: Variant
    meeting: Node | None
    only_without_borrowing: bool = False


class Snapshot:
    """The cluster as one scheduling run sees it: quota in use and who uses it. Changed by what the run
    decides.
    """

    def __init__(self, tree: QuotaTree, queues: Mapping[str, QueueSpec], holding: list[Work]) -> None:
        self.tree = tree
        self.queues = queues
        self.held: dict[str, dict[str, Work]] = {name: {} for name in tree.queues}
        for work in holding:
            if work.queue in self.held:
                self.add_workload(work)

    def add_workload(self, work: Work) -> None:
        """Count more of it as used."""
        self.held[work.queue][work.key] = work
        self.tree.add_usage(work.queue, work.usage)

    def remove_workload(self, work: Work) -> None:
        """Give usage back."""
        del self.held[work.queue][work.key]
        self.tree.remove_usage(work.queue, work.usage)

    def mark_evicted(self, work: Work) -> None:
        """An evicted workload keeps its quota until its pods are gone."""
        self.held[work.queue][work.key] = Work(**{**work.__dict__, "evicted": True})


class Preemptor:
    """Finds targets on a snapshot; leaves the snapshot as it found it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def simulate(self, work: Work, fr: FlavorResource, value: int) -> Grade:
        """How one flavor resource could be had by preemption, and how much would still be borrowed."""
        node = self._snapshot.tree.queues[work.queue]
        targets = self.targets(work, {fr: value}, frozenset({fr}))
        if not targets:
            return Grade(
                Mode.NO_PREEMPTION_CANDIDATES, find_height_of_lowest_subtree_that_fits(node, fr, value)[0]
            )
        for target in targets:
            self._snapshot.remove_workload(target.work)
        level = find_height_of_lowest_subtree_that_fits(node, fr, value)[0]
        for target in targets:
            self._snapshot.add_workload(target.work)
        own = any(target.work.queue == work.queue for target in targets)
        return Grade(Mode.PREEMPT if own else Mode.RECLAIM, level)

    def targets(self, work: Work, usage: Usage, needing: frozenset[FlavorResource]) -> list[Target]:
        """The workloads to preempt so that `usage` fits; empty when nothing would help."""
        candidates, other_queues, hierarchical = self._candidates(work, usage, needing)
        queue = self._snapshot.queues[work.queue]
        forbidden = queue.preemption.borrow_within_cohort == "Never"
        if not other_queues or (forbidden and not self._under_nominal(work, needing)):
            attempts: tuple[bool, ...] = (True,)
        elif forbidden and not hierarchical:
            attempts = (False, True)
        else:
            attempts = (True, False)
        for borrowing in attempts:
            found = self._attempt(_Need(work, usage, needing), candidates, borrowing=borrowing)
            if found:
                return found
        return []

    def _under_nominal(self, work: Work, needing: frozenset[FlavorResource]) -> bool:
        node = self._snapshot.tree.queues[work.queue]
        return all(node.usage[fr] < node.quota(fr).nominal for fr in needing)

    def _attempt(self, need: _Need, candidates: list[_Candidate], *, borrowing: bool) -> list[Target]:
        removed: list[Target] = []
        fits = False
        for candidate in candidates:
            if not self._valid(need, candidate, borrowing=borrowing):
                continue
            self._snapshot.remove_workload(candidate.work)
            removed.append(Target(candidate.work, candidate.variant))
            fits = self._fits(need, borrowing=borrowing)
            if fits:
                break
        kept = self._fill_back(need, removed, borrowing=borrowing) if fits else []
        for target in kept or removed:
            self._snapshot.add_workload(target.work)
        return kept

    def _fill_back(self, need: _Need, removed: list[Target], *, borrowing: bool) -> list[Target]:
        kept = list(removed)
        for index in range(len(kept) - 2, -1, -1):
            self._snapshot.add_workload(kept[index].work)
            if self._fits(need, borrowing=borrowing):
                kept[index] = kept[-1]
                kept.pop()
            else:
                self._snapshot.remove_workload(kept[index].work)
        return kept

    def _fits(self, need: _Need, *, borrowing: bool) -> bool:
        node = self._snapshot.tree.queues[need.work.queue]
        for fr, value in need.usage.items():
            if not borrowing and node.parent is not None and node.borrowing_with(fr, value):
                return False
            if value > node.available(fr):
                return False
        return True

    def _valid(self, need: _Need, candidate: _Candidate, *, borrowing: bool) -> bool:
        if candidate.work.queue == need.work.queue:
            return True
        if borrowing and candidate.only_without_borrowing:
            return False
        node = self._snapshot.tree.queues[candidate.work.queue]
        if node.is_within_nominal(need.short):
            return False
        for ancestor in node.path_parent_to_root():
            if ancestor is candidate.meeting:
                break
            if ancestor.is_within_nominal(need.short):
                return False
        return True

    def _candidates(
        self, work: Work, usage: Usage, needing: frozenset[FlavorResource]
    ) -> tuple[list[_Candidate], bool, bool]:
        """All candidates in order, whether any is of another queue, whether any is hierarchical."""
        same = list(self._same_queue(work, needing))
        advantage, priority = self._cohort(work, usage, needing)
        groups = [sorted(g, key=lambda c: _order(c, work.queue)) for g in (advantage, priority, same)]
        evicted = [c for group in groups for c in group if c.work.evicted]
        others = [c for group in groups for c in group if not c.work.evicted]
        return [*evicted, *others], bool(advantage or priority), bool(advantage)

    def _same_queue(self, work: Work, needing: frozenset[FlavorResource]) -> Iterator[_Candidate]:
        policy = self._snapshot.queues[work.queue].preemption.within_cluster_queue
        if policy == "Never":
            return
        for held in self._snapshot.held[work.queue].values():
            if _uses(held, needing) and _allowed(work, held, policy):
                yield _Candidate(held, Variant.WITHIN_QUEUE, None)

    def _cohort(
        self, work: Work, usage: Usage, needing: frozenset[FlavorResource]
    ) -> tuple[list[_Candidate], list[_Candidate]]:
        node = self._snapshot.tree.queues[work.queue]
        advantage: list[_Candidate] = []
        priority: list[_Candidate] = []
        if (
            node.parent is None
            or self._snapshot.queues[work.queue].preemption.reclaim_within_cohort == "Never"
        ):
            return advantage, priority
        ahead, remaining = quantities_fit_in_quota(node, usage)
        done: Node = node
        for root in node.path_parent_to_root():
            for child in self._borrowers(root, done, needing):
                for held in self._snapshot.held[child.name].values():
                    candidate = self._classify(_Need(work, usage, needing), held, root, ahead=ahead)
                    if candidate is not None:
                        (advantage if ahead else priority).append(candidate)
            fits, remaining = quantities_fit_in_quota(root, remaining)
            ahead, done = ahead or fits, root
        return advantage, priority

    def _borrowers(self, root: Node, skip: Node, needing: frozenset[FlavorResource]) -> Iterator[Node]:
        for cohort in root.child_cohorts:
            if cohort is not skip and not cohort.is_within_nominal(needing):
                yield from self._borrowers(cohort, skip, needing)
        for queue in root.child_queues:
            if queue is not skip and not queue.is_within_nominal(needing):
                yield queue

    def _classify(self, need: _Need, held: Work, meeting: Node, *, ahead: bool) -> _Candidate | None:
        work = need.work
        policy = self._snapshot.queues[work.queue].preemption
        if not _uses(held, need.short) or not _allowed(work, held, policy.reclaim_within_cohort):
            return None
        if ahead:
            return _Candidate(held, Variant.RECLAIM, meeting)
        above = held.priority >= work.priority or (
            policy.borrow_threshold is not None and held.priority > policy.borrow_threshold
        )
        if policy.borrow_within_cohort == "Never" or above:
            return _Candidate(held, Variant.RECLAIM, meeting, only_without_borrowing=True)
        return _Candidate(held, Variant.RECLAIM_WHILE_BORROWING, meeting)


def _uses(held: Work, needing: frozenset[FlavorResource]) -> bool:
    return any(fr in needing for fr in held.usage)


def _allowed(work: Work, held: Work, policy: str) -> bool:
    if policy == "LowerPriority":
        return work.priority > held.priority
    if policy == "LowerOrNewerEqualPriority":
        newer = work.priority == held.priority and work.order < held.order
        return work.priority > held.priority or newer
    return policy == "Any"


def _order(candidate: _Candidate, queue: str) -> tuple[bool, bool, int, _Descending, str]:
    """Evicted first, other queues first, lower priority first, most recently admitted first, then uid."""
    held = candidate.work
    return not held.evicted, held.queue == queue, held.priority, _Descending(held.reserved_at), held.uid


@dataclass(frozen=True)
class _Descending:
    text: str

    def __lt__(self, other: _Descending) -> bool:
        return self.text > other.text
