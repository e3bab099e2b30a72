"""What a workload amounts to in cluster and database, written so that two lives of the same request compare.

Names, ids, versions, times and hashes are taken out; what stays is every object with every field that anybody
set, and what the row says.
"""

import base64
import json
import re
from typing import Any

from django.db.models import Q

from apps.cluster.objects.kinds import KINDS
from apps.cluster.objects.names import LABEL_MANAGED_BY, LABEL_OWNER, LABEL_UID, MANAGER
from apps.sealing import IDE, SALT, derived
from apps.workloads.models import Workload, WorkloadEvent
from tests.drills.world import MODELS, World
from tests.tenants.in_process import resource

CHILDREN = ("Pod", "Workload", "ResourceClaim")
"""What others make of our objects; compared by number."""
OURS = tuple(kind for kind, info in KINDS.items() if info.level is not None)
_UNEQUAL = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")
_HASH = re.compile(r"\b[0-9a-f]{16,64}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"\b10\.96\.\d+\.\d+\b")
"""Of a Service: any free one."""
_TAIL = re.compile(r"<name>-[0-9a-f]{5}\b")

FIRST_APPLIES = [f"apply {kind} 1" for kind in ("PersistentVolumeClaim", "Pod", "Secret")]
"""What a notebook's first reconcile writes, sorted."""
Dump = dict[str, Any]


def dump(world: World, row: Workload) -> Dump:
    """The normalised state of one workload; the only one that is alive in its tenant."""
    row.refresh_from_db()
    namespace = world.tenant.object_name
    objects = {
        kind: [
            _plain(body, row)
            for body in _labelled(world, kind)
            if body["metadata"]["labels"][LABEL_UID] == str(row.pk)
            and not body["metadata"].get("ownerReferences")
        ]
        for kind in OURS
    }
    children = {kind: len(world.door.client.list(resource(kind), namespace)) for kind in CHILDREN}
    return {"objects": {k: v for k, v in objects.items() if v}, "children": children, "row": _row(row)}


def volumes(world: World, row: Workload) -> list[str]:
    """The uids of its volume claims: a life keeps the same ones."""
    claims = _labelled(world, "PersistentVolumeClaim")
    return [c["metadata"]["uid"] for c in claims if c["metadata"]["labels"][LABEL_UID] == str(row.pk)]


def difference(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two dumps differ, as lines for a person."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [line for k in keys for line in difference(one.get(k), other.get(k), f"{path}/{k}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for n, (a, b) in pairs for line in difference(a, b, f"{path}/{n}")]
    return [] if one == other else [f"{path}: {one} instead of {other}"]


def restless() -> list[str]:
    """Rows that somebody would look at for ever: gone ones that have a date, and any that are held."""
    held_or_dated = (
        Q(lease_until__isnull=False) | ~Q(lease_owner="") | Q(deleted_at__isnull=False, due_at__isnull=False)
    )
    return [
        f"{owner} {row.pk}: due {row.due_at}, held by {row.lease_owner or 'nobody'} until {row.lease_until}"
        for owner, model in MODELS.items()
        for row in model._default_manager.filter(held_or_dated)
    ]


def orphans(world: World) -> list[str]:
    """Objects that carry a workload's labels although no living row wants them."""
    alive = set(map(str, Workload.objects.filter(deleted_at=None).values_list("pk", flat=True)))
    return [
        f"{kind} {body['metadata']['name']}"
        for kind in OURS
        for body in _labelled(world, kind)
        if body["metadata"]["labels"].get(LABEL_OWNER) == "workload"
        and body["metadata"]["labels"][LABEL_UID] not in alive
    ]


def credentials(world: World) -> list[str]:
    """What a token could be asked for or read from in the tenant's namespace, and who binds rights to it."""
    return sorted(
        f"{kind} {body['metadata']['name']}"
        for kind in ("secrets", "serviceaccounts", "rolebindings.rbac.authorization.k8s.io")
        for body in world.door.client.list(kind, world.tenant.object_name)
    )


def duplicates(world: World) -> list[str]:
    """More than one object of a kind for one row: notebooks and jobs of one pod have one of each at most."""
    seen: dict[tuple[str, str], int] = {}
    for kind in OURS:
        for body in _labelled(world, kind):
            key = (kind, body["metadata"]["labels"][LABEL_UID])
            seen[key] = seen.get(key, 0) + 1
    several = {"ServiceAccount", "RoleBinding", "NetworkPolicy", "ResourceQuota", "LimitRange"}
    return [f"{n} x {kind} of {uid}" for (kind, uid), n in seen.items() if n > 1 and kind not in several]


def _labelled(world: World, kind: str) -> list[Any]:
    selector = f"{LABEL_MANAGED_BY}={MANAGER},{LABEL_UID}"
    return list(world.door.client.list(resource(kind), labels=selector))


def _plain(body: Any, row: Workload) -> Any:
    metadata = {key: value for key, value in body["metadata"].items() if key not in _UNEQUAL}
    kept = {key: value for key, value in body.items() if key not in ("status", "metadata")}
    if body["kind"] == "Secret":
        token = base64.b64encode(derived(IDE, str(row.pk)).encode()).decode()
        salt = base64.b64encode(derived(SALT, str(row.pk)).encode()).decode()
        hidden = {token: "<token>", salt: "<salt>"}
        kept["data"] = {key: hidden.get(text, text) for key, text in body["data"].items()}
    text = json.dumps({**kept, "metadata": metadata}, sort_keys=True)
    for unequal, word in ((row.object_name, "<name>"), (str(row.pk), "<id>"), (row.slug, "<slug>")):
        text = text.replace(unequal, word)
    text = _ADDRESS.sub("<address>", _HASH.sub("<hash>", text))
    return json.loads(_TAIL.sub("<name>-<hash>", text))


def _row(row: Workload) -> Dump:
    # How much of what the cluster says of a run is still there at its end hangs on when that is read.
    ours = WorkloadEvent.objects.filter(workload=row).exclude(source="kubernetes")
    story = ours.order_by("pk").values_list("reason", flat=True)
    return {
        "phase": row.phase,
        "conditions": {c["type"]: (c["status"], c["reason"]) for c in row.conditions},
        "generations": (row.generation, row.observed_generation),
        "attempts": row.attempts,
        "lease": (row.lease_owner, row.lease_until),
        "pods": len(row.placement),
        "lives": row.deleted_at is None,
        "times": [bool(at) for at in (row.started_at, row.ended_at, row.stops_at)],
        "story": list(story),
    }
