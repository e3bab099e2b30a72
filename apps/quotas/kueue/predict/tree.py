"""The arithmetic of quota in a tree of cohorts, in the names of Kueue's resource_node.go (v0.19). Pure.

A node keeps to itself what it does not lend; only what goes beyond that is counted at its parent. The
simulated Kueue has the same in code of its own; one table of cases holds both to it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from apps.quotas.kueue.predict.view import Cohort, FlavorResource, Queue, ResourceQuota, View, Work

NO_QUOTA = ResourceQuota(0)


class Node:
    """A cohort or a queue with its present usage."""

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

    def path_parent_to_root(self) -> Iterator["Node"]:
        """Every ancestor, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def height(self) -> int:
        """The distance to the furthest leaf below; a queue is 0."""
        found = 1 if self.child_cohorts or self.child_queues else 0
        return max([found, *(child.height() + 1 for child in self.child_cohorts)])


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


class Snapshot:
    """The trees with everything that holds quota counted in."""

    def __init__(self, view: View) -> None:
        self.cohorts = {cohort.name: Node(cohort.name, cohort.quotas) for cohort in view.cohorts}
        self.queues = {queue.name: Node(queue.name, queue.quotas) for queue in view.queues}
        self.specs: dict[str, Queue] = {queue.name: queue for queue in view.queues}
        self.running: dict[str, dict[str, Work]] = {queue.name: {} for queue in view.queues}
        self._connect(view.cohorts, view.queues)
        for work in view.work:
            if work.flavors and work.queue in self.queues:
                self.add_workload(work)

    def add_workload(self, work: Work) -> None:
        """Count a workload that has its flavors."""
        self.running[work.queue][work.key] = work
        for fr, value in work.usage.items():
            self.queues[work.queue].add_usage(fr, value)

    def remove_workload(self, work: Work) -> None:
        """The reverse of `add_workload`."""
        del self.running[work.queue][work.key]
        for fr, value in work.usage.items():
            self.queues[work.queue].remove_usage(fr, value)

    def _connect(self, cohorts: Iterable[Cohort], queues: Iterable[Queue]) -> None:
        for cohort in cohorts:
            if cohort.parent:
                node = self.cohorts[cohort.name]
                self._below(node, cohort.parent).child_cohorts.append(node)
        for queue in queues:
            if queue.cohort:
                node = self.queues[queue.name]
                self._below(node, queue.cohort).child_queues.append(node)
        for root in [node for node in self.cohorts.values() if node.parent is None]:
            accumulate(root)

    def _below(self, node: Node, parent: str) -> Node:
        # A cohort that is only named, without an object of its own, is one without quota of its own.
        node.parent = self.cohorts.setdefault(parent, Node(parent, {}))
        return node.parent
