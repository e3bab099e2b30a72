"""Which objects that we applied are no longer as we left them."""

from collections.abc import Iterable
from typing import Any

from django.db.models import CharField, F, Q, QuerySet, UUIDField

from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.kinds import APPLIED
from apps.cluster.specs import ObjectRef
from apps.prepared import Prepared

_OTHERWISE = Q(gone_at__isnull=False) | Q(deleting=True) | ~Q(live_hash=F("applied_hash"))


def differing(owners: Iterable[str]) -> list[MirrorObject]:
    """Of what we applied for these rows all that has gone, leaves, or reads otherwise than we left it."""
    return list(_differing().filter(owner_id__in=list(owners)).select_related("cluster"))


def owners_of_differing(cluster: Cluster) -> set[tuple[str, str]]:
    """Whose objects differ so; looks at all of a cluster, so not for a request."""
    return set(_differing().filter(cluster=cluster).values_list("owner_kind", "owner_id"))


def taken(cluster: Cluster, refs: Iterable[ObjectRef]) -> dict[ObjectRef, MirrorObject]:
    """Which of these objects we had applied and the watch saw go, without a delete of ours; not their
    bodies.
    """
    wanted = {ref for ref in refs if ref.kind in APPLIED}
    columns = [sorted(set(column)) for column in zip(*wanted, strict=True)]
    found = _TAKEN(cluster.pk, *columns) if columns else []
    known = {row.ref: row for row in found}
    return {ref: known[ref] for ref in wanted & known.keys()}


def _taken(cluster: Any, kinds: Any, spaces: Any, names: Any) -> QuerySet[MirrorObject]:
    rows = MirrorObject.objects.filter(cluster=cluster, kind__in=kinds, namespace__in=spaces, name__in=names)
    return rows.filter(gone_at__isnull=False).exclude(sent_hash="").defer("body")


_TAKEN = Prepared(_taken, UUIDField(), CharField(), CharField(), CharField())


def _differing() -> QuerySet[MirrorObject]:
    return MirrorObject.objects.filter(_OTHERWISE, kind__in=APPLIED).exclude(sent_hash="")
