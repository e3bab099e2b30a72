"""Pending positions: the visibility API's answers for a ClusterQueue and a LocalQueue.

Reads the store at each request; registers the two views and their group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sandbox.api.cluster.client import Client
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.meta.errors import not_found
from sandbox.api.meta.objects import Obj
from sandbox.controllers.kueue.convert import queue_timestamp
from sandbox.controllers.kueue.view import Reader, View, pending

GROUP, VERSION = "visibility.kueue.x-k8s.io", "v1beta2"
_LIMIT = 1000


def summary(view: View, queue: str, *, local: tuple[str, str] | None, limit: int, offset: int) -> Obj:
    """PendingWorkloadsSummary: in queue order, positions from 0 in both queues, one page of `limit`."""
    waiting = [w for w in view.workloads.values() if pending(w) and view.queue_of(w) == queue]
    waiting.sort(key=lambda w: (-int(w["spec"].get("priority", 0)), queue_timestamp(w), w["metadata"]["uid"]))
    seen: dict[tuple[str, str], int] = {}
    items = []
    for position, workload in enumerate(waiting):
        meta = workload["metadata"]
        mine = (meta["namespace"], workload["spec"].get("queueName", ""))
        place = seen.get(mine, 0)
        seen[mine] = place + 1
        if local is None or mine == local:
            items.append(_item(workload, position, place))
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {},
        "items": items[offset : offset + limit],
    }


def _item(workload: Obj, position: int, place: int) -> Obj:
    meta = workload["metadata"]
    owners = [
        {k: o[k] for k in ("apiVersion", "kind", "name", "uid")} for o in meta.get("ownerReferences") or ()
    ]
    return {
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "creationTimestamp": meta["creationTimestamp"],
            "ownerReferences": owners,
        },
        "priority": int(workload["spec"].get("priority", 0)),
        "localQueueName": workload["spec"].get("queueName", ""),
        "positionInClusterQueue": position,
        "positionInLocalQueue": place,
    }


def _page(query: Mapping[str, str]) -> tuple[int, int]:
    def number(name: str, default: int) -> int:
        text = str(query.get(name, ""))
        return int(text) if text.isdigit() else default

    return number("limit", _LIMIT), number("offset", 0)


def register(cluster: Cluster, client: Client, class_mapping: Mapping[str, str]) -> None:
    """Mount both paths and announce the group."""
    reader = Reader(client, class_mapping)
    base = f"/apis/{GROUP}/{VERSION}"

    def cluster_queue(params: Mapping[str, str], query: Mapping[str, str]) -> Obj:
        view, (limit, offset) = reader.read(), _page(query)
        if params["name"] not in view.queues:
            raise not_found("clusterqueues", GROUP, params["name"])
        return summary(view, params["name"], local=None, limit=limit, offset=offset)

    def local_queue(params: Mapping[str, str], query: Mapping[str, str]) -> Obj:
        view, (limit, offset) = reader.read(), _page(query)
        local = (params["namespace"], params["name"])
        if local not in view.local_queues:
            raise not_found("localqueues", GROUP, params["name"])
        queue = str(view.local_queues[local]["spec"].get("clusterQueue", ""))
        return summary(view, queue, local=local, limit=limit, offset=offset)

    handlers: dict[str, Callable[[Mapping[str, str], Mapping[str, str]], Obj]] = {
        f"{base}/clusterqueues/{{name}}/pendingworkloads": cluster_queue,
        f"{base}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads": local_queue,
    }
    for path, handler in handlers.items():
        cluster.views.get(path, handler)
    cluster.views.group(GROUP, VERSION, [_resource("clusterqueues", False), _resource("localqueues", True)])


def _resource(plural: str, namespaced: bool) -> Obj:  # noqa: FBT001 - the API's own field
    return {
        "name": f"{plural}/pendingworkloads",
        "singularName": "",
        "namespaced": namespaced,
        "kind": "PendingWorkloadsSummary",
        "verbs": ["get"],
    }
