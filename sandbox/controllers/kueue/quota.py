"""Quota in a tree of ClusterQueues and Cohorts: what is free, what may be borrowed, who borrows.

The rules are Kueue's hierarchical ones: a node keeps `subtree - lendingLimit` for itself, usage beyond that
counts against its parent, and a borrowing limit caps what it takes from there. No scheduling decision here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sandbox.controllers.kueue.model import CohortSpec, FlavorResource, QueueSpec, Quota

_NONE = Quota(0)


@dataclass
class Node:
    """A ClusterQueue or Cohort in the tree. `subtree` and `usage` follow Kueue's resource node."""

    name: str
    quotas: Mapping[FlavorResource, Quota]
    is_queue: bool
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    subtree: dict[FlavorResource, int] = field(default_factory=dict)
    usage: dict[FlavorResource, int] = field(default_factory=dict)

    def quota(self, fr: FlavorResource) -> Quota:
        """Its own quota; nothing where it has none."""
        return self.quotas.get(fr, _NONE)

    def used(self, fr: FlavorResource) -> int:
        """What is in use."""
        return self.usage.get(fr, 0)

    def local_quota(self, fr: FlavorResource) -> int:
        """Capacity that is never lent to the parent."""
        limit = self.quota(fr).lending_limit
        return 0 if limit is None else max(0, self.subtree.get(fr, 0) - limit)

    def local_available(self, fr: FlavorResource) -> int:
        """What is free of the part that is never lent."""
        return max(0, self.local_quota(fr) - self.used(fr))

    def available(self, fr: FlavorResource) -> int:
        """Free capacity now, own and borrowable; negative when over-admitted."""
        if self.parent is None:
            return self.subtree.get(fr, 0) - self.used(fr)
        from_parent = self.parent.available(fr)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            local = self.local_quota(fr)
            stored = self.subtree.get(fr, 0) - local
            from_parent = min(stored - max(0, self.used(fr) - local) + limit, from_parent)
        return self.local_available(fr) + from_parent

    def potential(self, fr: FlavorResource) -> int:
        """The most this node could ever use, with nobody else using anything."""
        if self.parent is None:
            return self.subtree.get(fr, 0)
        most = self.local_quota(fr) + self.parent.potential(fr)
        limit = self.quota(fr).borrowing_limit
        return most if limit is None else min(self.subtree.get(fr, 0) + limit, most)

    def add(self, fr: FlavorResource, value: int) -> None:
        """Count more of it as used."""
        free = self.local_available(fr)
        self.usage[fr] = self.used(fr) + value
        if self.parent is not None and value > free:
            self.parent.add(fr, value - free)

    def remove(self, fr: FlavorResource, value: int) -> None:
        """Give usage back."""
        stored = self.used(fr) - self.local_quota(fr)
        self.usage[fr] = self.used(fr) - value
        if stored > 0 and self.parent is not None:
            self.parent.remove(fr, min(value, stored))

    def borrowing_with(self, fr: FlavorResource, value: int) -> bool:
        """Whether using `value` more would exceed what this node's subtree owns."""
        return self.used(fr) + value > self.subtree.get(fr, 0)

    def within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether it uses no more than it owns, in all of these."""
        return all(self.used(fr) <= self.subtree.get(fr, 0) for fr in frs)

    def ancestors(self) -> Iterator[Node]:
        """Parent, grandparent and so on."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> Node:
        """The top of its tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def height(self) -> int:
        """Distance to the furthest leaf; a ClusterQueue is 0."""
        cohorts = [child.height() for child in self.children if not child.is_queue]
        return max([min(len(self.children), 1), *(height + 1 for height in cohorts)])

    def path(self) -> str:
        """Kueue's path of a queue: /topmost/.../queue."""
        return "/" + "/".join([*reversed([node.name for node in self.ancestors()]), self.name])


def lowest_fitting_height(queue: Node, fr: FlavorResource, value: int) -> tuple[int, bool]:
    """Height of the smallest subtree that owns enough for `value` more, and whether it is below the root.

    0 means the queue's own quota suffices, that is, no borrowing.
    """
    if queue.parent is None or not queue.borrowing_with(fr, value):
        return 0, queue.parent is not None
    remaining = value - queue.local_available(fr)
    for node in queue.ancestors():
        if not node.borrowing_with(fr, remaining):
            return node.height(), node.parent is not None
        remaining -= node.local_available(fr)
    return queue.root().height(), False


class QuotaTree:
    """All queues and cohorts with their quota; a cohort that only queues name exists implicitly."""

    def __init__(self, queues: Iterable[QueueSpec], cohorts: Iterable[CohortSpec]) -> None:
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        for spec in cohorts:
            self.cohorts[spec.name] = Node(spec.name, spec.quotas, is_queue=False)
        for spec in cohorts:
            if spec.parent:
                self._attach(self.cohorts[spec.name], spec.parent)
        for queue in queues:
            node = Node(queue.name, queue.quotas, is_queue=True)
            self.queues[queue.name] = node
            if queue.cohort:
                self._attach(node, queue.cohort)
        for root in [n for n in (*self.cohorts.values(), *self.queues.values()) if n.parent is None]:
            self._accumulate(root)

    def _attach(self, node: Node, cohort: str) -> None:
        parent = self.cohorts.setdefault(cohort, Node(cohort, {}, is_queue=False))
        if node is parent or node in parent.ancestors():
            # A cycle of cohorts has no quota in Kueue either; the node stays a root of its own.
            return
        node.parent = parent
        parent.children.append(node)

    def _accumulate(self, node: Node) -> None:
        node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
        for child in node.children:
            self._accumulate(child)
            for fr, total in child.subtree.items():
                node.subtree[fr] = node.subtree.get(fr, 0) + total - child.local_quota(fr)

    def use(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Count usage of a queue."""
        for fr, value in usage.items():
            self.queues[queue].add(fr, value)

    def release(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Give usage of a queue back."""
        for fr, value in usage.items():
            self.queues[queue].remove(fr, value)

    def nodes(self) -> Iterator[Node]:
        """All queues and cohorts."""
        yield from self.queues.values()
        yield from self.cohorts.values()
