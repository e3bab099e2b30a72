"""The simulated GPU fleet: hardware, nodes, resource slices, load and telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.routing import Route

    from sandbox.api.cluster.simulated import Cluster
    from sandbox.api.controllers.manager import Manager


def install(cluster: Cluster, manager: Manager, fleet: str, seed: int) -> None:
    """Put the fleet's nodes, slices and device classes into the cluster and keep them alive; logs, exec
    and ports too.
    """
    from sandbox.fleet.console import Exec, Logs
    from sandbox.fleet.plant import install_plant
    from sandbox.notebooks.ide import Ide

    install_plant(cluster, manager, fleet, seed)
    cluster.logs = Logs(seed)
    cluster.exec = Exec(cluster, seed)
    cluster.ports = Ide(cluster, seed)


def routes(cluster: Cluster) -> list[Route]:
    """The exporters of all nodes, and the fleet's own administration. After `install`."""
    from sandbox.fleet.routes import fleet_routes

    return fleet_routes(cluster)
