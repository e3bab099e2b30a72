"""What every object of REST begins with: who it is, of which generation, made when and by whom."""

from datetime import datetime
from typing import Any, Protocol

Body = dict[str, Any]


class Kept(Protocol):
    """A row that REST shows as an object."""

    pk: Any
    generation: Any
    created_at: Any
    updated_at: Any


def head(
    kind: str,
    row: Kept,
    *,
    slug: str | None = None,
    name: str | None = None,
    tenant: str | None = None,
    created_by: str | None = None,
) -> Body:
    """The common fields of docs/api.md. Rule: no field is left out; unset or unknown is null, "" too."""
    made: datetime = row.created_at
    return {
        "object": kind,
        "id": str(row.pk),
        "slug": slug or None,
        "name": name or None,
        "tenant": tenant,
        "labels": {},
        "generation": row.generation,
        "created_at": made,
        "updated_at": row.updated_at,
        "created_by": created_by or None,
    }
