"""How a trace goes on from a request to the worker that brings its row into the cluster: decision 0176.

A hint may be lost and one reconcile may serve many requests, so the trace lies on the row, beside the
generation that it asked for: `<generation> <traceparent>`, a line for each, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from apps.web import spans
from apps.web.spans import Begin, Span

if TYPE_CHECKING:
    # Celery's application reads this before Django's models may be read.
    from apps.cluster.models import Reconciled

MOST = 4
"""Requests that a row remembers; of more that met in one reconcile the oldest are left out."""


class Asked(NamedTuple):
    """A generation, and the request that asked for it."""

    generation: int
    traceparent: str


def read(text: str) -> list[Asked]:
    """The column `traces`, the newest first."""
    lines = (line.split(" ") for line in text.splitlines())
    return [Asked(int(generation), traceparent) for generation, traceparent in lines]


def written(asked: Iterable[Asked]) -> str:
    """The column `traces`."""
    return "\n".join(f"{each.generation} {each.traceparent}" for each in list(asked)[:MOST])


def note(model: type[Reconciled], pk: UUID | str, owner: str) -> None:
    """The span under way asked for what the row has now. Two statements, in the transaction that wrote it.

    RULE: what is in the cluster already is forgotten; what is not yet stays beside it, for one reconcile will
    bring both.
    """
    trace, columns = spans.current(), ("generation", "observed_generation", "traces")
    row = model._default_manager.filter(pk=pk).values_list(*columns).first()
    if row is None:
        return
    generation, observed, known = row
    others = [each for each in read(known) if each.generation > observed and each.traceparent != trace]
    model._default_manager.filter(pk=pk).update(traces=written([Asked(generation, trace), *others]))
    spans.event("wrote", _about(owner, pk) | {"allotment.generation": generation})


def turn(row: Reconciled, owner: str) -> AbstractContextManager[Span]:
    """One reconcile of a row, as it was read.

    RULE: it is part of the trace of the newest request whose wish it tries, and linked to the others. What
    comes by itself later (an echo of the cluster, a date, drift) is a trace of its own, linked to the last
    request: else that of a notebook would go on for weeks.
    """
    known = read(row.traces)
    met = [each.traceparent for each in known if each.generation > row.observed_generation]
    parent, links = (met[0], met[1:]) if met else ("", [each.traceparent for each in known[:1]])
    about = _about(owner, row.pk) | _of_row(row, owner)
    return spans.span(Begin(f"reconcile {owner}", about, "consumer", parent, links))


def seen(row: Reconciled, owner: str, what: str) -> None:
    """The cluster has come to what was asked for last: a moment in that request's trace."""
    asked = next(iter(read(row.traces)), None)
    if asked is not None and asked.generation == row.generation:
        with spans.span(Begin(f"{owner} {what}", _about(owner, row.pk), parent=asked.traceparent)):
            pass


def _about(owner: str, pk: UUID | str) -> dict[str, Any]:
    return {"allotment.owner": owner, "allotment.id": str(pk)}


def _of_row(row: Reconciled, owner: str) -> dict[str, Any]:
    """RULE: nothing is asked of the database for it."""
    tenant = row if owner == "tenant" else row._state.fields_cache.get("tenant")
    known = {"allotment.kind": getattr(row, "kind", ""), "allotment.tenant": getattr(tenant, "slug", "")}
    given: dict[str, Any] = {name: str(value) for name, value in known.items() if value}
    return given | {"allotment.generation": row.generation, "allotment.cluster": row.cluster.slug}
