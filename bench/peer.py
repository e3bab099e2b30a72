"""JupyterHub with KubeSpawner and configurable-http-proxy: a peer that makes notebooks on the same plane.

Its Python packages go into an environment of their own in the cache, from the lock requirements/peer.txt; the
proxy comes from npm. One hub spawns into one namespace, asked by the token of a service. Every pod's address
is a small server on loopback: a spawn ends as it does where pods answer, and no timeout ends one.
"""

import asyncio
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from apps.cluster.objects.names import LABEL_PRIORITY, LABEL_QUEUE
from bench import node_proxy, processes
from bench.bare import in_flight
from bench.rig import ROOT, until
from tests.controlplane import pki
from tests.controlplane.binaries import cache_root
from tests.controlplane.plane import ControlPlane
from tests.door.pod import Pod
from tests.ports import free_port, listens

LOCK = ROOT / "requirements" / "peer.txt"
ACCOUNT = ("hub", "kube-system")
"""What the tenants' admission policies exempt: the peer is not slowed by rules of ours."""
USER = "system:serviceaccount:kube-system:hub"
PATIENCE = 600
MANAGED = {"pods": "*", "services": "*", "persistentvolumeclaims": "*", "events": "get list watch"}


@dataclass
class Peer:
    """A running hub and the namespace that it spawns into."""

    url: str
    token: str
    namespace: str
    hub: int

    def groups(self) -> dict[str, list[int]]:
        """Its pids, by part."""
        below = processes.descendants(self.hub)
        return {"hub": [self.hub], "proxy": below}

    async def add(self, names: Sequence[str]) -> None:
        """People who may ask; they are there before any clock starts."""
        wish = {"usernames": list(names)}
        async with self._session() as session, session.post(f"{self.url}/users", json=wish) as answer:
            await _must(answer, 201)

    async def ask(self, names: Sequence[str]) -> tuple[float, list[float]]:
        """A notebook for each of them at once: when the first was asked for, and when each was answered."""
        answered = []
        async with self._session() as session:
            await asyncio.gather(*(self._warm(session) for _ in names))
            began = time.time()

            async def one(name: str) -> None:
                async with session.post(f"{self.url}/users/{name}/server") as answer:
                    await _must(answer, 201, 202)
                    answered.append(time.time())

            await asyncio.gather(*map(one, names))
        return began, answered

    async def ready(self) -> int:
        """How many notebooks the hub says are ready."""
        async with (
            self._session() as session,
            session.get(f"{self.url}/users?state=ready&limit=200") as answer,
        ):
            await _must(answer, 200)
            return len(await answer.json())

    async def remove(self, names: Sequence[str]) -> None:
        """The people with their servers, and by KubeSpawner their volumes."""
        async with self._session() as session:

            def work(name: str) -> Callable[[], Any]:
                async def one() -> None:
                    async with session.delete(f"{self.url}/users/{name}") as answer:
                        await _must(answer, 204)

                return one

            await in_flight([work(name) for name in names])

    async def _warm(self, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{self.url}/") as answer:
            await answer.read()

    def _session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        connector = aiohttp.TCPConnector(limit=0)
        headers = {"Authorization": f"token {self.token}"}
        return aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout)


async def _must(answer: aiohttp.ClientResponse, *codes: int) -> None:
    if answer.status not in codes:
        raise RuntimeError(f"{answer.url}: {answer.status} {await answer.text()}")
    await answer.read()


@contextmanager
def running(plane: ControlPlane, folder: Path, spawner: dict[str, Any]) -> Iterator[Peer]:
    """A hub whose KubeSpawner is set up so; `spawner` names at least the namespace."""
    folder.mkdir(parents=True)
    port, hub_port, token = free_port(), free_port(), secrets.token_hex(16)
    with Pod("peer") as pod:
        settings = _settings(port, hub_port, token, {**spawner, "port": pod.port})
        (folder / "hub.json").write_text(json.dumps(settings))
        _allow(plane, folder / "kubeconfig", spawner["namespace"])
        log = (folder / "hub.log").open("w")
        process = subprocess.Popen(
            [_environment() / "bin" / "jupyterhub", "--config", str(folder / "hub.json")],
            cwd=folder,
            env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
            stdout=log,
            stderr=log,
        )
        try:
            until(lambda: process.poll() is not None or (listens(port) and listens(hub_port)), "JupyterHub")
            if process.poll() is not None:
                raise RuntimeError((folder / "hub.log").read_text())
            yield Peer(f"http://127.0.0.1:{hub_port}/hub/api", token, spawner["namespace"], process.pid)
        finally:
            process.terminate()
            process.wait(30)
            log.close()


