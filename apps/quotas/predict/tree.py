"""The arithmetic of quota in a tree of cohorts, after Kueue's resource_node.go (v0.19). Pure.

A node keeps to itself what it does not lend; only what goes beyond that is counted at its parent.
"""

from collections.abc import Iterable, Iterator, Mapping

from apps.quotas.predict.view import Cell, Cohort, Limits, Queue, View, Work

NONE = Limits(0)


class Node:
    """A cohort or a queue with its present usage."""

    def __init__(self, name: str, quotas: Mapping[Cell, Limits]) -> None:
        self.name = name
        self.quotas = quotas
        self.parent: Node | None = None
        self.cohorts: list[Node] = []
        self.queues: list[Node] = []
        self.subtree: dict[Cell, int] = {cell: limits.nominal for cell, limits in quotas.items()}
        self.usage: dict[Cell, int] = {}

    def path(self) -> Iterator["Node"]:
        """Every ancestor, the nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def kept(self, cell: Cell) -> int:
        """What of the subtree's quota is never lent to the parent."""
        lending = self.quotas.get(cell, NONE).lending
        return 0 if lending is None else max(0, self.subtree.get(cell, 0) - lending)

    def kept_free(self, cell: Cell) -> int:
        """What of that is unused."""
        return max(0, self.kept(cell) - self.usage.get(cell, 0))

    def room(self, cell: Cell) -> int:
        """What may still be taken here, borrowing included; negative when more is used than there is."""
        if self.parent is None:
            return self.subtree.get(cell, 0) - self.usage.get(cell, 0)
        above = self.parent.room(cell)
        borrowing = self.quotas.get(cell, NONE).borrowing
        if borrowing is not None:
            kept = self.kept(cell)
            stored = self.subtree.get(cell, 0) - kept
            used = max(0, self.usage.get(cell, 0) - kept)
            above = min(stored - used + borrowing, above)
        return self.kept_free(cell) + above

    def reach(self, cell: Cell) -> int:
        """What could be taken here if nothing were in use."""
        if self.parent is None:
            return self.subtree.get(cell, 0)
        found = self.kept(cell) + self.parent.reach(cell)
        borrowing = self.quotas.get(cell, NONE).borrowing
        return found if borrowing is None else min(self.subtree.get(cell, 0) + borrowing, found)

    def add(self, cell: Cell, amount: int) -> None:
        """Count usage here, and at the parent what is beyond the kept part."""
        free = self.kept_free(cell)
        self.usage[cell] = self.usage.get(cell, 0) + amount
        if self.parent is not None and amount > free:
            self.parent.add(cell, amount - free)

    def take(self, cell: Cell, amount: int) -> None:
        """The reverse of `add`."""
        stored = self.usage.get(cell, 0) - self.kept(cell)
        self.usage[cell] = self.usage.get(cell, 0) - amount
        if stored > 0 and self.parent is not None:
            self.parent.take(cell, min(amount, stored))

    def exceeds_with(self, cell: Cell, amount: int) -> bool:
        """Whether `amount` more would be beyond this node's own quota: it would borrow."""
        return self.subtree.get(cell, 0) < self.usage.get(cell, 0) + amount

    def is_within(self, cells: Iterable[Cell]) -> bool:
        """Whether it borrows nothing of these cells."""
        return not any(self.exceeds_with(cell, 0) for cell in cells)

    def height(self) -> int:
        """The distance to the furthest leaf below."""
        found = 1 if self.cohorts or self.queues else 0
        return max([found, *(child.height() + 1 for child in self.cohorts)])


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
                self.hold(work)

    def hold(self, work: Work) -> None:
        """Count a workload that has its flavors."""
        self.running[work.queue][work.key] = work
        for cell, amount in work.usage.items():
            self.queues[work.queue].add(cell, amount)

    def drop(self, work: Work) -> None:
        """The reverse of `hold`."""
        del self.running[work.queue][work.key]
        for cell, amount in work.usage.items():
            self.queues[work.queue].take(cell, amount)

    def _connect(self, cohorts: Iterable[Cohort], queues: Iterable[Queue]) -> None:
        for cohort in cohorts:
            if cohort.parent:
                self._below(self.cohorts[cohort.name], cohort.parent).cohorts.append(
                    self.cohorts[cohort.name]
                )
        for queue in queues:
            if queue.cohort:
                self._below(self.queues[queue.name], queue.cohort).queues.append(self.queues[queue.name])
        for root in [node for node in self.cohorts.values() if node.parent is None]:
            _accumulate(root)

    def _below(self, node: Node, parent: str) -> Node:
        # A cohort that is only named, without an object of its own, is one without quota of its own.
        node.parent = self.cohorts.setdefault(parent, Node(parent, {}))
        return node.parent


def _accumulate(node: Node) -> None:
    for child in node.cohorts:
        _accumulate(child)
    for child in (*node.cohorts, *node.queues):
        for cell, amount in child.subtree.items():
            node.subtree[cell] = node.subtree.get(cell, 0) + amount - child.kept(cell)


def fits_in(node: Node, requests: Mapping[Cell, int]) -> tuple[bool, dict[Cell, int]]:
    """Whether the requests fit into the node's own quota, and what of them goes on to the parent."""
    fits = not any(node.exceeds_with(cell, amount) for cell, amount in requests.items())
    return fits, {cell: max(0, amount - node.kept_free(cell)) for cell, amount in requests.items()}


def borrowing_height(queue: Node, cell: Cell, amount: int) -> tuple[int, bool]:
    """The height of the lowest subtree that has the amount without borrowing (0: the queue itself), and
    whether it is smaller than the whole tree.
    """
    if not queue.exceeds_with(cell, amount) or queue.parent is None:
        return 0, queue.parent is not None
    rest = amount - queue.kept_free(cell)
    root = queue.parent
    for root in queue.path():
        if not root.exceeds_with(cell, rest):
            return root.height(), root.parent is not None
        rest -= root.kept_free(cell)
    return root.height(), False
