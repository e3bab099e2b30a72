"""Compares whole clusters with what we applied: the mirror is brought up to date by a list of each kind, and
whatever differs wakes its row, whose reconcile compares the fields and puts it back.

The watch tells of a change within a second. This finds what it missed, and says when all was last looked at.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, F, Q, QuerySet
from django.utils import timezone

from apps.accounts.policies import require_platform
from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.gateway.port import Gateway, open_gateway
from apps.cluster.mirror.rules.mirror_columns import Sighting, version_number
from apps.cluster.mirror.selectors.differing import owners_of_differing
from apps.cluster.mirror.services import mirror_table, open_pages
from apps.cluster.models import Cluster, DriftCheck
from apps.cluster.objects.kinds import APPLIED, KINDS
from apps.cluster.reconciling.services import drift_book, sweep, wake
from apps.cluster.watching.services import capabilities
from apps.prepared import Prepared

EVERY = timedelta(minutes=15)
LONGEST = timedelta(minutes=10)
"""A check that began before that has died."""
TASK = "drift-check"


@transaction.atomic
def ask(*, actor: Actor, cluster: Cluster, now: datetime) -> DriftCheck:
    """Have a cluster compared now. Rule: platform engineers. Asked twice it is one check."""
    require_platform(actor)
    DriftCheck.objects.get_or_create(cluster=cluster)
    row = DriftCheck.objects.select_for_update().get(cluster=cluster)
    row.asked_at, row.asked_by = now, actor.username
    row.save(update_fields=["asked_at", "asked_by"])
    wake.hint(TASK, cluster.pk)
    audit.record(actor, "cluster.check_drift", cluster, now=now)
    return row


def hint_due(*, now: datetime) -> None:
    """Start the checks that somebody waits for, and those whose time has come where the cluster answers."""
    if fresh := _UNCHECKED():
        DriftCheck.objects.bulk_create([DriftCheck(cluster=row) for row in fresh], ignore_conflicts=True)
    for pk in _DUE(now - LONGEST, now - EVERY):
        wake.hint(TASK, pk, urgent=False)


def run(pk: str | UUID, *, gateway: Gateway | None = None) -> None:
    """One cluster, if somebody asks or it is time; why it could not be compared is kept for people.

    RULE: hints come again until a worker begins, so of many the first does it all.
    """
    now = timezone.now()
    begun = {"begun_at": now, "tried_at": now, "asked_at": None, "done": 0, "objects_seen": 0}
    if not _due(now - LONGEST, now - EVERY).filter(cluster_id=pk).update(**begun, of=len(APPLIED)):
        return
    cluster = Cluster.objects.get(pk=pk)
    words = "It ended early; the next one is in a few minutes."
    try:
        words = _compare(cluster, gateway or open_gateway(cluster), now)
    except (Unreachable, Rejected) as error:
        words = str(error)
    finally:
        whole = {} if words else {"ended_at": timezone.now()}
        DriftCheck.objects.filter(cluster_id=pk, begun_at=now).update(begun_at=None, message=words, **whole)
        drift_book.tell(cluster.pk, now=now)


def _due(died: Any, long_ago: Any) -> QuerySet[DriftCheck]:
    idle = Q(begun_at=None) | Q(begun_at__lt=died)
    wanted = Q(asked_at__isnull=False) | Q(tried_at=None) | Q(tried_at__lt=long_ago)
    return DriftCheck.objects.filter(idle & wanted)


def _answering(died: Any, long_ago: Any) -> QuerySet[DriftCheck, UUID]:
    answers = Q(cluster__phase=Cluster.Phase.READY) | Q(asked_at__isnull=False)
    return _due(died, long_ago).filter(answers).values_list("pk", flat=True)


_UNCHECKED = Prepared(lambda: Cluster.objects.exclude(pk__in=DriftCheck.objects.values("cluster_id")))
_DUE = Prepared(_answering, DateTimeField(), DateTimeField())


def _compare(cluster: Cluster, gateway: Gateway, now: datetime) -> str:
    """Every kind; answers why that was not possible, empty where it was."""
    if cluster.identity and capabilities.identity(gateway) != cluster.identity:
        return "Another cluster answers at this address; the watcher begins anew."
    for kind in APPLIED:
        seen = _list(cluster, gateway, kind, now=now)
        mine = DriftCheck.objects.filter(pk=cluster.pk, begun_at=now)
        mine.update(done=F("done") + 1, objects_seen=F("objects_seen") + seen)
        drift_book.tell(cluster.pk, now=now)
    sweep.note_living(owners_of_differing(cluster))
    return ""


def _list(cluster: Cluster, gateway: Gateway, kind: str, *, now: datetime) -> int:
    """A kind as it is now into the mirror, page by page, as the watcher does; a kind that is optional may not
    be served. Answers how many there are.
    """
    earlier: set[str] = set()
    version, going_on, info = "", "", KINDS[kind]
    while True:
        try:
            page = gateway.page(kind, label_selector=info.selector, going_on=going_on)
        except Rejected as error:
            if info.optional and error.is_absent:
                return 0
            raise
        version, going_on = version or page.version, page.going_on
        seen = [Sighting(kind, item) for item in page.items]
        with transaction.atomic():
            _tell(cluster, mirror_table.record_seen(cluster, seen, now=now))
        earlier.update(item["metadata"]["uid"] for item in page.items)
        if not going_on:
            number = version_number(version)
            with transaction.atomic():
                _tell(cluster, mirror_table.bury_absent(
                    cluster, kind, (), earlier=earlier, resource_version=number, now=now
                ))  # fmt: skip
            return len(earlier)


def _tell(cluster: Cluster, changes: mirror_table.Changes) -> None:
    """As the watcher, which finds these versions known and tells nobody."""
    sweep.note(changes.owners)
    open_pages.tell(cluster.pk, open_pages.topics_of(changes), now=timezone.now())
