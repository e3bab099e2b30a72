"""The frame of every reconcile: lease, load, run the app's body, one fenced write, hint again if the row
moved.

Level-triggered: it may run at any time, any number of times. What a row should look like is the body's
business.
"""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import UUIDField
from django.db.models.functions import Now
from django.utils import timezone
from prometheus_client import Counter, Histogram

from apps.cluster.errors import WEBHOOK_AWAY, Rejected, Unreachable
from apps.cluster.gateway.port import Gateway, open_gateway
from apps.cluster.models import Reconciled
from apps.cluster.objects.conditions import SYNCED, condition, find, merge
from apps.cluster.reconciling.services import lease as leases
from apps.cluster.reconciling.services import sweep, traced, wake
from apps.cluster.reconciling.services.converge import Outcome
from apps.prepared import Prepared
from apps.web.spans import Span
from apps.web.stores import outage

RUNS = Counter("allotment_reconciles_total", "Reconciles by row kind and result.", ["owner", "result"])
SECONDS = Histogram(
    "allotment_reconcile_seconds",
    "How long a reconcile took, from its lease to its stored result.",
    ["owner"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0),
)

HELD = "Nothing is written to its cluster until a platform engineer has reviewed the backup that was loaded."
_LONGEST_BACK_OFF = 60.0
_AT_A_WEBHOOK = 8.0
_FEW = 24
_log = logging.getLogger(__name__)
Row = TypeVar("Row", bound=Reconciled)


@dataclass(frozen=True)
class Result:
    """What a body found. `conditions` are facts (see `conditions.condition`) besides Synced, which comes
    from `outcome`.

    `updates` are further columns to write, `lines` new rows of its story that stand or fall with them,
    `due_at` when to look again (None: only when something changes), `done` that nothing of a row being
    deleted is left in the cluster: then there is no such date.
    """

    conditions: Sequence[dict[str, str]] = ()
    outcome: Outcome | None = None
    updates: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[models.Model] = ()
    due_at: datetime | None = None
    done: bool = False


Body = Callable[[Row, Gateway, datetime], Result]


def run_reconcile(
    model: type[Row],
    pk: UUID | str,
    body: Body[Row],
    *,
    owner: str,
    gateway: Gateway | None = None,
    related: Sequence[str] = ("cluster",),
) -> Row | None:
    """Bring one row and the cluster together; `owner` is the row's kind as in `wake.TASKS`, `related`
    what the body reads of other rows. Answers the row as it was stored; None where nothing was.

    A row that another worker holds is poked instead, so that nothing seen meanwhile is lost. An unreachable
    cluster and a refusal become the condition Synced=False in the cluster's own words, tried again after 1,
    2, 4 .. 60 s. Nobody says that a webhook answers again: while few rows wait for one, each tries it every
    8 s at most, of many one does by chance, and the first that it lets in wakes all. Where the database goes
    away meanwhile, the row is given back as soon as it answers.
    """
    lease = _claim(model, pk, related) or _poke_or_claim(model, pk, related)
    if lease is None:
        RUNS.labels(owner, "held").inc()
        return None
    row = lease.row
    try:
        values, kept = _turn(lease, body, gateway, owner)
    except outage.AWAY as error:
        # The lease would keep the row from everybody until it runs out; what was applied is applied again.
        if outage.outlive(error) and lease.release({"due_at": timezone.now()}):
            wake.hint(owner, row.pk)
            return None
        raise
    RUNS.labels(owner, _word(kept=kept, values=values)).inc()
    if not kept:
        # We slept past the lease: what we applied may be older than what our successor did.
        sweep.note([(owner, str(row.pk))])
        return None
    if _is_let_in(row, values):
        sweep.spread(row.cluster, timezone.now())
    is_asked, is_noted = _moved(model, row)
    if is_asked or is_noted:
        wake.hint(owner, row.pk, urgent=is_asked)
    for name, value in values.items():
        setattr(row, name, value)
    return row


def _turn(
    lease: leases.Lease[Row], body: Body[Row], gateway: Gateway | None, owner: str
) -> tuple[dict[str, Any], bool]:
    """Look once, and store it: the columns, and whether the lease was still ours to write them."""
    row, now = lease.row, timezone.now()
    with SECONDS.labels(owner).time(), traced.turn(row, owner) as span:
        values, lines = _attempt(row, body, now, gateway)
        values |= _touch(row, values, now)
        with transaction.atomic():
            kept = lease.release(values)
            for line in lines if kept else ():
                line.save(force_insert=True)
        _came_to(span, values, kept=kept)
    return values, kept


def _came_to(span: Span, values: Mapping[str, Any], *, kept: bool) -> None:
    fact = find(values["conditions"], SYNCED)
    reason = fact["reason"] if fact else ""
    word = _word(kept=kept, values=values)
    known = {"outcome": word, "attempts": values["attempts"], "reason": reason}
    span.set({f"allotment.{name}": value for name, value in known.items()})
    if word != "done":
        span.fail(reason if kept else word)


def _claim(model: type[Row], pk: UUID | str, related: Sequence[str]) -> leases.Lease[Row] | None:
    seconds = settings.CONFIG.lease_seconds
    return leases.claim(model, pk, owner=leases.this_process(), seconds=seconds, related=related)


