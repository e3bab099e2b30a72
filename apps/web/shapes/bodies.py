"""What every object of REST begins with: who it is, of which generation, made when and by whom."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, Protocol, TypedDict

from apps.web.shapes.typed import keywords

Body = dict[str, Any]
Id = Annotated[str, keywords(format="uuid")]
"""A UUID that its builder has as text."""


class Money(TypedDict):
    """An amount, never rounded to the cent."""

    amount: Annotated[str, keywords(format="decimal"), "Up to 8 decimals."]
    currency: Annotated[str, "ISO 4217."]


class Condition(TypedDict):
    """One thing that was observed."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    observed_generation: int
    since: datetime | None


class ObjectHead(TypedDict):
    """What every object begins with; an object's own TypedDict narrows `object` to its word."""

    id: Id
    slug: str | None
    name: str | None
    tenant: Annotated[str | None, "The tenant's slug."]
    labels: dict[str, str]
    generation: Annotated[int | None, "Counts changes of writable fields; the ETag."]
    created_at: datetime
    updated_at: datetime | None
    created_by: str | None


class Rehearsal(TypedDict):
    """What a write would do: the answer to `?dry_run=true`. Nothing was stored."""

    dry_run: Literal[True]
    result: Annotated[Any, "The object as it would be; null where none would be left."]
    price: Annotated[dict[str, Any] | None, "Of workloads alone."]
    fit: Annotated[dict[str, Any] | None, "Of workloads alone."]
    queue: Annotated[dict[str, Any] | None, "Of workloads alone."]
    manifests: Annotated[Sequence[Mapping[str, Any]], "What would be applied to the cluster."]
    alternatives: Sequence[Any]
    warnings: Sequence[str]


class ProblemError(TypedDict):
    """One wrong field or parameter."""

    pointer: NotRequired[Annotated[str, "A JSON pointer into the body, such as #/spec/offer."]]
    parameter: NotRequired[Annotated[str, "The name of a query parameter."]]
    code: str
    detail: str


class Problem(TypedDict):
    """RFC 9457, plus a stable code to switch on and a hint of what to do. Some codes add members."""

    type: Annotated[str, keywords(format="uri")]
    title: str
    status: int
    detail: str
    instance: Annotated[str | None, "urn:uuid:<request id>; null on 404."]
    code: Annotated[str, "Switch on this; v1 may add codes."]
    hint: Annotated[str, "What to do."]
    errors: Sequence[ProblemError]


class Kept(Protocol):
    """A row that REST shows as an object."""

    pk: Any
    generation: Any
    created_at: Any
    updated_at: Any


def head(kind: str, row: Kept, **named: str | None) -> Body:
    """`common`, with the object's word."""
    return {"object": kind, **common(row, **named)}


def common(
    row: Kept,
    *,
    slug: str | None = None,
    name: str | None = None,
    tenant: str | None = None,
    created_by: str | None = None,
) -> ObjectHead:
    """The common fields of docs/api.md, but `object`. Rule: none is left out; unset or unknown is null."""
    made: datetime = row.created_at
    return {
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
