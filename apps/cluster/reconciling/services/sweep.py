"""Which rows need a reconcile although nobody said so: the safety net under every hint."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import transaction
from django.db.models import BooleanField, DateTimeField, ExpressionWrapper, F, Q, QuerySet, UUIDField
from django.db.models.functions import Now

from apps.cluster.models import Cluster, Reconciled
from apps.cluster.reconciling.services import lease as leases
from apps.cluster.reconciling.services import wake
from apps.prepared import Prepared

Owner = tuple[str, str]
"""A row's kind as its label `allotment.dev/owner` says it, and its id."""

ROWS = wake.ROWS
"""See there."""


def due(model: type[Reconciled], now: datetime, limit: int = 200) -> list[UUID]:
    """The rows whose wish has not reached the cluster, whose date has come, or whose worker died; oldest
    date first.

    A row that failed waits for its back-off. A row that a living worker holds is never due, and one that is
    gone only where something of it was seen again (`note`).
    """
    return _due(model, limit)(now)


@cache
def _due(model: type[Reconciled], limit: int) -> Prepared[UUID]:
    def build(now: Any) -> QuerySet[Any, UUID]:
        free = _free(model, now).order_by(F("due_at").asc(nulls_first=True))
        return free.values_list("pk", flat=True)[:limit]

    return Prepared(build, DateTimeField())


def backlog(model: type[Reconciled], now: datetime, most: int) -> int:
    """How many rows of a model are due (see `due`), counted no further than `most`."""
    return _free(model, now).order_by()[:most].count()


def _free(model: type[Reconciled], now: Any) -> QuerySet[Reconciled]:
    """Each kind of being due is asked for by itself: for an OR SQLite reads every row that ever was."""
    rows = model._default_manager
    wanted = (_untried(), Q(due_at__lte=now), Q(lease_until__lte=now))
    untried, dated, orphaned = (rows.filter(each).values("pk") for each in wanted)
    return rows.filter(pk__in=untried.union(dated, orphaned)).exclude(lease_until__gt=now)


class News(StrEnum):
    """What a hint about a row tells."""

    NONE = "none"
    DUE = "due"
    WISH = "wish"
    """What somebody asked for has not been tried yet."""


def news(model: type[Reconciled], pk: UUID | str) -> News:
    """What is new of a row that was hinted, judged by the database's clock.

    RULE: whatever a hint is about is in the row before the hint is sent: a generation that nobody has
    observed, a date (`note`), or the lease of a worker that died. So of many hints for one change the first
    does it all. Whoever holds the row looks at both as it gives the row back (`frame`): while it lives, a
    hint tells nothing.
    """
    told = _told(model).first(pk)
    if told is None or (told[1] and not leases.is_dead(told[2])):
        return News.NONE
    return News.WISH if told[0] else News.DUE


@cache
def _told(model: type[Reconciled]) -> Prepared[tuple[bool, bool | None, str]]:
    unmet = ~Q(generation=F("observed_generation")) & Q(deleted_at=None)
    rows = model._default_manager.filter(unmet | Q(due_at__lte=Now()) | Q(lease_until__lte=Now()))
    is_wish = ExpressionWrapper(_untried(), output_field=BooleanField())
    heads = rows.annotate(is_wish=is_wish, is_held=is_so(lease_until__gt=Now()))
    values = heads.values_list("is_wish", "is_held", "lease_owner")
    return Prepared(lambda pk: values.filter(pk=pk), UUIDField())


def _untried() -> Q:
    return ~Q(generation=F("observed_generation")) & Q(attempts=0, deleted_at=None)


def untried(model: type[Reconciled], besides: UUID | str, limit: int) -> list[UUID]:
    """Other rows whose wish nobody has tried to bring into the cluster, or tries now; those that changed last
    come last. Their model needs an index for that.
    """
    return _waiting(model, limit)(besides)


@cache
def _waiting(model: type[Reconciled], limit: int) -> Prepared[UUID]:
    rows = model._default_manager.filter(_untried()).exclude(lease_until__gt=Now()).order_by("updated_at")
    pks = rows.values_list("pk", flat=True)
    return Prepared(lambda besides: pks.exclude(pk=besides)[:limit], UUIDField())


def hint_due(model: type[Reconciled], owner: str, now: datetime, limit: int = 200) -> int:
    """Hint every due row of a model, those included that a dead process of this machine holds; answers how
    many. What each app's periodic calls.

    RULE: never before what a person asks for now, however many are due.
    """
    leases.end_of_dead(model)
    rows = due(model, now, limit)
    for pk in rows:
        wake.hint(owner, pk, urgent=False)
    return len(rows)


