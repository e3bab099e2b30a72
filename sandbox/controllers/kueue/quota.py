"""Quota in a tree of ClusterQueues and Cohorts: what is free, what may be borrowed, who borrows.

The names are those of Kueue's resource_node.go (v0.19). A node keeps to itself what it does not lend; only
what goes beyond that is counted at its parent. The product predicts with code of its own; one table of cases
holds both to it. No scheduling decision here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from sandbox.controllers.kueue.model import CohortSpec, FlavorResource, QueueSpec, ResourceQuota

NO_QUOTA = ResourceQuota(0)


class Node:
    """A ClusterQueue or Cohort with its present usage."""

    def __init__(self, name: str, quotas: Mapping[FlavorResource, ResourceQuota]) -> None:
        self.name, self.quotas = name, quotas
        self.parent: Node | None = None
        self.child_cohorts: list[Node] = []
        self.child_queues: list[Node] = []
        self.subtree_quota = Counter({fr: quota.nominal for fr, quota in quotas.items()})
        self.usage: Counter[FlavorResource] = Counter()

    def quota(self, fr: FlavorResource) -> ResourceQuota:
        """Its own quota; nothing where it has none."""
        return self.quotas.get(fr, NO_QUOTA)

    def local_quota(self, fr: FlavorResource) -> int:
        """What of the subtree's quota is never lent to the parent."""
        limit = self.quota(fr).lending_limit
        return 0 if limit is None else max(0, self.subtree_quota[fr] - limit)

    def local_available(self, fr: FlavorResource) -> int:
        """What of that is free."""
        return max(0, self.local_quota(fr) - self.usage[fr])

    def available(self, fr: FlavorResource) -> int:
        """What is free here, borrowing included; negative when more is used than there is."""
        if self.parent is None:
            return self.subtree_quota[fr] - self.usage[fr]
        parent_available = self.parent.available(fr)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            stored_in_parent = self.subtree_quota[fr] - self.local_quota(fr)
            used_in_parent = max(0, self.usage[fr] - self.local_quota(fr))
            parent_available = min(stored_in_parent - used_in_parent + limit, parent_available)
        return self.local_available(fr) + parent_available

    def potential_available(self, fr: FlavorResource) -> int:
        """What would be free here if nothing were in use."""
        if self.parent is None:
            return self.subtree_quota[fr]
        found = self.local_quota(fr) + self.parent.potential_available(fr)
        limit = self.quota(fr).borrowing_limit
        return found if limit is None else min(self.subtree_quota[fr] + limit, found)

    def add_usage(self, fr: FlavorResource, value: int) -> None:
        """Count usage here, and at the parent what is beyond the local quota."""
        local_available = self.local_available(fr)
        self.usage[fr] += value
        if self.parent is not None and value > local_available:
            self.parent.add_usage(fr, value - local_available)

    def remove_usage(self, fr: FlavorResource, value: int) -> None:
        """The reverse of `add_usage`."""
        stored_in_parent = self.usage[fr] - self.local_quota(fr)
        self.usage[fr] -= value
        if self.parent is not None and stored_in_parent > 0:
            self.parent.remove_usage(fr, min(value, stored_in_parent))

    def borrowing_with(self, fr: FlavorResource, value: int) -> bool:
        """Whether it would borrow with `value` more in use."""
        return self.usage[fr] + value > self.subtree_quota[fr]

    def is_within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether it borrows nothing of these."""
        return not any(self.borrowing_with(fr, 0) for fr in frs)

    def path_parent_to_root(self) -> Iterator[Node]:
        """Every ancestor, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def height(self) -> int:
        """The distance to the furthest leaf below; a queue is 0."""
        found = 1 if self.child_cohorts or self.child_queues else 0
        return max([found, *(child.height() + 1 for child in self.child_cohorts)])

    def path(self) -> str:
        """Kueue's path of a queue: /topmost/.../queue."""
        above = [node.name for node in self.path_parent_to_root()]
        return "/" + "/".join([*reversed(above), self.name])


def accumulate(node: Node) -> None:
    """Sum up the subtree's quota from the leaves: what each child does not keep to itself."""
    for child in node.child_cohorts:
        accumulate(child)
    for child in (*node.child_cohorts, *node.child_queues):
        for fr, quota in child.subtree_quota.items():
            node.subtree_quota[fr] += quota - child.local_quota(fr)


def quantities_fit_in_quota(
    node: Node, requests: Mapping[FlavorResource, int]
) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether the requests fit into the node's own quota, and what of them goes on to the parent."""
    fits = not any(node.borrowing_with(fr, value) for fr, value in requests.items())
    return fits, {fr: max(0, value - node.local_available(fr)) for fr, value in requests.items()}


def find_height_of_lowest_subtree_that_fits(queue: Node, fr: FlavorResource, value: int) -> tuple[int, bool]:
    """The height of the lowest subtree that has `value` without borrowing (0: the queue itself), and whether
    it is smaller than the whole tree.
    """
    if queue.parent is None or not queue.borrowing_with(fr, value):
        return 0, queue.parent is not None
    remaining = value - queue.local_available(fr)
    root = queue.parent
    for root in queue.path_parent_to_root():
        if not root.borrowing_with(fr, remaining):
            return root.height(), root.parent is not None
        remaining -= root.local_available(fr)
    return root.height(), False


class QuotaTree:
    """All queues and cohorts with their quota; a cohort that only queues name exists implicitly."""

    def __init__(self, queues: Iterable[QueueSpec], cohorts: Iterable[CohortSpec]) -> None:
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        for spec in cohorts:
            self.cohorts[spec.name] = Node(spec.name, spec.quotas)
        for spec in cohorts:
            node = self.cohorts[spec.name]
            if spec.parent and (parent := self._attach(node, spec.parent)):
                parent.child_cohorts.append(node)
        for queue in queues:
            node = Node(queue.name, queue.quotas)
            self.queues[queue.name] = node
            if queue.cohort and (parent := self._attach(node, queue.cohort)):
                parent.child_queues.append(node)
        for root in [node for node in self.cohorts.values() if node.parent is None]:
            accumulate(root)

    def _attach(self, node: Node, cohort: str) -> Node | None:
        parent = self.cohorts.setdefault(cohort, Node(cohort, {}))
        if node is parent or node in parent.path_parent_to_root():
            # A cycle of cohorts has no quota in Kueue either; the node stays a root of its own.
            return None
        node.parent = parent
        return parent

    def add_usage(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Count usage of a queue."""
        for fr, value in usage.items():
            self.queues[queue].add_usage(fr, value)

    def remove_usage(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Give usage of a queue back."""
        for fr, value in usage.items():
            self.queues[queue].remove_usage(fr, value)

    def nodes(self) -> Iterator[Node]:
        """All queues and cohorts."""
        yield from self.queues.values()
        yield from self.cohorts.values()
