"""The book of drift: what a reconcile found changed by hand and put back, and what still differs.

A reconcile writes what it compares, with fields and their writers. The sweep (`settle`) brings the book in
line with the mirror: it opens what no reconcile has come to, and ends what differs no longer.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import IntegrityError, transaction
from django.db.models import DateTimeField, F, Q, QuerySet

from apps.cluster.errors import Rejected
from apps.cluster.gateway.port import Gateway
from apps.cluster.mirror.selectors.differing import differing as differing_of
from apps.cluster.mirror.services import open_pages
from apps.cluster.models import Cluster, Drift, MirrorObject, Reconciled
from apps.cluster.objects.conditions import SYNCED, find
from apps.cluster.objects.names import LABEL_OWNER, LABEL_TENANT, LABEL_UID
from apps.cluster.reconciling.rules import drift
from apps.cluster.reconciling.rules.drift import MOST_FIELDS, DriftKind, FieldDrift
from apps.cluster.reconciling.rules.plan import Apply, Why
from apps.cluster.reconciling.services.sweep import ROWS
from apps.cluster.specs import Body, ObjectRef, Observed
from apps.prepared import Prepared

AGAIN = timedelta(minutes=10)
"""The same change of the same object within this time is one line that counts."""
PATIENCE = timedelta(seconds=15)
"""How long an object may differ before the sweep says so: a reconcile needs about a second."""
KEPT = timedelta(days=30)
MOST_KEPT = 10_000
"""Lines of the past; the oldest go first."""
_AT_ONCE = 500

Key = tuple[Any, ObjectRef]
_OPEN = Prepared(lambda: Drift.objects.filter(healed_at=None))


def examine(gateway: Gateway, cluster: Cluster, step: Apply, *, now: datetime) -> Body | None:
    """Write down how an object differs before it is put back. Two calls: as it is, and a rehearsal of our
    apply. Where one is refused it is put back all the same, and the apply says what it cannot. Answers the
    object as it is where only the rehearsal was refused: if the apply then is not, `compare` with its answer.
    """
    live = None
    try:
        live = gateway.look(step.ref)
        wanted = gateway.apply(step.manifest, force=True, dry_run=True) if live is not None else {}
    except Rejected:
        _note(cluster, step, DriftKind.UNREAD, [], now=now)
        return live
    if live is None:
        _note(cluster, step, DriftKind.MISSING, [], now=now)
    else:
        compare(cluster, step, live, wanted, now=now)
    return None


def compare(cluster: Cluster, step: Apply, live: Body, wanted: Body, *, now: datetime) -> None:
    """Write down how an object as it is differs from what our apply makes of it."""
    found = drift.fields_of(step.ref.kind, live, wanted)
    if step.why is Why.CHANGED:
        # Our wish changed as well: what nobody else wrote is that.
        found = [field for field in found if field["manager"]]
    if found:
        _note(cluster, step, DriftKind.CHANGED, found, now=now)
    else:
        _of(cluster, step.ref).filter(healed_at=None).update(healed_at=now)


def put_back(cluster: Cluster, refs: Collection[ObjectRef], *, now: datetime) -> None:
    """These are as we want them again."""
    for ref in refs:
        _of(cluster, ref).filter(healed_at=None).update(healed_at=now, message="")
    if refs:
        tell(cluster.pk, now=now)


def returned(
    cluster: Cluster,
    gone: Mapping[ObjectRef, MirrorObject],
    answers: Mapping[ObjectRef, Observed],
    *,
    now: datetime,
) -> None:
    """Of what had been taken from the cluster, what is there again of the same row. With the same uid it
    never went: only the label was taken by which the watch selects.
    """
    for ref in sorted(gone.keys() & answers.keys()):
        row, seen = gone[ref], answers[ref]
        if row.owner_id != seen.owner_id:
            continue
        is_same = row.uid == seen.uid
        how = DriftKind.CHANGED if is_same else DriftKind.MISSING
        tenant = seen.body["metadata"].get("labels", {}).get(LABEL_TENANT, "")
        kept = _line(how, [drift.mark_taken()] if is_same else [])
        kept |= _owner(row.owner_kind, row.owner_id, tenant) | {"healed_at": now, "message": ""}
        _write(cluster, ref, kept, found_at=row.gone_at or now, now=now)


def stuck(cluster: Cluster, reasons: Mapping[ObjectRef, str], *, now: datetime) -> None:
    """These could not be put back, in the cluster's words."""
    for ref, words in reasons.items():
        _of(cluster, ref).filter(healed_at=None).update(message=words, seen_at=now)


def settle(*, now: datetime) -> None:
    """Bring the book in line with the mirror; costs a few queries where nothing differs.

    RULE: a row at rest has all that it wants, so only objects of rows that are due or failing are looked at.
    """
    known = {_key(row): row for row in _OPEN()}
    differing: dict[Key, MirrorObject] = {}
    messages: dict[str, str] = {}
    for owner, label in ROWS.items():
        noted = {row.owner_id for row in known.values() if row.owner_kind == owner}
        restless = _restless(apps.get_model(label), noted, now)
        messages |= restless
        differing |= {_key(row): row for row in differing_of(restless)} if restless else {}
    for key, row in known.items():
        if key not in differing:
            _end(row, now)
    for key, seen in differing.items():
        if key not in known and (seen.gone_at or seen.seen_at) < now - PATIENCE:
            _open(seen, messages[seen.owner_id], now)