def note(owners: Iterable[Owner]) -> None:
    """The cluster changed something of these rows: each is due now, and hinted where `mark` says so."""
    hint_noted(mark(owners))


def mark(owners: Iterable[Owner]) -> list[Owner]:
    """As `note`; answers the rows that the caller has to hint (`hint_noted`).

    RULE: called in the transaction that stores the change, so a hint that is lost loses nothing. A row that
    was due before has its hint under way, and one that a worker holds is hinted by that worker as it gives
    the row back: a start is a burst of a dozen changes, and each hint costs as much as a look. A row that is
    gone is due as well: a worker that slept past its lease may have applied once more. Ids come off labels
    that anybody may write; what is no id of ours is passed over.
    """
    return [(owner, str(pk)) for owner, pks in sorted(_by_kind(owners).items()) for pk in _mark(owner, pks)]


def note_living(owners: Iterable[Owner]) -> None:
    """As `note`, but for rows that are gone: nothing is applied for them again."""
    living: list[Owner] = []
    for owner, pks in _by_kind(owners).items():
        model: type[Reconciled] = apps.get_model(ROWS[owner])
        rows = model._default_manager.filter(pk__in=pks, deleted_at=None)
        living += [(owner, str(pk)) for pk in rows.values_list("pk", flat=True)]
    note(living)


def _mark(owner: str, pks: list[UUID]) -> list[UUID]:
    """RULE: locked before they are judged, or a worker that takes one in the same moment would see neither
    the change nor the date; and in one order, or two who note the same rows wait for each other.
    """
    model: type[Reconciled] = apps.get_model(ROWS[owner])
    with transaction.atomic(savepoint=False):
        fresh = [(pk, is_held) for pk, is_due, is_held in _locked(model)(pks) if not is_due]
        if fresh:
            model._default_manager.filter(pk__in=[pk for pk, _ in fresh]).update(due_at=Now())
    return [pk for pk, is_held in fresh if not is_held]


@cache
def _locked(model: type[Reconciled]) -> Prepared[tuple[UUID, bool, bool]]:
    rows = model._default_manager.order_by("pk").select_for_update(no_key=True)
    heads = rows.annotate(is_due=is_so(due_at__lte=Now()), is_held=is_so(lease_until__gt=Now()))
    return Prepared(lambda pks: heads.filter(pk__in=pks).values_list("pk", "is_due", "is_held"), UUIDField())


def is_so(**looked_up: Any) -> "ExpressionWrapper[Any]":
    """A lookup as a column, judged by the database; None where its field is."""
    return ExpressionWrapper(Q(**looked_up), output_field=BooleanField(null=True))


def hint_noted(owners: Iterable[Owner]) -> None:
    """Hint rows that were noted."""
    for owner, pks in _by_kind(owners).items():
        for pk in pks:
            wake.hint(owner, pk, urgent=False)


def _by_kind(owners: Iterable[Owner]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for owner, text in owners:
        if owner in ROWS and (pk := _id(text)):
            found.setdefault(owner, []).append(pk)
    return found


def _id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def begin_anew(cluster: Cluster) -> None:
    """Nothing is known of the cluster any more: every row of it is due."""
    for label in ROWS.values():
        model: type[Reconciled] = apps.get_model(label)
        model._default_manager.filter(cluster=cluster, deleted_at=None).update(due_at=Now())


def recover(cluster: Cluster, now: datetime) -> int:
    """The cluster answers again: every row that failed meanwhile is due now and hinted; answers how many.

    RULE: the failures of the outage no longer count. A server that has just started refuses this or that for
    a few seconds more, and a row that waited for a minute then would be the last to notice.
    """
    hinted = 0
    for owner, failed in _failed(cluster):
        rows = list(failed.values_list("pk", flat=True))
        failed.update(due_at=now, attempts=1)
        for pk in rows:
            wake.hint(owner, pk, urgent=False)
        hinted += len(rows)
    return hinted


def spread(cluster: Cluster, now: datetime) -> None:
    """What kept a row out of the cluster let it in: rows that wait for their back-off try at once.

    RULE: the first that is let in wakes all; those that follow it find nobody who still waits.
    """
    if any(failed.filter(due_at__gt=now).exists() for _, failed in _failed(cluster)):
        recover(cluster, now)


def _failed(cluster: Cluster) -> Iterator[tuple[str, QuerySet[Reconciled]]]:
    """By row kind."""
    for owner, label in ROWS.items():
        model: type[Reconciled] = apps.get_model(label)
        yield owner, model._default_manager.filter(cluster=cluster, deleted_at=None, attempts__gt=0)
