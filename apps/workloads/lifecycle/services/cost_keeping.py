"""Keeps what metering found of workloads' cost, and tells their pages."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet, UUIDField

from apps.prepared import Prepared, PreparedUpdate
from apps.workloads.changes.services import telling
from apps.workloads.models import Workload
from apps.workloads.specs import Usage

AT_ONCE = 500
"""Workloads of one transaction."""
_FIGURES = tuple(field.name for field in fields(Usage))
_COLUMNS = tuple(f"cost_{name}" for name in _FIGURES)


def record_usage(usages: Mapping[UUID, Usage]) -> None:
    """Keeps the figures of each workload, unless a tick beside it counted as of a later moment. No
    generation: nobody asked for it. Pages are told when the figures move; equal figures change nothing.
    """
    pks = sorted(usages)
    for first in range(0, len(pks), AT_ONCE):
        _record({pk: usages[pk] for pk in pks[first : first + AT_ONCE]})


@transaction.atomic
def _record(usages: Mapping[UUID, Usage]) -> None:
    moved = []
    for pk, *known in _KNOWN(list(usages)):
        before, usage = Usage(**dict(zip(_FIGURES, known, strict=True))), usages[pk]
        is_first = before.as_of is None
        if is_first or (before.as_of <= usage.as_of and _figures(before) != _figures(usage)):
            moved.append((pk, is_first and _figures(before) == _figures(usage)))
    _KEEP.write_all([(pk, *(getattr(usages[pk], name) for name in _FIGURES)) for pk, _ in moved])
    telling.tell_costs([pk for pk, is_same in moved if not is_same])


def _known(pks: Any) -> QuerySet[Workload, Any]:
    # Locked in the order in which everybody locks many of them (`sweep.note`).
    rows = Workload.objects.filter(pk__in=pks).order_by("pk").select_for_update(no_key=True)
    return rows.values_list("pk", *_COLUMNS)


_KNOWN = Prepared(_known, UUIDField())


def _figures(usage: Usage) -> tuple[Any, ...]:
    return tuple(getattr(usage, name) for name in _FIGURES if name != "as_of")


def _kept(pk: Any, *figures: Any) -> tuple[QuerySet[Workload], dict[str, Any]]:
    return Workload.objects.filter(pk=pk), dict(zip(_COLUMNS, figures, strict=True))


_KEEP = PreparedUpdate(_kept, UUIDField(), *map(Workload._meta.get_field, _COLUMNS))  # type: ignore[arg-type]