def notebook(namespace: str, *, image: str, resource: str, home: str) -> dict[str, Any]:
    """KubeSpawner's settings for the notebook that `Rig.body` asks us for: what takes room is the same."""
    return {
        "namespace": namespace,
        "image": image,
        "image_pull_policy": "Always",
        "cmd": ["jupyterhub-singleuser"],
        "cpu_guarantee": 0.5,
        "mem_guarantee": "1G",
        "mem_limit": "1G",
        "extra_resource_limits": {resource: "1"},
        "storage_pvc_ensure": True,
        "storage_capacity": "10Gi",
        "storage_access_modes": ["ReadWriteOnce"],
        "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "{pvc_name}"}}],
        "volume_mounts": [{"name": "home", "mountPath": home}],
        "uid": 1000,
        "fs_gid": 100,
        "pod_security_context": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "container_security_context": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def queued(settings: dict[str, Any]) -> dict[str, Any]:
    """The same through Kueue's queue of the namespace, with a Service for each."""
    labels = {LABEL_QUEUE: "gpu", LABEL_PRIORITY: "interactive"}
    return {**settings, "extra_labels": labels, "services_enabled": True}


def _settings(port: int, hub_port: int, token: str, spawner: dict[str, Any]) -> dict[str, Any]:
    program = str(node_proxy.program())
    return {
        "JupyterHub": {
            "bind_url": f"http://127.0.0.1:{port}",
            "hub_bind_url": f"http://127.0.0.1:{hub_port}",
            "authenticator_class": "null",
            "spawner_class": "kubespawner.KubeSpawner",
            "services": [{"name": "bench", "api_token": token}],
            "load_roles": [
                {"name": "bench", "services": ["bench"], "scopes": ["admin:users", "admin:servers"]}
            ],
            # A request is answered once its spawn has begun, as ours is; a removal when all has gone.
            "tornado_settings": {"slow_spawn_timeout": 0, "slow_stop_timeout": PATIENCE},
            "concurrent_spawn_limit": 0,
            "cleanup_servers": False,
            "log_level": "WARN",
        },
        "ConfigurableHTTPProxy": {
            "command": ["node", program],
            "api_url": f"http://127.0.0.1:{free_port()}",
        },
        # No spawn is given up, and so no pod killed, while a round lasts.
        "KubeSpawner": {
            **spawner,
            "pod_connect_ip": "127.0.0.1",
            "start_timeout": PATIENCE,
            "http_timeout": PATIENCE,
            "delete_grace_period": 0,
        },
    }


def _allow(plane: ControlPlane, kubeconfig: Path, namespace: str) -> None:
    """What KubeSpawner's documentation asks for, in this namespace alone."""
    account, home = ACCOUNT
    subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    rules = [
        {"apiGroups": [""], "resources": [name], "verbs": verbs.split()} for name, verbs in MANAGED.items()
    ]
    rbac, here = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"name": account, "namespace": namespace}
    plane.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": home}},
            {**rbac, "kind": "Role", "metadata": here, "rules": rules},
            {**rbac, "kind": "RoleBinding", "metadata": here, "roleRef": role, "subjects": [subject]},
        ]
    )
    authority = plane.layout.pki.cert("ca")
    pki.write_kubeconfig(kubeconfig, plane.layout.server, plane.token_of(*ACCOUNT), authority)


def _environment() -> Path:
    """The peer's virtual environment, made once for each lock."""
    folder = cache_root().parent / "peer" / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "-r", str(LOCK)], check=True)
        (folder / "complete").touch()
    return folder
