"""Reading the record: the events about one thing, a chain's links, every chain's head. Never writes."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from django.db.models import QuerySet

from apps.audit.chain import Link, Sealed
from apps.audit.models import AuditEvent, ChainHead

COVERED = tuple(Link.__dataclass_fields__)
"""The columns that a link's hash covers, in the order of `Link`."""


def events_about(target_id: str) -> QuerySet[AuditEvent]:
    """What was done to one thing, newest first; whoever asks must already be allowed to see that thing."""
    return AuditEvent.objects.filter(target_id=target_id).order_by("-id")


def actors_of(
    targets: Iterable[str], actions: Collection[str], *, since: datetime | None = None
) -> frozenset[str]:
    """Who did one of these acts to one of these things, since a moment or ever; as `events_about`."""
    found = AuditEvent.objects.filter(target_id__in=list(targets), action__in=actions)
    if since is not None:
        found = found.filter(at__gte=since)
    return frozenset(found.order_by().values_list("actor", flat=True).distinct())


def events_in(chains: Collection[str], actions: Collection[str], *, since: datetime) -> QuerySet[AuditEvent]:
    """These acts in these chains after a moment, in order within each chain; as `events_about` on who may."""
    found = AuditEvent.objects.filter(chain__in=chains, action__in=actions, at__gt=since)
    return found.order_by("chain", "sequence")


def events_until(
    chains: Collection[str], actions: Collection[str], *, until: datetime
) -> QuerySet[AuditEvent]:
    """These acts in these chains up to a moment, in no order; as `events_about` on who may."""
    return AuditEvent.objects.filter(chain__in=chains, action__in=actions, at__lte=until).order_by()


def heads(chain: str | None = None) -> list[ChainHead]:
    """The head of one chain or of all; a chain whose head was deleted still counts, with a head at 0."""
    found = {head.chain: head for head in ChainHead.objects.all()}
    chains = AuditEvent.objects.order_by().values_list("chain", flat=True).distinct()
    for name in chains:
        found.setdefault(name, ChainHead(chain=name))
    return [found[name] for name in sorted(found) if chain in (None, name)]


def links(chain: str) -> Iterator[Sealed]:
    """The chain's links in order, read in blocks."""
    rows = AuditEvent.objects.filter(chain=chain).order_by("sequence")
    for row in rows.values_list(*COVERED, "previous_hash", "hash").iterator(chunk_size=2000):
        yield Sealed(Link(*row[:-2]), previous_hash=row[-2], hash=row[-1])
