"""The mirror table: the only place that writes it, and how the reconcile floor reads it.

The watcher and the answers to applies write at the same time, so every write says which version it is and
never overwrites a newer one. An object's owner row comes from its labels, else from what it belongs to (pod
of a StatefulSet, Kueue Workload of a Job, claim of a pod, Event of any of them).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import BigAutoField, BigIntegerField, CharField, QuerySet, UUIDField
from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting, columns
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects import trim
from apps.cluster.objects.kinds import KINDS
from apps.cluster.objects.names import LABEL_TENANT
from apps.cluster.specs import Body, ObjectRef, Observed
from apps.prepared import Prepared, PreparedUpdate

_LONGEST_DESCENT = 4
"""Workload - pod - claim - Event: nothing we watch lies deeper below a labelled object."""
_AT_ONCE = 200

_OWNED = Prepared(
    lambda owner: MirrorObject.objects.filter(owner_id=owner, gone_at=None).exclude(kind="Event"), CharField()
)

_SENT = Prepared(
    lambda owner: MirrorObject.objects.filter(owner_id=owner).exclude(sent_hash="").only("pk"), CharField()
)

Owner = tuple[str, str]
Columns = dict[str, Any]


@dataclass
class Changes:
    """What a batch changed: rows to wake (`owner kind`, `owner id`), kinds, and tenants whose queues
    moved.
    """

    owners: set[Owner] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    tenants: set[str] = field(default_factory=set)
    rows: list[MirrorObject] = field(default_factory=list)

    def add(self, row: MirrorObject, *, moves: bool = True) -> None:
        """Note that this row looks different now; `moves`: also to the reconcile of what it belongs to."""
        self.rows.append(row)
        self.kinds.add(row.kind)
        if moves:
            self.wake(row)
        tenant = row.body.get("metadata", {}).get("labels", {}).get(LABEL_TENANT)
        if tenant and row.kind in ("ClusterQueue", "LocalQueue"):
            self.tenants.add(tenant)

    def wake(self, row: MirrorObject) -> None:
        """What this belongs to has to look at it."""
        if row.owner_id and KINDS[row.kind].moves is not None:
            self.owners.add((row.owner_kind, row.owner_id))


def observed_for(owner_id: str | UUID) -> dict[ObjectRef, Observed]:
    """Everything in the cluster that belongs to a row, its children included; without Events
    (`events_for`).
    """
    return {seen.ref: seen for seen in map(observed, _OWNED(str(owner_id)))}


def events_for(owner_id: str | UUID) -> list[Body]:
    """The Kubernetes Events about a row's objects, oldest first."""
    rows = MirrorObject.objects.filter(owner_id=str(owner_id), kind="Event", gone_at=None)
    return list(rows.order_by("resource_version").values_list("body", flat=True))


