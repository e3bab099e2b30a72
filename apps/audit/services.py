"""Writes audit events in the transaction of the change they record, and checks that the chains are whole.

It does not decide who may act: the caller has asked the policies already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db import transaction

from apps.audit.chain import Breach, Link, counted, first_breach, plain, seal
from apps.audit.models import AuditEvent, ChainHead
from apps.audit.selectors import heads, links
from apps.audit.specs import Audited, Target


class Who(Protocol):
    """What the record keeps about the actor."""

    @property
    def username(self) -> str:
        """A person, a service account, or `system:<name>`."""

    @property
    def token_prefix(self) -> str:
        """The first characters of the token used; empty for a session."""

    @property
    def request_id(self) -> str:
        """The request that asked; empty when no request did."""


@dataclass(frozen=True)
class Verdict:
    """What a check of the record found: how many links of how many chains, and each chain's first breach."""

    chains: int
    links: int
    breaches: tuple[Breach, ...]


def record(
    who: Who,
    action: str,
    on: Audited | Target,
    *,
    now: datetime,
    changes: Mapping[str, Any] | None = None,
    reason: str = "",
) -> AuditEvent:
    """Append one event to the chain of what it is of; raises outside a transaction.

    `changes` is before and after, without secrets. The event and the change commit together or not at all.
    Call it after the change: the chain's head is the last row a transaction locks, so that writers to one
    chain wait for each other and never in a circle.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an audit event is written in the transaction of the change it tells of")
    target = on if isinstance(on, Target) else on.audit_target
    head, _ = ChainHead.objects.select_for_update().get_or_create(chain=target.chain)
    link = Link(
        chain=target.chain,
        sequence=head.sequence + 1,
        at=now,
        actor=who.username,
        token=who.token_prefix,
        action=action,
        target_kind=target.kind,
        target_id=str(target.key),
        target_name=target.name,
        request_id=who.request_id,
        reason=reason,
        changes=plain(changes or {}),
    )
    previous, head.sequence, head.hash = head.hash, link.sequence, seal(link, head.hash)
    event = AuditEvent.objects.create(**link.__dict__, previous_hash=previous, hash=head.hash)
    head.save(update_fields=["sequence", "hash"])
    return event


def verify(chain: str | None = None) -> Verdict:
    """Check one chain or all, streaming: every link's own hash, its place, its predecessor, and the head."""
    tally = [0]
    checked = heads(chain)
    found = [
        first_breach(
            head.chain, counted(links(head.chain), tally), head_sequence=head.sequence, head_hash=head.hash
        )
        for head in checked
    ]
    return Verdict(len(checked), tally[0], tuple(breach for breach in found if breach))