def tell(cluster: UUID, *, now: datetime) -> None:
    """Open pages of the console have something new to show."""
    open_pages.tell(cluster, {"console": ("drift", "needs")}, now=now)


def prune(*, now: datetime) -> int:
    """Forget what is long over; answers how many lines."""
    past = Drift.objects.filter(healed_at__isnull=False)
    last = past.order_by("-healed_at").values_list("healed_at", flat=True)[MOST_KEPT : MOST_KEPT + 1].first()
    too_many = Q(healed_at__lte=last) if last else Q(pk=None)
    return past.filter(Q(healed_at__lt=now - KEPT) | too_many).delete()[0]


def _restless(model: type[Reconciled], noted: Collection[str], now: datetime) -> dict[str, str]:
    """Rows that are due or failing, and what they say of that: all that are noted, and some of the others.

    RULE: a row that was woken a moment ago opens no line: often it has nothing to do.
    """
    mine = _living(model, now, now).filter(pk__in=noted) if noted else ()
    others = _others(model)(now, now - PATIENCE)
    return {str(pk): _words(conditions) for pk, conditions in [*mine, *others]}


def _living(model: type[Reconciled], now: Any, due_by: Any) -> QuerySet[Any, tuple[UUID, Any]]:
    living = model._default_manager.filter(deleted_at=None, deleting_at=None)
    restless = Q(attempts__gt=0) | Q(lease_until__gt=now) | Q(due_at__lte=due_by)
    return living.filter(restless).values_list("pk", "conditions")


@cache
def _others(model: type[Reconciled]) -> Prepared[tuple[UUID, Any]]:
    return Prepared(
        lambda now, due_by: _living(model, now, due_by)[:_AT_ONCE], DateTimeField(), DateTimeField()
    )


def _words(conditions: Any) -> str:
    synced = find(conditions, SYNCED)
    return str(synced["message"]) if synced and synced["status"] == "False" else ""


def _open(seen: MirrorObject, words: str, now: datetime) -> None:
    how = DriftKind.MISSING if seen.gone_at else DriftKind.LEAVING if seen.deleting else DriftKind.UNREAD
    tenant = seen.body.get("metadata", {}).get("labels", {}).get(LABEL_TENANT, "")
    kept = _line(how, []) | _owner(seen.owner_kind, seen.owner_id, tenant) | {"message": words}
    _write(seen.cluster, seen.ref, kept, found_at=seen.gone_at or now, now=now, knows=False)


def _end(row: Drift, now: datetime) -> None:
    """What no reconcile has compared tells nobody anything once it is over; nor does what was removed and is
    wanted no more.
    """
    still = Drift.objects.filter(pk=row.pk, healed_at=None)
    there = MirrorObject.objects.filter(cluster=row.cluster_id, gone_at=None, **row.ref._asdict())
    was_missing = row.how == DriftKind.MISSING
    if row.how in (DriftKind.UNREAD, DriftKind.LEAVING) or (was_missing and not there.exists()):
        still.delete()
    else:
        still.update(healed_at=now, message="")
    tell(row.cluster_id, now=now)


def _note(
    cluster: Cluster, step: Apply, how: DriftKind, fields: Sequence[FieldDrift], *, now: datetime
) -> None:
    labels = step.manifest["metadata"].get("labels", {})
    owner = _owner(labels.get(LABEL_OWNER, ""), labels.get(LABEL_UID, ""), labels.get(LABEL_TENANT, ""))
    _write(cluster, step.ref, _line(how, fields) | owner, found_at=now, now=now)


def _write(
    cluster: Cluster,
    ref: ObjectRef,
    kept: dict[str, Any],
    *,
    found_at: datetime,
    now: datetime,
    knows: bool = True,
) -> None:
    """Over the open line of this object, else over one that told the same a short while ago, else anew.

    RULE: the sweep, which has compared nothing (`knows` is False), leaves an open line as it is: a reconcile
    has written it since the sweep looked.
    """
    kept = {"healed_at": None, "seen_at": now} | kept
    mine = _of(cluster, ref)
    tell(cluster.pk, now=now)
    renewed = kept if knows else {"seen_at": now}
    if mine.filter(healed_at=None).update(**renewed):
        return
    before = mine.filter(healed_at__gt=now - AGAIN, how=kept["how"]).order_by("-healed_at").first()
    if before is not None and _paths(before.fields) == _paths(kept["fields"]):
        asked = {"asked_by": "", "asked_at": None}
        mine.filter(pk=before.pk).update(**kept, **asked, times=F("times") + 1)
        return
    try:
        with transaction.atomic():
            Drift.objects.create(cluster=cluster, **ref._asdict(), **kept, found_at=found_at)
    except IntegrityError:
        # Another worker, or the sweep, has opened it in this moment.
        mine.filter(healed_at=None).update(**renewed)


def _line(how: DriftKind, fields: Sequence[FieldDrift]) -> dict[str, Any]:
    return {
        "how": how, "fields": list(fields[:MOST_FIELDS]), "more_fields": max(0, len(fields) - MOST_FIELDS)
    }  # fmt: skip


def _owner(kind: str, pk: str, tenant: str) -> dict[str, Any]:
    return {"owner_kind": kind, "owner_id": pk, "tenant": tenant}


def _paths(fields: Sequence[FieldDrift]) -> list[str]:
    return [field["path"] for field in fields]


def _of(cluster: Cluster, ref: ObjectRef) -> QuerySet[Drift]:
    return Drift.objects.filter(cluster=cluster, **ref._asdict())


def _key(row: Drift | MirrorObject) -> Key:
    return row.cluster_id, row.ref
