"""Puts a cluster on a port: state folder, kubeconfigs, the product's account, uvicorn.

One process, loopback unless told otherwise.
"""

from __future__ import annotations

import base64
import fcntl
import logging
import os
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import uvicorn
import yaml

import sandbox
from sandbox.api.admission.limits import LimitRanger, QuotaGuard
from sandbox.api.admission.podsecurity import PodSecurity
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers import lifecycle
from sandbox.api.controllers.manager import Manager
from sandbox.api.controllers.quota_status import QuotaStatus
from sandbox.api.http.server import Server
from sandbox.api.meta.objects import Obj
from sandbox.api.serving import admin, certificates
from sandbox.api.serving.app import App

log = logging.getLogger("sandbox")
STATE, TLS = "state.sqlite3", "tls"
PRODUCT_CONFIG = "kubeconfig"
BACKLOG = 2048
PRODUCT_NAMESPACE, PRODUCT_ACCOUNT = "allotment-system", "allotment-controller"
CHART = Path(sandbox.__file__).parents[1] / "k8s" / "allotment" / "templates"
# One that is just stopping gets this long.
_LOCK_SECONDS = 4.0
_YEAR_SECONDS = 365 * 24 * 3600
_IDLE_SECONDS = 90
"""How long a connection that nobody uses is kept, as kube-apiserver does. Source: IdleTimeout in
staging/src/k8s.io/apiserver/pkg/server/secure_serving.go.
"""


class HostingError(RuntimeError):
    """The sandbox cannot start; the message says what to do."""


def set_aside(path: Path, now: datetime) -> Path:
    """Move a state file that cannot be read out of the way, with its journal; nothing is overwritten."""
    target = path.with_name(f"{path.name}.corrupt-{now:%Y%m%dT%H%M%S%f}")
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            shutil.move(part, target.with_name(target.name + suffix))
    return target


def _sound(path: Path) -> bool:
    try:
        connection = sqlite3.connect(path)
        try:
            return bool(connection.execute("PRAGMA quick_check").fetchone()[0] == "ok")
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return False


def lock(folder: Path) -> TextIO:
    """Hold a state folder for this process; HostingError while another sandbox uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    held = (folder / "lock").open("w")
    ends = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if time.monotonic() > ends:
                held.close()
                raise HostingError(
                    f"another sandbox uses {folder}: stop it, or choose another --dir"
                ) from problem
            time.sleep(0.1)
        else:
            return held


def open_cluster(folder: Path, *, seed: int, speed: float) -> Cluster:
    """Open or create the state in a folder; a corrupt file is kept aside under another name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STATE
    if path.exists() and not _sound(path):
        kept = set_aside(path, datetime.now(UTC))
        log.warning("the state file could not be read; it is kept as %s and a new one is begun", kept.name)
    return Cluster.open(path, seed=seed, speed=speed)


def build(cluster: Cluster) -> tuple[Server, Manager]:
    """The server and its built-in admission and controllers, without fleet and workloads."""
    cluster.admission += [LimitRanger(), PodSecurity(), QuotaGuard()]
    server = Server(cluster)
    manager = Manager(cluster)
    lifecycle.install(cluster, manager)
    manager.add(QuotaStatus(cluster))
    return server, manager


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; a port that is taken is said clearly."""
    # The protocol is named so that asyncio switches Nagle's delay off: 40 ms a request otherwise.
    listener = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Before anybody reads our address: who comes before the server is up waits instead of being refused.
        listener.listen(BACKLOG)
    except OSError as problem:
        listener.close()
        raise HostingError(
            f"cannot listen on {host}:{port}: {problem.strerror or problem}. Choose another port with --port."
        ) from problem
    return listener


def kubeconfig(server: str, authority: bytes, user: str, token: str) -> Obj:
    """A kubeconfig with everything inline."""
    trust = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "preferences": {},
        "clusters": [{"name": "sandbox", "cluster": trust}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [
            {"name": "sandbox", "context": {"cluster": "sandbox", "user": user, "namespace": "default"}}
        ],
    }


def write_private(path: Path, body: Obj) -> None:
    """Write a kubeconfig that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(body, file, sort_keys=False)


def install_product(cluster: Cluster) -> Obj:
    """What the chart brings: namespaces, the product's account and its roles. Returns the account."""
    client = cluster.client("sandbox-admin", "helm")
    for body in chart_documents():
        kind = cluster.kinds.of_kind(body["apiVersion"].rpartition("/")[0], body["kind"])
        if kind is not None:
            if kind.namespaced:
                body["metadata"].setdefault("namespace", PRODUCT_NAMESPACE)
            client.apply(kind.key, body)
    account = client.get("serviceaccounts", PRODUCT_ACCOUNT, PRODUCT_NAMESPACE)
    if account is None:
        raise HostingError(f"the chart brings no account {PRODUCT_NAMESPACE}/{PRODUCT_ACCOUNT}")
    return account


def chart_documents() -> list[Obj]:
    """The chart's access rules, policies and priority classes: the same files the real installation applies.

    Policies are kept and shown, never evaluated; the product finds that out by itself.
    """
    files = [CHART / name for name in ("rbac.yaml", "admission.yaml", "priorities.yaml")]
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        raise HostingError(f"the chart's access rules are missing: {', '.join(missing)}")
    return [body for file in files for body in yaml.safe_load_all(file.read_text()) if body]


def write_configs(folder: Path, server: Server, address: str) -> None:
    """DIR/kubeconfig for the product's account, DIR/admin.kubeconfig for set-up."""
    account = install_product(server.cluster)
    authority = (folder / TLS / certificates.AUTHORITY).read_bytes()
    token, _ = server.tokens.issue(account, {"expirationSeconds": _YEAR_SECONDS})
    write_private(folder / PRODUCT_CONFIG, kubeconfig(address, authority, PRODUCT_ACCOUNT, token))
    write_private(
        folder / admin.ADMIN_CONFIG, kubeconfig(address, authority, "sandbox-admin", server.tokens.admin)
    )


def serve(
    folder: Path, *, host: str, port: int, cluster: Cluster, install: Callable[[Cluster, Manager], list[Any]]
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    `install` adds the fleet and its controllers and returns their routes.
    """
    listener = bind(host, port)
    try:
        server, manager = build(cluster)
        routes = [*admin.routes(), *install(cluster, manager)]
        actual = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        address = f"https://{'127.0.0.1' if host == '0.0.0.0' else shown}:{actual}"  # noqa: S104 - compared, not bound
        tls = certificates.ensure(folder / TLS, host)
        write_configs(folder, server, address)
        config = uvicorn.Config(
            App(server, manager, routes),
            log_level="warning",
            access_log=False,
            lifespan="on",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=_IDLE_SECONDS,
            h11_max_incomplete_event_size=65_536,
            ws="websockets-sansio",
            ssl_certfile=tls / certificates.CERTIFICATE,
            ssl_keyfile=tls / certificates.KEY,
        )
        sys.stdout.write(f"sandbox ready: {address}\n{folder / PRODUCT_CONFIG}\n")
        sys.stdout.flush()
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
        cluster.close()
