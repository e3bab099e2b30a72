"""Random schedules of people, hints, watches and time over one small fleet, and what must hold at the end.

Hints are lost, repeated and reordered at will; the kinds' watches tell in any order. At the end nothing but
the sweep works, and every row must stand where its last generation says.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from apps.cluster.objects.kinds import KINDS
from apps.cluster.objects.names import ANNOTATION_GENERATION
from apps.errors import DomainError
from apps.workloads.manifests import rendering
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase
from tests.drills.door import Write, nothing
from tests.drills.dump import difference, dump, duplicates, orphans
from tests.drills.world import Ask, World
from tests.tenants.in_process import resource

OFFERS = ("h100-1g-10gb", "h100-3g-40gb", "h100-whole")
VERBS = ("stop", "resume", "extend", "delete")
MOST_ROWS = 4
ANY = st.integers(min_value=0, max_value=10**6)
KIND, OFFER, SECONDS = st.sampled_from(("notebook", "job")), st.sampled_from(OFFERS), st.integers(1, 90)


class Schedule(RuleBasedStateMachine):
    """One schedule; `make` builds its world, `totals` counts over all schedules what happened in them.

    What may be drawn depends on what was drawn alone: ids are random, so hints stand in another order when
    a schedule is run again.
    """

    make: ClassVar[Callable[[], World]]
    totals: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self._undone = transaction.atomic()
        self._undone.__enter__()
        self.rows: list[Workload] = []

    @initialize(kind=KIND, offer=OFFER, seconds=SECONDS)
    def begin(self, kind: str, offer: str, seconds: int) -> None:
        """A schedule without a row would show nothing."""
        self.world = type(self).make()
        self._submit(kind, offer, seconds)

    @precondition(lambda self: len(self.rows) < MOST_ROWS)
    @rule(kind=KIND, offer=OFFER, seconds=SECONDS)
    def submit(self, kind: str, offer: str, seconds: int) -> None:
        self._submit(kind, offer, seconds)

    @rule(which=ANY, verb=st.sampled_from(VERBS))
    def act(self, which: int, verb: str) -> None:
        self._act(which, verb)

    @rule(which=ANY, times=st.integers(1, 3))
    def deliver_a_hint(self, which: int, times: int) -> None:
        if not self.world.hints:
            return
        owner, pk = self.world.hints.pop(which % len(self.world.hints))
        for _ in range(times):
            self.world.reconcile(owner, pk)

    @rule()
    def lose_every_hint(self) -> None:
        self.world.hints.clear()

    @rule()
    def tell_everything(self) -> None:
        self.world.watch.deliver()

    @rule(which=ANY)
    def tell_of_one_kind(self, which: int) -> None:
        if pending := self.world.watch.pending:
            self.world.watch.deliver(pending[which % len(pending)].kind)

    @rule(seconds=st.integers(1, 30))
    def wait(self, seconds: int) -> None:
        self.world.manager.advance(seconds)

    @rule()
    def sweep(self) -> None:
        self.world.sweep()

    @rule(which=ANY)
    def reconcile_for_nothing(self, which: int) -> None:
        self.world.reconcile("workload", self.rows[which % len(self.rows)].pk)

    @rule(which=ANY, verb=st.sampled_from(VERBS))
    def act_while_a_worker_is_at_it(self, which: int, verb: str) -> None:
        """The person comes between the worker's first call and its status."""
        once = [verb]

        def interrupt(write: Write) -> None:
            if once:
                self._act(which, once.pop())

        self.world.gateway.before = interrupt
        self.world.reconcile("workload", self.rows[which % len(self.rows)].pk)
        self.world.gateway.before = nothing
        self.totals["acted while a worker was at it"] += not once

    def teardown(self) -> None:
        try:
            self.world.settle_deaf()
            self._check()
            self.totals["schedules"] += 1
        finally:
            transaction.set_rollback(True)
            self._undone.__exit__(None, None, None)

    def _submit(self, kind: str, offer: str, seconds: int) -> None:
        ask = Ask(f"w{len(self.rows)}", kind=kind, offer=offer, seconds=seconds)
        self.rows.append(self.world.submit(ask))

    def _act(self, which: int, verb: str) -> None:
        row = self.rows[which % len(self.rows)]
        try:
            self.world.act(verb, row, **({"seconds": 600} if verb == "extend" else {}))
        except DomainError:
            self.totals["refused"] += 1

    def _check(self) -> None:
        assert duplicates(self.world) == []
        assert orphans(self.world) == []
        for row in self.rows:
            row.refresh_from_db()
            assert where_it_stands(self.world, row) == where_it_should(row), row.slug
        self._nothing_was_missed()

    def _nothing_was_missed(self) -> None:
        """Looking at everything anew changes nothing and calls nothing."""
        before, calls = [dump(self.world, row) for row in self.rows], len(self.world.gateway.writes)
        self.world.watch.relist()
        for row in self.rows:
            self.world.reconcile("workload", row.pk)
        after = [dump(self.world, row) for row in self.rows]
        assert difference(after, before) == []
        assert [write.point for write in self.world.gateway.writes[calls:]] == []


def where_it_should(row: Workload) -> dict[str, Any]:
    """What the last thing that people asked for means, once everything has come to rest."""
    if row.deleting_at:
        return {"gone": True, "there": False, "synced": True, "generation": None, "phase": True}
    runs = not row.suspended
    finished = Phase(row.phase).is_final
    return {
        "gone": False,
        "there": runs or finished,
        "synced": True,
        "generation": str(row.generation) if runs and not finished else None,
        "phase": True,
    }


def where_it_stands(world: World, row: Workload) -> dict[str, Any]:
    """The same, as cluster and row have it."""
    kind = rendering.controller_kind(Kind(row.kind))
    body = world.door.client.get(resource(KINDS[kind].kind), row.object_name, world.tenant.object_name)
    final = Phase(row.phase).is_final
    wanted = not row.suspended and row.deleting_at is None and not final
    resting = {Phase.STOPPED} if row.suspended and not final else {Phase.SUCCEEDED, Phase.FAILED}
    moving = {Phase.PENDING, Phase.STARTING, Phase.RUNNING}
    fits = {Phase.DELETING} if row.deleting_at else moving if wanted else resting
    return {
        "gone": row.deleted_at is not None,
        "there": body is not None,
        "synced": row.deleted_at is not None or row.observed_generation == row.generation,
        "generation": body["metadata"]["annotations"][ANNOTATION_GENERATION] if body and wanted else None,
        "phase": Phase(row.phase) in fits,
    }