def _poke_or_claim(model: type[Row], pk: UUID | str, related: Sequence[str]) -> leases.Lease[Row] | None:
    """Tell the holder to look again. It may have let go just before it could hear, or be dead: then the row
    is ours.
    """
    leases.poke(model, pk)
    leases.end_of_dead(model, pk)
    return _claim(model, pk, related)


def _attempt(
    row: Row, body: Body[Row], now: datetime, gateway: Gateway | None
) -> tuple[dict[str, Any], Sequence[models.Model]]:
    """The columns to write and the lines that go with them."""
    if row.cluster.held_since is not None:
        return _failed(row, now, "ClusterHeld", HELD), ()
    try:
        result = body(row, gateway or open_gateway(row.cluster), now)
        return _succeeded(row, result, now), result.lines
    except Unreachable as error:
        wait = getattr(error, "retry_after", 0.0)
        return _failed(row, now, error.reason, error.detail, at_least=wait), ()
    except Rejected as error:
        return _failed(row, now, error.reason, error.message), ()
    except outage.AWAY:
        raise  # nothing can be stored of it
    except Exception as error:  # noqa: BLE001 - the row must say so and be tried again; the trace is in the log
        _log.exception("reconcile of %s %s", row._meta.label, row.pk)
        return _failed(row, now, "InternalError", f"The reconcile itself failed: {error}"), ()


def _succeeded(row: Reconciled, result: Result, now: datetime) -> dict[str, Any]:
    outcome = result.outcome or Outcome()
    synced, due_at, attempts = _synced(outcome), result.due_at, 0
    if not outcome.is_complete:
        attempts = row.attempts + 1
        due_at = min(filter(None, (due_at, now + _back_off(row.attempts))))
    values: dict[str, Any] = {
        **result.updates,
        "conditions": merge(row.conditions, [synced, *result.conditions], generation=row.generation, now=now),
        "observed_generation": row.generation if outcome.is_complete else row.observed_generation,
        "attempts": attempts,
        "due_at": max(due_at, now + timedelta(seconds=1)) if due_at else None,
    }
    if result.done and row.deleting_at:
        # At rest: a date would be kept for ever, and each sweep would come by.
        return values | {"deleted_at": row.deleted_at or now, "due_at": None}
    return values


def _synced(outcome: Outcome) -> dict[str, str]:
    if outcome.failures:
        first = outcome.failures[0]
        return condition(SYNCED, False, first.reason, f"{first.ref}: {first.message}")
    if outcome.waiting:
        names = ", ".join(map(str, outcome.waiting))
        return condition(SYNCED, False, "Terminating", f"Waits until the old {names} is gone.")
    return condition(SYNCED, True, "Applied", "The cluster holds what was asked for.")


def _failed(
    row: Reconciled, now: datetime, reason: str, words: str, *, at_least: float = 0.0
) -> dict[str, Any]:
    fact = condition(SYNCED, False, reason, words)
    longest = _AT_A_WEBHOOK if reason == WEBHOOK_AWAY and _are_few(row) else _LONGEST_BACK_OFF
    return {
        "conditions": merge(row.conditions, [fact], generation=row.generation, now=now),
        "attempts": row.attempts + 1,
        "due_at": now + max(_back_off(row.attempts, longest), timedelta(seconds=at_least)),
    }


def _back_off(attempts: int, longest: float = _LONGEST_BACK_OFF) -> timedelta:
    """1, 2, 4 .. 60 seconds, each by chance up to a half shorter, so that many rows do not come back
    together.
    """
    return timedelta(seconds=min(longest, 2.0 ** min(attempts, 10)) * random.uniform(0.5, 1.0))


def _are_few(row: Reconciled) -> bool:
    """Whether so few rows of its kind failed in its cluster that each may come back often."""
    failed = type(row)._default_manager.filter(cluster=row.cluster, deleted_at=None, attempts__gt=0)
    return failed.order_by()[:_FEW].count() < _FEW


def _is_let_in(row: Reconciled, values: Mapping[str, Any]) -> bool:
    """Whether a webhook kept it out the last time, and lets it in now; what is deleted needs no webhook."""
    was, is_now = (find(conditions, SYNCED) for conditions in (row.conditions, values["conditions"]))
    is_kept_out = was is not None and was["reason"] == WEBHOOK_AWAY and row.deleting_at is None
    return is_kept_out and is_now is not None and is_now["status"] == "True"


def _touch(row: Reconciled, values: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """`updated_at` moves with what people see, not with dates and counts of the machinery."""
    machinery = {"due_at", "attempts", "observed_generation"}
    seen = [name for name in values if name not in machinery and getattr(row, name) != values[name]]
    return {"updated_at": now} if seen and hasattr(row, "updated_at") else {}


def _moved(model: type[Row], row: Row) -> tuple[bool, bool]:
    """Whether people changed the row while we held it, and whether it is due again: poked, or noted."""
    generation, is_due = _fresh(model).first(row.pk) or (row.generation, False)
    return generation != row.generation, bool(is_due)


@cache
def _fresh(model: type[Row]) -> Prepared[tuple[int, bool | None]]:
    rows = model._default_manager.annotate(is_due=sweep.is_so(due_at__lte=Now()))
    fresh = rows.values_list("generation", "is_due")
    return Prepared(lambda pk: fresh.filter(pk=pk), UUIDField())


def _word(*, kept: bool, values: Mapping[str, Any]) -> str:
    if not kept:
        return "lease lost"
    return "failed" if values["attempts"] else "done"
