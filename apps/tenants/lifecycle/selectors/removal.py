"""What goes when a tenant is deleted, object by object, from the mirror. Reads only.

Many kinds are only watched by our label: `live.removal_now` asks the cluster for everything else. Cost
records, allocations and the audit record are rows of ours and stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.db.models import Q

from apps.cluster.models import MirrorObject
from apps.cluster.objects import quantities
from apps.cluster.specs import Body
from apps.tenants.models import Tenant
from apps.tenants.selectors import dependents_of
from apps.tenants.specs import RESERVE_SUFFIX

STAYS = ("cost records and allocations", "the audit record", "the slug, which is never used again")
_PASSING = ("Event",)
NEVER_SEEN = (
    "Allotment has no right to list Secrets, nor kinds that it does not work with, such as ReplicaSets, "
    "DaemonSets, CronJobs, Roles, Ingresses and custom resources. The namespace takes them along."
)


@dataclass(frozen=True)
class Volume:
    """A volume claim that goes, with its data."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Objects:
    """Every object of one kind that goes, by `namespace/name`."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Removal:
    """All that goes, and what stays; `unseen` says in sentences what may go besides."""

    objects: tuple[Objects, ...]
    volumes: tuple[Volume, ...]
    rows: dict[str, int]
    stays: tuple[str, ...] = STAYS
    unseen: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many objects go."""
        return sum(len(each.names) for each in self.objects)

    @property
    def volume_bytes(self) -> int:
        """How much data goes."""
        return sum(volume.size_bytes for volume in self.volumes)


def removal_of(tenant: Tenant) -> Removal:
    """What the deletion of a tenant takes, as the mirror has it now.

    Rule: all that lies in its namespace and all that carries its row's uid, such as accounts of its members
    and its queue. Of a namespace that was there before, only what is ours.
    """
    found = list(_rows(tenant))
    kinds: dict[str, list[str]] = {}
    for row in found:
        place = f"{row.namespace}/{row.name}" if row.namespace else row.name
        kinds.setdefault(row.kind, []).append(place)
    objects = tuple(Objects(kind, tuple(sorted(names))) for kind, names in sorted(kinds.items()))
    volumes = (Volume(row.name, _size(row.body)) for row in found if row.kind == "PersistentVolumeClaim")
    return Removal(objects, tuple(sorted(volumes, key=lambda v: v.name)), dependents_of(tenant))


def with_found(
    known: Removal, space: str, found: Mapping[str, Sequence[Body]], unseen: Sequence[str]
) -> Removal:
    """The same with what the cluster told of the namespace beyond the mirror, by kind."""
    kinds = {each.kind: set(each.names) for each in known.objects}
    for kind, bodies in found.items():
        kinds.setdefault(kind, set()).update(f"{space}/{body['metadata']['name']}" for body in bodies)
    volumes = {volume.name: volume for volume in known.volumes}
    for body in found.get("PersistentVolumeClaim", ()):
        volumes[body["metadata"]["name"]] = Volume(body["metadata"]["name"], _size(body))
    objects = (Objects(kind, tuple(sorted(names))) for kind, names in sorted(kinds.items()) if names)
    by_name = (volumes[name] for name in sorted(volumes))
    return replace(known, objects=tuple(objects), volumes=tuple(by_name), unseen=tuple(unseen))


def _rows(tenant: Tenant) -> Iterable[MirrorObject]:
    name = tenant.object_name
    queues = Q(kind="ClusterQueue", name__in=[name, f"{name}{RESERVE_SUFFIX}"])
    inside = Q(namespace=name) | Q(owner_id=str(tenant.pk)) | queues
    rows = MirrorObject.objects.filter(inside, cluster=tenant.cluster_id, gone_at=None)
    if tenant.is_namespace_adopted:
        rows = rows.filter(is_managed=True).exclude(kind="Namespace")
    return rows.exclude(kind__in=_PASSING).only("kind", "namespace", "name", "body")


def _size(body: Body) -> int:
    spec = body.get("spec") or {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    return quantities.memory_bytes(asked)