def observed(row: MirrorObject) -> Observed:
    """A row as the pure modules take it."""
    return Observed(
        ref=row.ref, uid=row.uid, resource_version=row.resource_version, owner_kind=row.owner_kind,
        owner_id=row.owner_id, controller_uid=row.controller_uid, generation=row.generation,
        is_managed=row.is_managed, deleting=row.deleting, sent_hash=row.sent_hash,
        applied_hash=row.applied_hash, live_hash=row.live_hash, body=row.body,
    )  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What the API server answered to an apply, and the hash of what was sent."""

    kind: str
    body: Body
    sent_hash: str


def record_applied(cluster: Cluster, answers: Sequence[Answer]) -> dict[ObjectRef, Observed]:
    """Keep the answers to a level's applies, and answer them as observed. Where the watcher has already seen
    a newer version, only the hashes are ours.

    Most are new and are only inserted; the rest show in one look at all of them, and are updated one by one,
    each committed by itself: held together they could wait for the watcher's batch while that waits for them.
    """
    kept: dict[ObjectRef, tuple[Columns, Columns]] = {}
    for answer in answers:
        seen = Sighting(answer.kind, answer.body)
        facts = columns(seen)
        kept[seen.ref] = facts, {"sent_hash": answer.sent_hash, "applied_hash": facts["live_hash"]}
    rows = [
        MirrorObject(cluster=cluster, **r._asdict(), **facts, **ours) for r, (facts, ours) in kept.items()
    ]
    _insert(rows)
    for row in _among(cluster, kept, whole=False):
        if row.ref in kept:
            _complete(row, *kept[row.ref])
    return {row.ref: observed(row) for row in rows}


def _among(cluster: Cluster, refs: Iterable[ObjectRef], *, whole: bool = True) -> list[MirrorObject]:
    """The rows of these objects, and now and then one more of another kind or namespace; `whole`: with
    their bodies.

    RULE: always with the namespaces. Every tenant has a LocalQueue `gpu`: by names alone a look at one of
    them reads them all.
    """
    columns = [sorted(set(column)) for column in zip(*refs, strict=True)]
    return (_WHOLE if whole else _HEADS)(cluster.pk, *columns) if columns else []


def _named(cluster: Any, kinds: Any, spaces: Any, names: Any) -> QuerySet[MirrorObject]:
    return MirrorObject.objects.filter(cluster=cluster, kind__in=kinds, namespace__in=spaces, name__in=names)


_KEY = UUIDField(), CharField(), CharField(), CharField()
_WHOLE, _HEADS = Prepared(_named, *_KEY), Prepared(lambda *key: _named(*key).defer("body"), *_KEY)


def _complete(row: MirrorObject, facts: Columns, ours: Columns) -> None:
    """Bring a row that was there before to the answer; of a newer version of the object the hashes alone."""
    hashed = row.sent_hash == ours["sent_hash"] and row.applied_hash == ours["applied_hash"]
    if hashed and row.gone_at is None and row.resource_version >= facts["resource_version"]:
        return
    whole = {**facts, **ours, "gone_at": None, "seen_at": timezone.now()}
    if not _written(tuple(whole))(row.pk, facts["resource_version"] + 1, *whole.values()):
        MirrorObject.objects.filter(pk=row.pk, uid=facts["uid"]).update(**ours)


@cache
def _written(names: tuple[str, ...]) -> PreparedUpdate:
    """Writes these columns of a row that is older than a version."""

    def build(pk: Any, version: Any, *places: Any) -> tuple[QuerySet[MirrorObject], dict[str, Any]]:
        older = MirrorObject.objects.filter(pk=pk, resource_version__lt=version)
        return older, dict(zip(names, places, strict=True))

    columns: list[Any] = [MirrorObject._meta.get_field(name) for name in names]
    return PreparedUpdate(build, BigAutoField(), BigIntegerField(), *columns)


def let_go(cluster: Cluster, ref: ObjectRef, *, uid: str) -> None:
    """We no longer want it. Without `sent_hash` nobody takes its end for something done by hand.

    RULE: before the delete is sent, because its answer may be lost, or the worker with it.
    """
    _row(cluster, ref).filter(uid=uid).exclude(sent_hash="").update(sent_hash="")


def let_all_go(owner_id: str | UUID) -> None:
    """The same of all that was applied for a row. One by one, as in `record_applied`."""
    for row in _SENT(str(owner_id)):
        MirrorObject.objects.filter(pk=row.pk).update(sent_hash="")


def mark_deleting(cluster: Cluster, ref: ObjectRef, *, uid: str) -> None:
    """The server took our delete; its own word (a DELETED event, or a deletionTimestamp) follows on the
    watch.
    """
    _row(cluster, ref).filter(uid=uid).update(deleting=True)


def forces(cluster: Cluster, ref: ObjectRef) -> list[datetime]:
    """When we lately took this object's fields back from another manager."""
    kept = _row(cluster, ref).values_list("forced_at", flat=True).first() or []
    return [datetime.fromisoformat(at) for at in kept]


def note_forces(cluster: Cluster, ref: ObjectRef, times: Sequence[datetime]) -> None:
    """Replace what `forces` answers."""
    _row(cluster, ref).update(forced_at=[at.isoformat() for at in times])


def tombstone(cluster: Cluster, ref: ObjectRef, *, uid: str, now: datetime) -> None:
    """The server says that this uid is gone."""
    _row(cluster, ref).filter(uid=uid, gone_at=None).update(gone_at=now, sent_hash="")


