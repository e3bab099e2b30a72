"""Reading the record: events about a thing or that somebody looks for, and chains. Never writes."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from django.db.models import Q, QuerySet

from apps.audit.chain import Link, Place, Sealed
from apps.audit.models import AuditEvent, ChainHead
from apps.audit.specs import Wanted

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


def named_in(targets: Iterable[str], action: str, field: str, *, since: datetime) -> frozenset[str]:
    """The names that the record of this act has as the new value of a field, a list; as `events_about`."""
    found = AuditEvent.objects.filter(target_id__in=list(targets), action=action, at__gte=since)
    told = [changes.get(field) for changes in found.order_by().values_list("changes", flat=True)]
    return frozenset(name for pair in told if pair for name in pair[1])


def events_in(chains: Collection[str], actions: Collection[str], *, since: datetime) -> QuerySet[AuditEvent]:
    """These acts in these chains after a moment, in order within each chain; as `events_about` on who may."""
    found = AuditEvent.objects.filter(chain__in=chains, action__in=actions, at__gt=since)
    return found.order_by("chain", "sequence")


def events_until(
    chains: Collection[str], actions: Collection[str], *, until: datetime
) -> QuerySet[AuditEvent]:
    """These acts in these chains up to a moment, in no order; as `events_about` on who may."""
    return AuditEvent.objects.filter(chain__in=chains, action__in=actions, at__lte=until).order_by()


SEARCHED = ("actor", "action", "target_name", "target_id", "chain", "request_id", "reason")
"""Where words are looked for: what a list shows of an event, but for what it changed."""
LOOKED_THROUGH = 50_000
"""How many events, the newest first, one request for a list looks through for words."""


def narrowed(rows: QuerySet[AuditEvent], wanted: Wanted) -> QuerySet[AuditEvent]:
    """The events that are wanted, but for the words: each condition has an index."""
    named = {
        "actor__in": wanted.actors,
        "action__in": wanted.actions,
        "target_kind__in": wanted.kinds,
        "target_id__in": wanted.targets,
        "request_id__in": wanted.requests,
        "chain": wanted.chain,
        "at__gte": wanted.since,
        "at__lt": wanted.until,
    }
    return rows.filter(**{name: value for name, value in named.items() if value})


def searched(rows: QuerySet[AuditEvent], words: str) -> QuerySet[AuditEvent]:
    """Those in which each of the words stands somewhere."""
    for word in words.split():
        rows = rows.filter(Q.create([(f"{name}__icontains", word) for name in SEARCHED], connector=Q.OR))
    return rows


def searched_lately(rows: QuerySet[AuditEvent], words: str) -> tuple[QuerySet[AuditEvent], datetime | None]:
    """As `searched` among the newest `LOOKED_THROUGH`, and back to which moment that is; None: among all.

    No index finds words, so the events that are looked at are bounded instead.
    """
    if not words.split():
        return rows, None
    times = rows.order_by("-at").values_list("at", flat=True)
    back_to = times[LOOKED_THROUGH : LOOKED_THROUGH + 1].first()
    return searched(rows if back_to is None else rows.filter(at__gte=back_to), words), back_to


def stretches(rows: QuerySet[AuditEvent], words: str, size: int) -> Iterator[list[AuditEvent]]:
    """All that are wanted, newest first, read in stretches of so many rows before the words narrow them: no
    statement looks at more, however many rows there are. A stretch may be empty.
    """
    ordered, after = rows.order_by("-at", "-pk"), Q()
    while True:
        left = ordered.filter(after)
        last = left.values_list("at", "pk")[size - 1 : size].first()
        if last is None:
            yield list(searched(left, words))
            return
        at, pk = last
        yield list(searched(left.filter(Q(at__gt=at) | Q(at=at, pk__gte=pk)), words))
        after = Q(at__lte=at) & (Q(at__lt=at) | Q(pk__lt=pk))


def chains() -> list[str]:
    """Every chain by name, also one whose head was deleted."""
    headed = ChainHead.objects.values_list("chain", flat=True)
    linked = AuditEvent.objects.order_by().values_list("chain", flat=True).distinct()
    return sorted({*headed, *linked})


def chain_after(name: str) -> str | None:
    """The first chain after a name, in the order of the database; None after the last. Two look-ups by index,
    a third where a head or all links of a chain are gone.
    """
    head = ChainHead.objects.filter(chain__gt=name).order_by("chain").values_list("chain", flat=True).first()
    linked = AuditEvent.objects.filter(chain__gt=name).order_by("chain", "sequence")
    link = linked.values_list("chain", flat=True).first()
    if head is None or link is None or head == link:
        return head or link
    # Which of two comes first, only the database knows: its order of letters may be that of a language.
    return head if ChainHead.objects.filter(chain=head, chain__lt=link).exists() else link


def is_chain(name: str) -> bool:
    """Whether there is such a chain, with or without its head."""
    return has_links_after(Place(name)) or ChainHead.objects.filter(chain=name).exists()


def head_of(chain: str) -> Place:
    """Where its head says that it ends; at 0 where the head was deleted."""
    head = ChainHead.objects.filter(chain=chain).first()
    return Place(chain, head.sequence, head.hash) if head else Place(chain)


def links_after(place: Place, most: int) -> list[Sealed]:
    """The next links of a chain, in order."""
    rows = AuditEvent.objects.filter(chain=place.chain, sequence__gt=place.sequence).order_by("sequence")
    return [
        Sealed(Link(*row[:-2]), previous_hash=row[-2], hash=row[-1])
        for row in rows.values_list(*COVERED, "previous_hash", "hash")[:most]
    ]


def has_links_after(place: Place) -> bool:
    """Whether anything follows."""
    return AuditEvent.objects.filter(chain=place.chain, sequence__gt=place.sequence).exists()


def event_at(chain: str, sequence: int) -> AuditEvent | None:
    """The event at a place of a chain; None where it is gone."""
    return AuditEvent.objects.filter(chain=chain, sequence=sequence).first()
