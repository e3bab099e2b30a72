"""Who may reconcile a row: a lease by database time, fenced by a number. Alike on SQLite and PostgreSQL.

The fence protects our row, not Kubernetes: a worker that was paused past its lease may still call the
cluster, but its status can no longer be written, and what it applied is seen as drift.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import DateTimeField, ExpressionWrapper, F, Q, Value
from django.db.models.functions import Now

from apps.cluster.models import Reconciled

Row = TypeVar("Row", bound=Reconciled)


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
        written).
        """
        return bool(self._rows().update(**values))

    def release(self, values: Mapping[str, Any] | None = None) -> bool:
        """`save` and give the row back, in the same UPDATE; False when the lease was lost before."""
        return self.save({**(values or {}), "lease_owner": "", "lease_until": None})

    def _rows(self) -> Any:
        rows = type(self.row)._default_manager
        return rows.filter(pk=self.row.pk, fence=self.fence, lease_owner=self.token)


def claim(
    model: type[Row], pk: UUID | str, *, owner: str, seconds: int, related: Sequence[str] = ("cluster",)
) -> Lease[Row] | None:
    """Take the row for `seconds` if nobody holds it, judged by the database's clock; None if somebody does.
    It is read with its `related` rows.

    A row that is gone has no work left, unless something of it was seen in the cluster again: then it is due.
    One conditional UPDATE. It also clears `due_at`: a date set after it (by `poke`) means that something
    happened while the row was held.
    """
    token = f"{owner[:50]}#{secrets.token_hex(5)}"
    until = ExpressionWrapper(Now() + Value(timedelta(seconds=seconds)), output_field=DateTimeField())
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=Now())
    wanted = Q(deleted_at=None) | Q(due_at__lte=Now())
    rows = model._default_manager.filter(pk=pk)
    if not rows.filter(free, wanted).update(
        lease_owner=token, lease_until=until, fence=F("fence") + 1, due_at=None
    ):
        return None
    taken = rows.filter(lease_owner=token).select_related(*related).first()
    return Lease(taken, token) if taken else None


def poke(model: type[Reconciled], pk: UUID | str) -> None:
    """Note on a row that another worker holds that it must be looked at once more."""
    model._default_manager.filter(pk=pk, deleted_at=None).update(due_at=Now())
