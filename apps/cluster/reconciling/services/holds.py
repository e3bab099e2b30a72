"""A cluster that is held: nothing is written to it. And the objects of ours there that no row knows.

A database that came out of a backup is older than its clusters; what it would write has to be seen first
(`portal.operate.restoring`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster.errors import Rejected
from apps.cluster.gateway.port import Gateway, open_gateway
from apps.cluster.models import Cluster, MirrorObject, Reconciled, WatchPosition
from apps.cluster.objects.kinds import WATCHED
from apps.cluster.reconciling.services.sweep import ROWS
from apps.cluster.specs import ObjectRef

KEPT = "PersistentVolumeClaim"
"""Somebody's files: never removed from here."""


@dataclass(frozen=True)
class Unknown:
    """What is in a cluster of a row that the database does not have, or has as removed."""

    owner: str
    uid: str
    objects: tuple[tuple[ObjectRef, str], ...]
    """Each with its uid."""

    @property
    def words(self) -> str:
        """One line of a list."""
        names = ", ".join(str(ref) for ref, _ in self.objects)
        return f"{self.owner} {self.uid}: {names}"


@dataclass(frozen=True)
class Removed:
    """What was removed, and what the cluster refused, in its words."""

    objects: list[ObjectRef] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def hold(actor: Actor, cluster: Cluster, *, reason: str, now: datetime) -> None:
    """Nothing is written to it from now on, and its watcher lists it whole. In the caller's transaction."""
    cluster.held_since = now
    cluster.save(update_fields=["held_since"])
    WatchPosition.objects.filter(cluster=cluster).delete()
    audit.record(actor, "cluster.held", cluster, now=now, reason=reason)


def release(actor: Actor, cluster: Cluster, *, now: datetime) -> None:
    """Workers write to it again, and look at every row of it. In the caller's transaction."""
    cluster.held_since = None
    cluster.save(update_fields=["held_since"])
    audit.record(actor, "cluster.released", cluster, now=now)
    for label in ROWS.values():
        _rows(label, cluster).update(due_at=now, attempts=0)


def unlisted(cluster: Cluster) -> list[str]:
    """The kinds of which the mirror may not be whole: its watcher has not listed them since the hold."""
    listed = WatchPosition.objects.filter(cluster=cluster, listed_at__gte=cluster.held_since)
    return sorted(set(WATCHED) - set(listed.values_list("kind", flat=True)))


def unknown_in(cluster: Cluster) -> Iterator[Unknown]:
    """The objects that carry our labels and belong to no living row, by the row that they name."""
    ours = MirrorObject.objects.filter(
        cluster=cluster, gone_at=None, deleting=False, is_managed=True, controller_uid="", owner_kind__in=ROWS
    ).order_by("owner_kind", "owner_id", "kind", "namespace", "name")
    owners: dict[tuple[str, str], list[tuple[ObjectRef, str]]] = {}
    for row in ours.only("kind", "namespace", "name", "uid", "owner_kind", "owner_id"):
        owners.setdefault((row.owner_kind, row.owner_id), []).append((row.ref, row.uid))
    known = {
        (owner, str(pk))
        for owner, label in ROWS.items()
        for pk in _rows(label, cluster).values_list("pk", flat=True)
    }
    for (owner, uid), objects in owners.items():
        if (owner, uid) not in known:
            yield Unknown(owner, uid, tuple(objects))


def remove(
    actor: Actor,
    cluster: Cluster,
    unknown: Iterable[Unknown],
    *,
    reason: str,
    now: datetime,
    gateway: Gateway | None = None,
) -> Removed:
    """Remove what belongs to no workload that the database knows; volumes stay, and Secrets, which no watch
    tells of, and so does whatever is of another kind of row: with a namespace goes everything in it.
    """
    way, done = gateway or open_gateway(cluster), Removed()
    for each in unknown:
        if each.owner == "workload":
            _remove(way, each, done)
    if done.objects:
        changes = {"removed": [[str(ref) for ref in done.objects], None]}
        with transaction.atomic():
            audit.record(actor, "cluster.unknown-removed", cluster, now=now, changes=changes, reason=reason)
    return done


def _remove(gateway: Gateway, unknown: Unknown, done: Removed) -> None:
    for ref, uid in unknown.objects:
        if ref.kind == KEPT:
            continue
        try:
            gateway.delete(ref, uid=uid)
        except Rejected as error:
            done.refused.append(f"{ref}: {error.message}")
        else:
            done.objects.append(ref)


def _rows(label: str, cluster: Cluster) -> Any:
    model: type[Reconciled] = apps.get_model(label)
    return model._default_manager.filter(cluster=cluster, deleted_at=None)
