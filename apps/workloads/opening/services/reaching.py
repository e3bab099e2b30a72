"""Where a workload answers: by its name in its cluster's DNS from inside, through the API server else."""

import random
from collections.abc import Collection
from dataclasses import dataclass

from django.conf import settings

from apps.cluster.gateway.forwarding import Way
from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import MirrorObject
from apps.cluster.specs import Body
from apps.errors import Conflict
from apps.sealing import KeyMissing
from apps.tenants.specs import NOTEBOOKS
from apps.workloads import registry
from apps.workloads.models import Workload
from apps.workloads.secrets.selectors.sealed import ide_token
from apps.workloads.selectors import reading
from apps.workloads.specs import SET, Kind

NONE_RUNS, WHEN_IT_RUNS = "No pod of it runs.", "Open it once it runs."


@dataclass(frozen=True)
class Upstream:
    """What answers: `host` and `port` as the cluster names them, what an IDE wants to hear (empty: it is
    none), and the way through the API server to one pod; None: straight, to a notebook's only pod or to
    whichever a Service chooses.
    """

    host: str
    port: int
    token: str
    way: Way | None
    pod: str = ""


def upstream(row: Workload, *, straight: bool = True, without: Collection[str] = ()) -> Upstream:
    """Raises Conflict where no pod of it runs, ClusterUnavailable where its cluster cannot be asked. Never
    `straight` for whoever is not the door. `without`: pods to be taken only where no other is ready.
    """
    host = f"{_name_of(row)}.{row.tenant.object_name}.svc"
    port = reading.port_of(row)
    token = _token_of(row) if row.kind == Kind.NOTEBOOK else ""
    if straight and row.cluster.slug == settings.CONFIG.door_cluster:
        return Upstream(host, port, token, None)
    pod = _pod_of(row, without)
    way = open_gateway(row.cluster).port_forward(row.tenant.object_name, pod, port)
    return Upstream(host, port, token, way, pod)


def _token_of(row: Workload) -> str:
    try:
        return ide_token(row)
    except KeyMissing:
        raise Conflict(
            "Its IDE was started under a secret key that this installation no longer has.",
            hint="Stop it and start it again; its disk stays.",
        ) from None


def _name_of(row: Workload) -> str:
    """Of the Service of a service; of a notebook's pod below the headless Service that names it."""
    if row.kind != Kind.NOTEBOOK:
        return row.object_name
    sets = MirrorObject.objects.filter(
        cluster=row.cluster_id, kind=SET, namespace=row.tenant.object_name, name=row.object_name, gone_at=None
    )
    service = reading.named_by(sets.values_list("body", flat=True).first())
    return f"{row.object_name}-0.{service}" if service else f"{row.object_name}.{NOTEBOOKS}"


def pod_at(row: Workload, place: int) -> str:
    """One of its pods that run, counted from 0 in the order of their names; Conflict where there is none."""
    names = running_pods(row)
    if place >= len(names):
        runs = f"{len(names)} of its pods run." if names else NONE_RUNS
        raise Conflict(runs, hint="Count them from 0." if names else WHEN_IT_RUNS)
    return names[place]


def running_pods(row: Workload) -> list[str]:
    """The names of its pods that run, in their order."""
    return sorted(
        name for name, body in _pods_of(row) if (body.get("status") or {}).get("phase") == "Running"
    )


def _pods_of(row: Workload) -> list[tuple[str, Body]]:
    """By name, with their bodies, the newest first."""
    pods = MirrorObject.objects.filter(
        cluster=row.cluster_id, kind="Pod", namespace=row.tenant.object_name,
        owner_id=str(row.pk), gone_at=None, deleting=False,
    )  # fmt: skip
    return list(pods.order_by("-created_at").values_list("name", "body"))


def _pod_of(row: Workload, without: Collection[str]) -> str:
    """Any pod that is ready; where none is, the newest."""
    found = _pods_of(row)
    if not found:
        raise Conflict(NONE_RUNS, hint=WHEN_IT_RUNS)
    ready = [name for name, body in found if registry.of(row.kind).is_ready(body)]
    better = [name for name in ready if name not in without]
    return str(random.choice(better or ready) if ready else found[0][0])
