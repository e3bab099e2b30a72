"""Writes audit events in the transaction of the change they record, and checks that the chains are whole.

It does not decide who may act: the caller has asked the policies already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db import transaction
from django.db.models import BigIntegerField, CharField

from apps.audit import selectors
from apps.audit.chain import Breach, Link, Place, ended, plain, seal, walked
from apps.audit.models import AuditEvent, ChainHead
from apps.audit.specs import Audited, Target
from apps.errors import NotAllowed
from apps.prepared import Prepared, PreparedInsert, PreparedUpdate

MOST_STEPS = 200
"""How many chains one part of a check comes to at most: each costs a few statements, however short it is."""
READ_ONLY = "You see the portal as somebody else, read-only: nothing was changed."
_AT_ONCE = 2000


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

    @property
    def viewed_by(self) -> str:
        """Who only looks on as this actor; empty for who acts."""


@dataclass(frozen=True)
class Verdict:
    """What a check of the record found: how many links of how many chains, and each chain's first breach."""

    chains: int
    links: int
    breaches: tuple[Breach, ...]


@dataclass(frozen=True)
class Part:
    """What a part of a check found: how many links, the first breach of each chain that it came to, and where
    it goes on; None at the end.
    """

    links: int
    breaches: tuple[Breach, ...]
    place: Place | None


@dataclass(frozen=True)
class _Step:
    links: int
    place: Place | None
    breach: Breach | None


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

    RULE: nothing is written in the name of somebody as whom another one looks at the portal; raises
    NotAllowed, so that the change is undone.
    """
    if who.viewed_by:
        raise NotAllowed(READ_ONLY, hint="End the view to act as yourself.")
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an audit event is written in the transaction of the change it tells of")
    target = on if isinstance(on, Target) else on.audit_target
    head = _HEAD.first(target.chain)
    if head is None:
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
    event = _APPEND(AuditEvent(**link.__dict__, previous_hash=previous, hash=head.hash))
    _MOVE(head.chain, head.sequence, head.hash)
    return event


_HEAD = Prepared(lambda chain: ChainHead.objects.filter(chain=chain).select_for_update(), CharField())
_APPEND = PreparedInsert(AuditEvent)
_MOVE = PreparedUpdate(
    lambda chain, sequence, last: (
        ChainHead.objects.filter(chain=chain),
        {"sequence": sequence, "hash": last},
    ),
    CharField(),
    BigIntegerField(),
    CharField(),
)


def verify(chain: str | None = None) -> Verdict:
    """Check one chain or all, in constant memory: every link's own hash, its place, its predecessor, and the
    head. Events that are written meanwhile are checked too.
    """
    checked = selectors.chains() if chain is None else [chain]
    links, found = 0, []
    for name in checked:
        place: Place | None = Place(name)
        while place is not None:
            step = _step(place, _AT_ONCE)
            links, place = links + step.links, step.place
            found += [step.breach] if step.breach else []
    return Verdict(len(checked), links, tuple(found))


def check(place: Place | None, *, chain: str | None, most: int) -> Part:
    """A part of a check of all chains or of one: at most so many links on from a place; None: from the start.

    A chain is left at its first breach: nothing after that can be trusted.
    """
    if place is None:
        first = selectors.chain_after("") if chain is None else chain
        if first is None:
            return Part(0, (), None)
        place = Place(first)
    links, found = 0, []
    for _ in range(MOST_STEPS):
        step = _step(place, most - links)
        links += step.links
        found += [step.breach] if step.breach else []
        following = step.place or (_next_chain(place) if chain is None else None)
        if following is None or links >= most:
            return Part(links, tuple(found), following)
        place = following
    return Part(links, tuple(found), place)


def _next_chain(place: Place) -> Place | None:
    name = selectors.chain_after(place.chain)
    return None if name is None else Place(name)


def _step(place: Place, most: int) -> _Step:
    links = selectors.links_after(place, most)
    reached = walked(place, links)
    if isinstance(reached, Breach):
        return _Step(len(links), None, reached)
    if len(links) == most:
        return _Step(len(links), reached, None)
    # Read after the links: head and link are written together, so an older head would belie newer links.
    head = selectors.head_of(place.chain)
    if reached.sequence < head.sequence and selectors.has_links_after(reached):
        return _Step(len(links), reached, None)
    return _Step(len(links), None, ended(reached, head))
