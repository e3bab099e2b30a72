"""An nginx that does what our HTTPRoutes say, as the data plane of NGINX Gateway Fabric does it.

A rule, match, filter or field that nobody gave a meaning here is an error: routes do not change unnoticed.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from apps.tenants.specs import DOOR_NAMESPACE
from apps.workloads.gateway_specs import GatewayPlace
from apps.workloads.manifests.entrances import entrances
from apps.workloads.specs import PlacementSpec
from tests.door.house import House, house
from tests.door.pod import Pod
from tests.patience import until
from tests.ports import free_port, listens

Manifest = dict[str, Any]
Places = Mapping[tuple[str, str, int], int]
"""The ports of this machine behind namespace, name and port of a Service."""
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
DOOR, NAMESPACE = "allotment-door", "t-vision"
CHOSEN = 460
"""From this status on, each names the rule that answers. No client sees them."""
REFUSED = {"host", "connection", "upgrade"}
"""Headers that no filter may name."""
MAIN = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/client;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server_names_hash_bucket_size 128;
    client_max_body_size 0;
    proxy_request_buffering off;
    proxy_buffering off;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    server {{
        listen 127.0.0.1:{port} default_server;
        location / {{ {to_door} }}
    }}
    {servers}
}}
"""
PASS = """
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    proxy_pass http://127.0.0.1:{port};
"""
ASK = """
location = /_ask{number} {{
    internal;
    proxy_pass_request_headers off;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header Host $http_host;
    proxy_set_header Path $request_uri;
    proxy_set_header Method $request_method;
    proxy_set_header Authorization $http_authorization;
    {allowed}
    proxy_pass http://127.0.0.1:{port}{path};
}}
"""


def route(slug: str, pk: str, ports: tuple[int, int]) -> Manifest:
    """The route that the product writes for this workload; `ports` as in `objects`."""
    return next(body for body in objects(slug, pk, ports) if body["kind"] == "HTTPRoute")


def objects(slug: str, pk: str, ports: tuple[int, int]) -> list[Manifest]:
    """The route and the grant. `ports`: the door's, for requests and for questions."""
    place = GatewayPlace("edge", "public", f"{pk}.localhost", DOOR, *ports)
    spec = PlacementSpec(pk, slug, "vision", NAMESPACE, "vision", "nvidia.com/gpu", 1, gateway=place)
    return [body for body in entrances(spec, "ide", 8888) if body["kind"] in ("HTTPRoute", "ReferenceGrant")]


def written(routes: Sequence[Manifest], places: Places, *, port: int, door: int, folder: Path) -> str:
    """The nginx.conf. Hosts without a route are the door's, as the chart's own route for all of them says."""
    servers = "\n".join(_server(route, places, port) for route in routes)
    return MAIN.format(folder=folder, port=port, to_door=PASS.format(port=door), servers=servers)


def _values(given: Manifest, *names: str) -> list[Any]:
    """Of these fields, None where one is absent. Raises ValueError where there are others."""
    if unknown := given.keys() - {*names}:
        raise ValueError(f"Say in tests/door/gateway.py what {', '.join(sorted(unknown))} means.")
    return [given.get(name) for name in names]


def _server(route: Manifest, places: Places, port: int) -> str:
    namespace = route["metadata"]["namespace"]
    _, hosts, rules = _values(route["spec"], "parentRefs", "hostnames", "rules")
    locations, chosen = [], dict[str, dict[str, int]]()
    for number, rule in enumerate(rules):
        matches, filters, backends = _values(rule, "matches", "filters", "backendRefs")
        for match in matches:
            path, condition = _match(match)
            chosen.setdefault(path, {}).setdefault(condition, number)
        (backend,) = backends
        asks, heard = _asks(filters or [], number, namespace, places)
        passes = PASS.format(port=_at(backend, namespace, places))
        locations.append(f"{asks} location @rule{number} {{ {heard} {passes} }}")
    pages = " ".join(f"error_page {CHOSEN + number} = @rule{number};" for number in range(len(rules)))
    locations += [_location(path, conditions) for path, conditions in chosen.items()]
    names = " ".join(hosts)
    return f"server {{ listen 127.0.0.1:{port}; server_name {names}; {pages} {' '.join(locations)} }}"


def _match(match: Manifest) -> tuple[str, str]:
    """The prefix, and nginx's condition on a header; empty where there is none."""
    path, named = _values(match, "path", "headers")
    kind, prefix = _values(path, "type", "value")
    if kind != "PathPrefix":
        raise ValueError(f"A match of the type {kind} is not known here.")
    if not named:
        return prefix, ""
    (header,) = named
    kind, name, value = _values(header, "type", "name", "value")
    if kind != "Exact":
        raise ValueError(f"A header of the type {kind} is not known here.")
    return prefix, f'$http_{_variable(name)} = "{value}"'


