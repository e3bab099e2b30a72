"""How the audit record looks in REST. No rules on who or when."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from apps.audit.chain import Breach, BreachKind
from apps.audit.models import AuditEvent
from apps.audit.specs import tenant_of
from apps.tenants.people.rules.audit_shown import shown

COLUMNS = (
    "id", "at", "actor", "token", "action", "target_kind", "target_id", "target_name", "tenant", "request_id",
    "reason", "changes", "chain", "sequence", "previous_hash", "hash",
)  # fmt: skip
"""Of the list and of the export as CSV; what an event changed is JSON there."""


class AuditTargetBody(TypedDict):
    """The thing that something was done to, as it was called then."""

    kind: str
    id: str
    name: str


class AuditEventBody(TypedDict):
    """Something that somebody did. It never changes."""

    object: Literal["audit_event"]
    id: Annotated[str, "Chain and sequence, such as tenant:vision#12."]
    at: datetime
    actor: Annotated[str, "A username, or system:<name> where the product acted by itself."]
    token: Annotated[str | None, "The first characters of the API token; null: a browser, or the product."]
    action: Annotated[str, "Such as workload.stop."]
    target: AuditTargetBody
    tenant: Annotated[str | None, "The slug of the tenant whose chain keeps it; null: the platform's."]
    request_id: Annotated[str | None, "The request that asked (X-Request-Id)."]
    reason: str
    changes: Annotated[Mapping[str, Any], "By field, usually [before, after]; secrets read [secret]."]
    chain: str
    sequence: Annotated[int, "1, 2, 3 ... within the chain."]
    previous_hash: Annotated[str, "Empty in the first of a chain."]
    hash: Annotated[str, "Covers the whole event and previous_hash."]


class AuditBreachBody(TypedDict):
    """The first place where a chain is broken; nothing after it in that chain can be trusted."""

    chain: str
    sequence: int
    kind: BreachKind
    message: str


class AuditLastCheckBody(TypedDict):
    """What the workers' own check of the whole record found last."""

    checked_at: datetime
    checked: Annotated[int, "How many events it looked at."]
    breaches: int
    first_breach: Annotated[str | None, "The first of them, in words."]


class AuditCheckBody(TypedDict):
    """A part of a check of the chains."""

    checked: Annotated[int, "How many events this part looked at."]
    breaches: Annotated[
        list[AuditBreachBody], "The first of each chain that this part came to; empty: whole."
    ]
    next: Annotated[str | None, "Where the check goes on; null: at the end."]
    last_check: Annotated[AuditLastCheckBody | None, "Null before the first."]


def event_body(row: AuditEvent) -> AuditEventBody:
    """An event as REST shows it: no secret that somebody wrote where none belongs."""
    return {
        "object": "audit_event",
        "id": f"{row.chain}#{row.sequence}",
        "at": row.at,
        "actor": row.actor,
        "token": row.token or None,
        "action": row.action,
        "target": {"kind": row.target_kind, "id": row.target_id, "name": row.target_name},
        "tenant": tenant_of(row.chain) or None,
        "request_id": row.request_id or None,
        "reason": shown(row.reason),
        "changes": shown(row.changes),
        "chain": row.chain,
        "sequence": row.sequence,
        "previous_hash": row.previous_hash,
        "hash": row.hash,
    }


def breach_body(breach: Breach) -> AuditBreachBody:
    """Where a chain is broken, and how."""
    return {
        "chain": breach.chain,
        "sequence": breach.sequence,
        "kind": breach.kind,
        "message": breach.kind.label,
    }