def record_seen(cluster: Cluster, sightings: Sequence[Sighting], *, now: datetime) -> Changes:
    """Write what watches saw, the last sighting of each object; must run inside a transaction of the caller.

    A version that is not newer than the row's is ignored (the echo of our own apply is one), another uid
    under the same name starts the row afresh, and an Event is kept if it is a warning or about something of
    ours: a cluster makes thousands of the others an hour. RULE: rows are written in one order, as in
    `_insert`.
    """
    latest = {sighting.ref: sighting for sighting in sightings}
    changes = Changes()
    rows = _load(cluster, latest)
    fresh = {ref: columns(s) for ref, s in latest.items() if ref not in rows and not s.is_gone}
    _inherit(cluster, list(fresh.values()))
    strange = [r for r, facts in fresh.items() if not facts["owner_id"] and _is_normal(r, facts["body"])]
    for row in _create(cluster, {ref: facts for ref, facts in fresh.items() if ref not in strange}):
        if row.resource_version == latest[row.ref].resource_version:
            changes.add(row)
        else:
            rows[row.ref] = row
    for ref, row in sorted(rows.items()):
        change = _update(row, latest[ref], now)
        if change:
            changes.add(row, moves=change == _MOVES)
    _adopt(cluster, changes)
    return changes


def bury_absent(
    cluster: Cluster,
    kind: str,
    items: Sequence[Body],
    *,
    earlier: Collection[str] = (),
    resource_version: int,
    now: datetime,
) -> Changes:
    """Mark as gone what the mirror knows and a whole list of this version no longer shows; `earlier` are the
    uids of its pages before these items.

    A row that is newer than the list was applied while the list was on its way; it stays. Of the rows that
    are still there only names and uids are read. RULE: in the order of `record_seen`.
    """
    changes = Changes()
    listed = {*earlier, *(item["metadata"]["uid"] for item in items)}
    known = MirrorObject.objects.filter(
        cluster=cluster, kind=kind, gone_at=None, resource_version__lte=resource_version
    )
    heads = known.values_list("namespace", "name", "pk", "uid").iterator()
    absent = [pk for _, _, pk, _ in sorted(head for head in heads if head[-1] not in listed)]
    for start in range(0, len(absent), _AT_ONCE):
        for row in sorted(
            MirrorObject.objects.filter(pk__in=absent[start : start + _AT_ONCE]), key=attrgetter("ref")
        ):
            if _bury(MirrorObject.objects.filter(pk=row.pk, uid=row.uid), kind, {"gone_at": now}):
                changes.add(row)
    return changes


def _row(cluster: Cluster, ref: ObjectRef) -> QuerySet[MirrorObject]:
    return MirrorObject.objects.filter(cluster=cluster, **ref._asdict())


def _load(cluster: Cluster, refs: Collection[ObjectRef]) -> dict[ObjectRef, MirrorObject]:
    return {row.ref: row for row in _among(cluster, refs) if row.ref in refs}


def _inherit(cluster: Cluster, fresh: Sequence[Columns]) -> None:
    """What is about to be inserted without labels of ours gets the owner row of what it belongs to, in the
    mirror or beside it; whose parent is seen later is left to `_adopt`.
    """
    orphans = [facts for facts in fresh if not facts["owner_id"] and facts["controller_uid"]]
    parents = _PARENTS(cluster.pk, sorted({facts["controller_uid"] for facts in orphans}))
    owners = {parent.uid: (parent.owner_kind, parent.owner_id) for parent in parents}
    owners |= {f["uid"]: (f["owner_kind"], f["owner_id"]) for f in fresh if f["uid"] and f["owner_id"]}
    for _ in range(_LONGEST_DESCENT):
        adopted = [facts for facts in orphans if facts["controller_uid"] in owners]
        for facts in adopted:
            facts["owner_kind"], facts["owner_id"] = owners[facts["uid"]] = owners[facts["controller_uid"]]
        orphans = [facts for facts in orphans if not facts["owner_id"]] if adopted else []


def _is_normal(ref: ObjectRef, body: Mapping[str, Any]) -> bool:
    return ref.kind == "Event" and str(body.get("type", "Normal")) == "Normal"


def _insert(rows: Iterable[MirrorObject]) -> None:
    """RULE: always in one order. Who inserts waits for whoever has just inserted the same and not committed:
    watcher and workers in different orders would wait for each other.
    """
    in_order = sorted(rows, key=attrgetter("ref"))
    if in_order:
        MirrorObject.objects.bulk_create(in_order, ignore_conflicts=True, batch_size=_AT_ONCE)


def _create(cluster: Cluster, fresh: Mapping[ObjectRef, Columns]) -> list[MirrorObject]:
    """Insert, then read back: the answer to an apply may have come between, older or newer than ours."""
    if not fresh:
        return []
    _insert([MirrorObject(cluster=cluster, **ref._asdict(), **facts) for ref, facts in fresh.items()])
    return list(_load(cluster, fresh.keys()).values())


_MOVES, _DIFFERS, _SAME = "moves", "differs", ""


