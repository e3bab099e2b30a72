"""Runs a plan against a cluster and writes the answers into the mirror, so that nobody waits for an echo."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, groupby
from typing import TypeVar

from apps.cluster.errors import Conflict, Rejected
from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.selectors.differing import taken
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.kinds import APPLIED, KINDS
from apps.cluster.reconciling.rules.plan import Apply, Delete, Plan, Why
from apps.cluster.reconciling.services import drift_book
from apps.cluster.specs import Body, ObjectRef, Observed

MOST_FORCES = 3
FORCE_WINDOW = timedelta(minutes=10)
_PARALLEL = 12

Step = TypeVar("Step", Apply, Delete)


@dataclass(frozen=True)
class Failure:
    """One object that the cluster refused, in the cluster's words."""

    ref: ObjectRef
    reason: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """What a plan led to. `waiting`: objects still being deleted that have to be applied again once gone;
    `answers`: what was applied, as the cluster answered.
    """

    applied: int = 0
    deleted: int = 0
    failures: tuple[Failure, ...] = ()
    waiting: tuple[ObjectRef, ...] = ()
    answers: Mapping[ObjectRef, Observed] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the cluster now holds all that the plan wanted."""
        return not self.failures and not self.waiting


def run(gateway: Gateway, cluster: Cluster, plan: Plan, *, now: datetime) -> Outcome:
    """Deletes first, then level by level; what stands in one level is called in parallel.

    A refusal is a `Failure` and ends the run after its level, because the next one builds on it.
    `Unreachable` is raised after the level; every answer that did come is in the mirror then. An object
    whose fields another manager took is applied with force, at most 3 times in 10 minutes: after that the
    two would only fight. What somebody changed or removed by hand is written into the book of drift.
    """
    going = _Run(gateway, cluster, now)
    deleted = going.delete(plan.deletes)
    # Before the first apply: once it is there again the watch no longer knows that it was gone.
    gone = taken(cluster, [step.ref for step in chain(*plan.levels) if step.why is Why.MISSING])
    try:
        for level in plan.levels:
            going.apply(level)
            if going.failures:
                break
    finally:
        answers = mirror_table.record_applied(cluster, going.done)
        going.keep_book(answers, gone)
    return Outcome(len(answers), deleted, tuple(going.failures), plan.waiting, answers)


@dataclass(frozen=True)
class _Run:
    gateway: Gateway
    cluster: Cluster
    now: datetime
    failures: list[Failure] = field(default_factory=list)
    done: list[mirror_table.Answer] = field(default_factory=list)
    drifted: set[ObjectRef] = field(default_factory=set)
    unrehearsed: dict[ObjectRef, Body] = field(default_factory=dict)
    """Of what drifted, as it was: a moment before its apply the cluster refused the rehearsal."""

    def delete(self, deletes: Sequence[Delete]) -> int:
        """Level after level in the plan's order: a right has ended before its account is touched."""
        levels = groupby(deletes, key=lambda step: KINDS[step.ref.kind].level)
        return sum(self._delete_level(list(steps)) for _, steps in levels)

    def _delete_level(self, deletes: Sequence[Delete]) -> int:
        for step in deletes:
            mirror_table.let_go(self.cluster, step.ref, uid=step.uid)
        answers = together(lambda step: self.gateway.delete(step.ref, uid=step.uid), deletes)
        for step, answer in answers:
            if isinstance(answer, Rejected):
                self.failures.append(Failure(step.ref, answer.reason, answer.message))
            elif answer is True and KINDS[step.ref.kind].watched:
                mirror_table.mark_deleting(self.cluster, step.ref, uid=step.uid)
            elif isinstance(answer, bool):
                # Of what nobody watches no other word comes.
                mirror_table.tombstone(self.cluster, step.ref, uid=step.uid, now=self.now)
        raise_first(answers)
        return sum(1 for _, answer in answers if not isinstance(answer, Exception))

    def apply(self, level: Sequence[Apply]) -> None:
        for step in level:
            if step.why is Why.DRIFTED:
                self._examine(step)
        answers = together(lambda step: self.gateway.apply(step.manifest), level)
        for step, answer in answers:
            settled = self._force(step, answer) if isinstance(answer, Conflict) else answer
            if isinstance(settled, dict):
                if live := self.unrehearsed.get(step.ref):
                    drift_book.compare(self.cluster, step, live, settled, now=self.now)
                self.done.append(mirror_table.Answer(step.ref.kind, settled, step.sent_hash))
            elif isinstance(settled, Rejected):
                self.failures.append(Failure(step.ref, settled.reason, settled.message))
        raise_first(answers)

    def keep_book(
        self, answers: Mapping[ObjectRef, Observed], gone: Mapping[ObjectRef, MirrorObject]
    ) -> None:
        """What of the drift is mended, and why the rest is not."""
        reasons = {each.ref: each.message for each in self.failures if each.ref in self.drifted}
        drift_book.put_back(self.cluster, self.drifted.intersection(answers), now=self.now)
        drift_book.returned(self.cluster, gone, answers, now=self.now)
        drift_book.stuck(self.cluster, reasons, now=self.now)

    def _examine(self, step: Apply) -> None:
        """RULE: only what the watch follows has lines. Of the rest our rights list nothing (Secrets), and the
        sweep could not tell its end.
        """
        if step.ref.kind in APPLIED:
            self.drifted.add(step.ref)
            if live := drift_book.examine(self.gateway, self.cluster, step, now=self.now):
                self.unrehearsed[step.ref] = live

    def _force(self, step: Apply, conflict: Conflict) -> Body | Rejected:
        """Take our fields back, unless that was done too often of late; any other conflict is just a
        refusal.
        """
        if not conflict.managers:
            return conflict
        if step.why is Why.CHANGED:
            self._examine(step)
        before = mirror_table.forces(self.cluster, step.ref)
        recent = [at for at in before if at > self.now - FORCE_WINDOW]
        if len(recent) >= MOST_FORCES:
            others = ", ".join(conflict.managers) or "another manager"
            words = f"{others} keeps changing fields that Allotment owns. {conflict.message}"
            return Rejected(409, "FieldConflict", words)
        try:
            answer = self.gateway.apply(step.manifest, force=True)
        except Rejected as error:
            return error
        mirror_table.note_forces(self.cluster, step.ref, [*recent, self.now])
        return answer


