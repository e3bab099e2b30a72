"""Whom Kueue would preempt to make room, after its classical preemption (v0.19): work of queues that borrow,
the lowest priority and the latest admitted first; as few as possible. Pure.

Everything is tried on the snapshot and put back before an answer is given.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from apps.quotas.kueue.predict.tree import Node, Snapshot, quantities_fit_in_quota
from apps.quotas.kueue.predict.view import FlavorResource, Work

LATER_THAN_ALL = datetime.max.replace(tzinfo=UTC)
NEWER_BY_SECONDS = 300
"""An equal priority gives way only to work that was made this much earlier."""


@dataclass(frozen=True)
class Candidate:
    """A workload that may be preempted; `ancestor` is the lowest cohort that it shares with the preemptor,
    None within the same queue. `is_owed` tells that the preemptor's own subtree has the quota.
    """

    work: Work
    ancestor: Node | None
    is_owed: bool


@dataclass(frozen=True)
class Need:
    """Who wants room, for what, and of which flavors and resources too little is free."""

    work: Work
    requests: Mapping[FlavorResource, int]
    short: frozenset[FlavorResource]


def targets(snapshot: Snapshot, need: Need) -> list[Work]:
    """The workloads to preempt so that `need` fits; empty when that is impossible."""
    candidates = _candidates(snapshot, need)
    for may_borrow in _attempts(snapshot, need, candidates):
        found = _attempt(snapshot, need, candidates, may_borrow=may_borrow)
        if found:
            return found
    return []


def _attempts(snapshot: Snapshot, need: Need, candidates: Collection[Candidate]) -> tuple[bool, ...]:
    queue = snapshot.queues[need.work.queue]
    is_under = all(queue.subtree_quota[fr] > queue.usage[fr] for fr in need.short)
    if not is_under or not any(candidate.ancestor for candidate in candidates):
        return (True,)
    if not any(candidate.is_owed for candidate in candidates):
        return (False, True)
    return (True, False)


def _attempt(
    snapshot: Snapshot, need: Need, candidates: Collection[Candidate], *, may_borrow: bool
) -> list[Work]:
    removed: list[Work] = []
    for candidate in candidates:
        if not _is_valid(snapshot, need, candidate, may_borrow=may_borrow):
            continue
        snapshot.remove_workload(candidate.work)
        removed.append(candidate.work)
        if _fits(snapshot, need, may_borrow=may_borrow):
            chosen = _fill_back(snapshot, need, removed, may_borrow=may_borrow)
            for work in chosen:
                snapshot.add_workload(work)
            return chosen
    for work in removed:
        snapshot.add_workload(work)
    return []


def _fill_back(snapshot: Snapshot, need: Need, removed: list[Work], *, may_borrow: bool) -> list[Work]:
    """Put back, in reverse, whoever was removed for nothing; the last one was needed."""
    for place in range(len(removed) - 2, -1, -1):
        snapshot.add_workload(removed[place])
        if _fits(snapshot, need, may_borrow=may_borrow):
            removed[place] = removed[-1]
            removed.pop()
        else:
            snapshot.remove_workload(removed[place])
    return removed


def _fits(snapshot: Snapshot, need: Need, *, may_borrow: bool) -> bool:
    queue = snapshot.queues[need.work.queue]
    if not may_borrow and any(queue.borrowing_with(fr, amount) for fr, amount in need.requests.items()):
        return False
    return all(amount <= max(0, queue.available(fr)) for fr, amount in need.requests.items())


def _is_valid(snapshot: Snapshot, need: Need, candidate: Candidate, *, may_borrow: bool) -> bool:
    if candidate.ancestor is None:
        return True
    if may_borrow and not candidate.is_owed:
        return False
    queue = snapshot.queues[candidate.work.queue]
    if queue.is_within_nominal(need.short):
        return False
    for node in queue.path_parent_to_root():
        if node is candidate.ancestor:
            return True
        if node.is_within_nominal(need.short):
            return False
    return True


def _candidates(snapshot: Snapshot, need: Need) -> list[Candidate]:
    spec, queue = snapshot.specs[need.work.queue], snapshot.queues[need.work.queue]
    template, policy = Candidate(need.work, None, is_owed=False), spec.within_cluster_queue
    same = list(_of_queue(snapshot, need, queue, policy, template=template))
    owed: list[Candidate] = []
    others: list[Candidate] = []
    if spec.reclaim_within_cohort != "Never":
        is_owed, rest = quantities_fit_in_quota(queue, need.requests)
        done: Node | None = None
        for root in queue.path_parent_to_root():
            found = owed if is_owed else others
            template = Candidate(need.work, root, is_owed=is_owed)
            found += _below(snapshot, need, root, done, template=template)
            fits, rest = quantities_fit_in_quota(root, rest)
            is_owed, done = is_owed or fits, root
    return [*sorted(owed, key=_order), *sorted(others, key=_order), *sorted(same, key=_order)]


def _below(
    snapshot: Snapshot, need: Need, cohort: Node, done: Node | None, *, template: Candidate
) -> Iterator[Candidate]:
    for child in cohort.child_cohorts:
        if child is not done and not child.is_within_nominal(need.short):
            yield from _below(snapshot, need, child, done, template=template)
    for queue in cohort.child_queues:
        if queue.name != need.work.queue and not queue.is_within_nominal(need.short):
            policy = snapshot.specs[need.work.queue].reclaim_within_cohort
            yield from _of_queue(snapshot, need, queue, policy, template=template)


def _of_queue(
    snapshot: Snapshot, need: Need, queue: Node, policy: str, *, template: Candidate
) -> Iterator[Candidate]:
    for work in snapshot.running[queue.name].values():
        if need.short & work.usage.keys() and _may_preempt(need.work, work, policy):
            yield replace(template, work=work)


def _may_preempt(preemptor: Work, other: Work, policy: str) -> bool:
    if policy == "LowerOrNewerEqualPriority" and preemptor.priority == other.priority:
        return (other.created - preemptor.created).total_seconds() > NEWER_BY_SECONDS
    if policy in ("LowerPriority", "LowerOrNewerEqualPriority"):
        return preemptor.priority > other.priority
    return policy == "Any"


def _order(candidate: Candidate) -> tuple[int, float, str]:
    """The lowest priority first, then who got its quota last."""
    work = candidate.work
    return work.priority, -(work.reserved_at or LATER_THAN_ALL).timestamp(), work.uid or work.key