def _update(row: MirrorObject, seen: Sighting, now: datetime) -> str:
    """Bring a row to this sighting; answers whether something changed that a reconcile judges by, or only
    what others read, or nothing of either.
    """
    if seen.resource_version <= row.resource_version:
        return _SAME
    same = MirrorObject.objects.filter(pk=row.pk, resource_version__lt=seen.resource_version)
    facts = _facts(row, seen, now)
    if seen.is_gone:  # What it was last told of may have come in the same batch, of which this is the end.
        last = facts["body"] if row.uid == facts["uid"] else row.body
        gone = {"gone_at": now, "resource_version": seen.resource_version, "body": last}
        return _MOVES if _bury(same, row.kind, gone) else _SAME
    change = _difference(row, facts)
    if change == _SAME:
        # An older answer must not come over it; and whoever looks for what was seen lately finds nothing new.
        facts = {"resource_version": seen.resource_version}
    if not _written(tuple(facts))(row.pk, seen.resource_version, *facts.values()):
        return _SAME
    for name, value in facts.items():
        setattr(row, name, value)
    return change


def _facts(row: MirrorObject, seen: Sighting, now: datetime) -> Columns:
    """What the row is to hold after this sighting."""
    facts = columns(seen) | {"gone_at": None, "seen_at": now}
    if row.uid != facts["uid"]:
        facts |= {"sent_hash": "", "applied_hash": "", "forced_at": []}
    elif not facts["owner_id"] and row.controller_uid == facts["controller_uid"]:
        facts |= {"owner_kind": row.owner_kind, "owner_id": row.owner_id}
    if row.kind == "ResourceClaim" and row.uid == facts["uid"]:
        facts["body"] |= trim.released(row.body, facts["body"], now)
    return facts


def _difference(row: MirrorObject, facts: Columns) -> str:
    standing = ("uid", "deleting", "live_hash", "owner_id", "gone_at")
    if any(getattr(row, name) != facts[name] for name in standing):
        return _MOVES
    if row.body == facts["body"]:
        return _SAME
    judged = KINDS[row.kind].moves
    return _MOVES if judged and judged(row.body) != judged(facts["body"]) else _DIFFERS


def _bury(rows: QuerySet[MirrorObject], kind: str, facts: Mapping[str, Any]) -> bool:
    """RULE: a pod goes by itself, with its node or as it loses its place in the queue: never by hand."""
    if KINDS[kind].leaves_tombstone:
        return bool(rows.update(**facts, **({"sent_hash": ""} if kind == "Pod" else {})))
    removed, _ = rows.delete()
    return removed > 0


def _adopt(cluster: Cluster, changes: Changes) -> None:
    """Give objects without labels of ours the owner row of what they belong to, as deep as such chains go.

    Both ways: a child may be seen before its parent, because each kind has a watch of its own.
    """
    orphans = [row for row in changes.rows if not row.owner_id and row.controller_uid]
    parents = _PARENTS(cluster.pk, sorted({row.controller_uid for row in orphans}))
    found = _give(orphans, parents, changes)
    family = [row for row in changes.rows if row.owner_id and row.uid] + found
    for _ in range(_LONGEST_DESCENT):
        family = _give(_ORPHANS(cluster.pk, sorted({row.uid for row in family})), family, changes)


_PARENTS = Prepared(
    lambda cluster, uids: MirrorObject.objects.filter(cluster=cluster, uid__in=uids).exclude(owner_id=""),
    UUIDField(),
    CharField(),
)
_ORPHANS = Prepared(
    lambda cluster, uids: MirrorObject.objects.filter(cluster=cluster, controller_uid__in=uids, owner_id=""),
    UUIDField(),
    CharField(),
)


def _give(
    children: Sequence[MirrorObject], parents: Sequence[MirrorObject], changes: Changes
) -> list[MirrorObject]:
    by_uid = {parent.uid: parent for parent in parents}
    adopted = [child for child in children if child.controller_uid in by_uid]
    for child in adopted:
        parent = by_uid[child.controller_uid]
        child.owner_kind, child.owner_id = parent.owner_kind, parent.owner_id
        MirrorObject.objects.filter(pk=child.pk).update(owner_kind=child.owner_kind, owner_id=child.owner_id)
        changes.wake(child)
    return adopted


def prune(now: datetime, *, older_than: timedelta) -> int:
    """Forget objects that have been gone for longer; metering has read them by then. Answers how many."""
    return MirrorObject.objects.filter(gone_at__lt=now - older_than).delete()[0]
