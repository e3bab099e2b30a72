"""Who may reconcile a row: a lease by database time, fenced by a number. Alike on SQLite and PostgreSQL.

The fence protects our row, not Kubernetes: a worker that was paused past its lease may still call the
cluster, but its status can no longer be written, and what it applied is seen as drift.
"""

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    CharField,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    UUIDField,
)
from django.db.models.functions import Coalesce, Now

from apps.cluster.models import Reconciled
from apps.prepared import Prepared, PreparedUpdate

Row = TypeVar("Row", bound=Reconciled)
_PROCESSES = Path("/proc/self/ns/pid")
"""Names the numbering of processes that this one's number is of: containers have their own."""


@dataclass(frozen=True)
class Lease(Generic[Row]):
    """The right to write one row, until somebody else claims it with a higher fence; `row` as it was then."""

    row: Row
    token: str

    @property
    def fence(self) -> int:
        """The number that makes an older lease void."""
        return self.row.fence

    def save(self, values: Mapping[str, Any]) -> bool:
        """Write these columns in one UPDATE that checks the fence; False when the lease is lost (nothing
        written). A `due_at` that somebody else set meanwhile (`poke`) stays.
        """
        written = _written(type(self.row), tuple(values))
        return bool(written(self.row.pk, self.fence, self.token, *values.values()))

    def release(self, values: Mapping[str, Any] | None = None) -> bool:
        """`save` and give the row back, in the same UPDATE; False when the lease was lost before."""
        return self.save({**(values or {}), "lease_owner": "", "lease_until": None})


@cache
def _written(model: type[Reconciled], names: tuple[str, ...]) -> PreparedUpdate:
    def build(pk: Any, fence: Any, token: Any, *places: Any) -> tuple[Any, dict[str, Any]]:
        values = dict(zip(names, places, strict=True))
        if "due_at" in values:
            values["due_at"] = Coalesce(F("due_at"), values["due_at"])
        return model._default_manager.filter(pk=pk, fence=fence, lease_owner=token), values

    columns: list[Any] = [model._meta.get_field(name) for name in names]
    return PreparedUpdate(build, UUIDField(), BigIntegerField(), CharField(), *columns)


def this_process() -> str:
    """Who claims, as `is_dead` reads it: machine, numbering and number of this process."""
    return f"{_here()}{os.getpid()}"


def _here() -> str:
    numbering = _PROCESSES.stat().st_ino if _PROCESSES.exists() else ""
    return f"{socket.gethostname()[:30]}:{numbering}:"


def is_dead(owner: str) -> bool:
    """Whether whoever holds a lease is a process of this machine that is no more; False where that cannot be
    told from here.
    """
    name, _, _ = owner.partition("#")
    number = name.removeprefix(_here())
    if number == name or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it lives, as somebody else's
    return False


def end_of_dead(model: type[Reconciled], pk: UUID | str | None = None) -> int:
    """End the leases that dead processes of this machine hold, of all rows or of one, so that nobody waits
    until they run out; answers how many.

    RULE: the fence makes it safe: were a holder alive after all, its result would be lost and looked for
    anew.
    """
    found = _held(model)(_here()) if pk is None else _held_row(model)(_here(), pk)
    dead = list(filter(is_dead, found))
    if not dead:
        return 0
    # A moment ago: the sweep that asks has looked at its clock before.
    past = ExpressionWrapper(Now() - timedelta(seconds=1), output_field=DateTimeField())
    rows = model._default_manager.filter(lease_until__gt=Now(), lease_owner__in=dead)
    return rows.update(lease_until=past)


def _holders(model: type[Reconciled], here: Any) -> QuerySet[Any, str]:
    rows = model._default_manager.filter(lease_until__gt=Now(), lease_owner__startswith=here)
    return rows.values_list("lease_owner", flat=True)


@cache
def _held(model: type[Reconciled]) -> Prepared[str]:
    return Prepared(lambda here: _holders(model, here), CharField())


@cache
def _held_row(model: type[Reconciled]) -> Prepared[str]:
    return Prepared(lambda here, pk: _holders(model, here).filter(pk=pk), CharField(), UUIDField())


def claim(
    model: type[Row], pk: UUID | str, *, owner: str, seconds: int, related: Sequence[str] = ("cluster",)
) -> Lease[Row] | None:
    """Take the row for `seconds` if nobody holds it, judged by the database's clock; None if somebody does.
    It is read with its `related` rows.

    A row that is gone has no work left, unless something of it was seen in the cluster again: then it is due;
    or the worker that looked at it then died: its lease is over, and somebody has to end it.
    One conditional UPDATE. It also clears `due_at`: a date set after it (by `poke`) means that something
    happened while the row was held.
    """
    token = f"{owner[:50]}#{secrets.token_hex(5)}"
    if not _claiming(model)(pk, token, timedelta(seconds=seconds)):
        return None
    taken = _taken(model, tuple(related)).first(pk, token)
    return Lease(taken, token) if taken else None


@cache
def _claiming(model: type[Reconciled]) -> PreparedUpdate:
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=Now())
    wanted = Q(deleted_at=None) | Q(due_at__lte=Now()) | Q(lease_until__lte=Now())

    def build(pk: Any, token: Any, time: Any) -> tuple[Any, dict[str, Any]]:
        until = ExpressionWrapper(Now() + time, output_field=DateTimeField())
        values = {"lease_owner": token, "lease_until": until, "fence": F("fence") + 1, "due_at": None}
        return model._default_manager.filter(free, wanted, pk=pk), values

    return PreparedUpdate(build, UUIDField(), CharField(), DurationField())


@cache
def _taken(model: type[Row], related: tuple[str, ...]) -> Prepared[Row]:
    rows = model._default_manager.select_related(*related)
    return Prepared(lambda pk, token: rows.filter(pk=pk, lease_owner=token), UUIDField(), CharField())


def poke(model: type[Reconciled], pk: UUID | str) -> None:
    """Note on a row that another worker holds that it must be looked at once more."""
    model._default_manager.filter(pk=pk, deleted_at=None).update(due_at=Now())
