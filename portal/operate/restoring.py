"""An installation whose database came out of a backup: nothing is written to a cluster before somebody has
seen what the backup does not know. docs/operating.md has the way of it.

A backup is older than the clusters that it is about. Without a pause, work that ended since would start
again, work that was started since would be stopped, and what was made since would be nobody's.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.contrib.sessions.models import Session
from django.db import transaction

from apps.accounts.models import PersonSession
from apps.accounts.specs import system_actor
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.reconciling.services import holds
from apps.errors import DomainError
from apps.workloads import registry
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase

OPERATOR = system_actor("operator")
WHY = "The database came out of a backup."


@dataclass(frozen=True)
class Review:
    """What a cluster and its database do not know of each other. `unlisted`: kinds that the watcher has not
    listed yet, so that nothing else can be said.
    """

    cluster: Cluster
    unlisted: tuple[str, ...] = ()
    unknown: tuple[holds.Unknown, ...] = ()
    missing: tuple[Workload, ...] = ()
    """They would start anew."""
    running: tuple[Workload, ...] = ()
    """They run, and would be stopped or removed."""

    @property
    def agrees(self) -> bool:
        """Whether nobody has to decide anything."""
        return not (self.unlisted or self.unknown or self.missing or self.running)


@dataclass(frozen=True)
class Begun:
    """How many clusters are held now that were not, and how many sessions ended."""

    clusters: int
    sessions: int


@dataclass(frozen=True)
class Done:
    """How many there were, and what was refused, in words."""

    count: int
    refused: list[str]


@transaction.atomic
def begin(now: datetime) -> Begun:
    """Hold every cluster and end every session: one that somebody ended since the backup would live again."""
    free = list(Cluster.objects.filter(held_since=None).select_for_update(no_key=True))
    for cluster in free:
        holds.hold(OPERATOR, cluster, reason=WHY, now=now)
    PersonSession.objects.all().delete()
    ended, _ = Session.objects.all().delete()
    return Begun(len(free), ended)


def reviews() -> Iterator[Review]:
    """Of each cluster that is held."""
    for cluster in Cluster.objects.exclude(held_since=None).order_by("slug"):
        if unlisted := holds.unlisted(cluster):
            yield Review(cluster, tuple(unlisted))
        else:
            yield Review(cluster, (), tuple(holds.unknown_in(cluster)), *_of_rows(cluster))


def stop_missing(now: datetime) -> Done:
    """Stop what the clusters do not have, so that it does not start anew unasked; its owner may resume it."""
    return _ask(verbs.stop_workload, [row for each in reviews() for row in each.missing], now)


def resume_running(now: datetime) -> Done:
    """Ask again for what runs and is stopped in the database, so that it goes on. What was being removed when
    the backup was made is not asked for.
    """
    rows = [row for each in reviews() for row in each.running if row.deleting_at is None]
    return _ask(verbs.resume_workload, rows, now)


def remove_unknown(now: datetime) -> Done:
    """Remove the objects of workloads that the database does not know; volumes stay."""
    done = [holds.remove(OPERATOR, each.cluster, each.unknown, reason=WHY, now=now) for each in reviews()]
    return Done(sum(len(each.objects) for each in done), [words for each in done for words in each.refused])


@transaction.atomic
def finish(now: datetime) -> int:
    """Let workers write to the clusters again; how many were held."""
    held = list(Cluster.objects.exclude(held_since=None).select_for_update(no_key=True))
    for cluster in held:
        holds.release(OPERATOR, cluster, now=now)
    return len(held)


def _ask(verb: Callable[..., Workload], rows: Iterable[Workload], now: datetime) -> Done:
    done, refused = 0, []
    for row in rows:
        try:
            verb(actor=OPERATOR, workload=row, reason=WHY, now=now)
        except DomainError as error:
            refused.append(f"{row.tenant.slug}/{row.slug}: {error.detail}")
        else:
            done += 1
    return Done(done, refused)


def _of_rows(cluster: Cluster) -> tuple[tuple[Workload, ...], tuple[Workload, ...]]:
    """The rows that want to run and have nothing that would, and those that do not and have."""
    rows = Workload.objects.filter(cluster=cluster, deleted_at=None).select_related(
        "tenant", "owner", "offer"
    )
    there = MirrorObject.objects.filter(cluster=cluster, gone_at=None, deleting=False, owner_kind="workload")
    having = set(there.values_list("owner_id", "kind"))
    missing, running = [], []
    for row in rows.order_by("tenant__slug", "slug"):
        has = (str(row.pk), registry.of(Kind(row.kind)).controller) in having
        wants = not row.suspended and row.deleting_at is None
        if wants and not has and not Phase(row.phase).is_final:
            missing.append(row)
        elif has and not wants:
            running.append(row)
    return tuple(missing), tuple(running)