def together(
    call: Callable[[Step], Body | bool], steps: Sequence[Step]
) -> list[tuple[Step, Body | bool | Exception]]:
    """Every step's answer or error, in order. Only the calls run in threads; the database stays in this
    one.
    """

    def attempt(step: Step) -> Body | bool | Exception:
        try:
            return call(step)
        except Exception as error:  # noqa: BLE001 - raised again in the calling thread, or kept as a failure
            return error

    if len(steps) < 2:
        return [(step, attempt(step)) for step in steps]
    threads = _threads(os.getpid())
    # Each in a copy of this context: the log and a trace say what the calls belong to.
    others: list[Future[Body | bool | Exception]] = [
        threads.submit(copy_context().run, attempt, step) for step in steps[1:]
    ]
    try:
        first = attempt(steps[0])
    finally:
        # However this part ends, no call is still under way when the lease is given back.
        wait(others)
    return list(zip(steps, [first, *(other.result() for other in others)], strict=True))


@cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    """Those of this process: a worker that was forked has none of its parent's."""
    return ThreadPoolExecutor(max_workers=_PARALLEL, thread_name_prefix="apply")


def raise_first(answers: Sequence[tuple[Step, Body | bool | Exception]]) -> None:
    """Anything but a refusal: the cluster does not answer, or a mistake of ours."""
    for _, answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, Rejected):
            raise answer