def _location(prefix: str, conditions: dict[str, int]) -> str:
    """The longest prefix decides, then the match that has a header (Gateway API, HTTPRouteRule)."""
    ifs = [
        f"if ({condition}) {{ return {CHOSEN + to}; }}" for condition, to in conditions.items() if condition
    ]
    inner = f"{{ {' '.join(ifs)} return {CHOSEN + conditions['']}; }}"
    if prefix == "/":
        return f"location / {inner}"
    return f"location = {prefix} {inner} location {prefix}/ {inner}"


def _asks(filters: list[Manifest], number: int, namespace: str, places: Places) -> tuple[str, str]:
    """Where the rule's question goes, and what of its answer the backend hears."""
    if not filters:
        return "", ""
    (only,) = filters
    kind, external = _values(only, "type", "externalAuth")
    protocol, backend, http = _values(external, "protocol", "backendRef", "http")
    if (kind, protocol) != ("ExternalAuth", "HTTP"):
        raise ValueError(f"A filter {kind} by {protocol} is not known here.")
    path, allowed, answered = _values(http, "path", "allowedHeaders", "allowedResponseHeaders")
    if refused := REFUSED & {name.lower() for name in (*allowed, *answered)}:
        raise ValueError(f"NGINX Gateway Fabric takes no route that names {refused}: it is not known here.")
    sent = " ".join(f"proxy_set_header {name} $http_{_variable(name)};" for name in allowed)
    to = _at(backend, namespace, places)
    heard = [f"auth_request /_ask{number};"]
    for name in answered:
        kept = f"$answered_{_variable(name)}"
        heard.append(f"auth_request_set {kept} $upstream_http_{_variable(name)};")
        heard.append(f"proxy_set_header {name} {kept};")
    return ASK.format(number=number, allowed=sent, port=to, path=path or ""), " ".join(heard)


def _at(backend: Manifest, namespace: str, places: Places) -> int:
    name, other, port = _values(backend, "name", "namespace", "port")
    return places[other or namespace, name, port]


def _variable(header: str) -> str:
    return header.lower().replace("-", "_")


Lead = Callable[[Sequence[Manifest], Places, int, Path], AbstractContextManager[None]]
"""Serves by these objects and places at this port of the machine, while it is entered."""


@contextmanager
def behind(
    folder: Path, pods: dict[str, Pod], check: int, *, notebooks: int = 0, lead: Lead | None = None
) -> Iterator[House]:
    """A house whose browsers come to what leads, an nginx where nothing is said. `check`: where its door
    judges; `notebooks`: as in `house`.

    The door reaches pods by port-forward all the same: names of Services lead nowhere on this machine.
    """
    port = free_port()
    settings = {
        "ALLOTMENT_APPS_URL": f"http://localhost:{port}", "ALLOTMENT_GATEWAY": "edge/public",
        "ALLOTMENT_DOOR_CLUSTER": "elsewhere", "ALLOTMENT_DOOR_SERVICE": DOOR,
        "ALLOTMENT_DOOR_CHECK_PORT": str(check),
    }  # fmt: skip
    with house(folder / "home", pods, notebooks=notebooks, settings=settings) as served:
        ports = (served.door, check)
        open_ = [(slug, pk) for slug, pk in served.stage["workloads"].items() if slug in pods]
        open_ += [("bench", pk) for pk, _ in served.stage["notebooks"]]
        places = {(DOOR_NAMESPACE, DOOR, own): own for own in ports}
        places |= {(NAMESPACE, slug, 8888): pod.port for slug, pod in pods.items()}
        given = [body for slug, pk in open_ for body in objects(slug, pk, ports)]
        with (lead or _by_nginx(served.door))(given, places, port, folder):
            yield served


def _by_nginx(door: int) -> Lead:
    def leads(
        given: Sequence[Manifest], places: Places, port: int, folder: Path
    ) -> AbstractContextManager[None]:
        routes = [body for body in given if body["kind"] == "HTTPRoute"]
        return nginx(folder, written(routes, places, port=port, door=door, folder=folder), port)

    return leads


@contextmanager
def nginx(folder: Path, conf: str, port: int) -> Iterator[None]:
    """It serves by this configuration, at this port of the machine, while this is entered."""
    assert NGINX, "nginx is not installed"
    (folder / "nginx.conf").write_text(conf)
    log = folder / "error.log"
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(log)]
    process = subprocess.Popen(command)
    try:
        until(lambda: process.poll() is not None or listens(port), "nginx")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(10)
