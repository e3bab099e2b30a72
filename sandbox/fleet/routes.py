"""HTTP of the fleet: each node's exporter, the list of exporters, and the administrator's fault and
behaviour calls.
"""

from __future__ import annotations

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.http.server import Server
from sandbox.api.meta.errors import not_found
from sandbox.api.serving.admin import guarded
from sandbox.fleet import behaviours, dcgm, faults
from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.faults import Fault, FaultKind
from sandbox.fleet.plant import stored_fleet
from sandbox.fleet.telemetry import Telemetry


class FleetApi:
    """The endpoints over one cluster's telemetry."""

    def __init__(self, cluster: Cluster, telemetry: Telemetry) -> None:
        self._cluster = cluster
        self._telemetry = telemetry

    async def metrics(self, request: Request) -> Response:
        """One node's exporter; 404 for a node without GPUs, 503 while its exporter is silent."""
        name, now = request.path_params["node"], self._cluster.clock.now()
        node = self._cluster.system.get("nodes", name)
        boards = self._telemetry.boards(name, now) if node is not None else []
        if node is None or not boards:
            return PlainTextResponse(f"no exporter on {name}\n", status_code=404)
        if faults.exporter_is_silent(node, now):
            return PlainTextResponse("", status_code=503)
        return PlainTextResponse(dcgm.exposition(self._telemetry.fleet, boards), media_type=dcgm.CONTENT_TYPE)

    async def targets(self, request: Request) -> Response:
        """Every exporter, in the shape of Prometheus' HTTP service discovery."""
        del request
        nodes = [name for name, pool in self._telemetry.fleet.node_pools() if pool.model is not None]
        path = "/fleet/nodes/{}/metrics"
        return JSONResponse(
            [
                {"targets": [n], "labels": {"__metrics_path__": path.format(n), "job": "dcgm-exporter"}}
                for n in nodes
            ]
        )

    async def inject(self, request: Request, server: Server) -> Any:
        """Inject a fleet fault."""
        del server
        body = orjson.loads(await request.body())
        kind = FaultKind(body["kind"])
        fault = Fault(
            kind=kind,
            node=str(body["node"]),
            gpu=int(body.get("gpu", 0)),
            seconds=float(body.get("seconds", 120)),
            code=int(body.get("code", 79)),
        )
        try:
            faults.inject(self._cluster.system, fault, self._cluster.clock.now())
        except LookupError as problem:
            raise not_found("nodes", "", fault.node) from problem
        return {"kind": kind.value, "node": fault.node}

    async def behave(self, request: Request, server: Server) -> Any:
        """Give a pod a behaviour, from now on as if it had it from the start; without a name, every pod that
        is made in the namespace from now on.
        """
        del server
        body = orjson.loads(await request.body())
        namespace, name, word = str(body["namespace"]), str(body.get("name", "")), str(body["behaviour"])
        chosen = None if word == behaviours.USUAL else Behaviour(word).value
        patch = {"metadata": {"annotations": {behaviours.ANNOTATION: chosen}}}
        if name:
            self._cluster.system.patch("pods", name, patch, namespace=namespace)
        else:
            self._cluster.system.patch("namespaces", namespace, patch)
        return {"namespace": namespace, "name": name, "behaviour": word}

    async def truth(self, request: Request, server: Server) -> Any:
        """What every bound pod really does; the yardstick for detectors."""
        del request, server
        return [
            {
                "namespace": pod["metadata"]["namespace"],
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
                "behaviour": told.behaviour.value,
                "effective": told.effective,
                "parameters": {name: round(value, 4) for name, value in told.values.items()},
            }
            for pod, told in self._telemetry.truths()
        ]


def fleet_routes(cluster: Cluster) -> list[Route]:
    """All routes; none before a fleet is installed."""
    fleet = stored_fleet(cluster)
    if fleet is None:
        return []
    api = FleetApi(cluster, Telemetry(cluster.system, fleet, cluster.ids.seed))
    return [
        Route("/fleet/nodes/{node}/metrics", api.metrics, methods=["GET"]),
        Route("/fleet/targets", api.targets, methods=["GET"]),
        Route("/sandbox/fleet/faults", guarded(api.inject), methods=["POST"]),
        Route("/sandbox/fleet/behave", guarded(api.behave), methods=["POST"]),
        Route("/sandbox/fleet/truth", guarded(api.truth), methods=["GET"]),
    ]
