"""What is measured: the product as `make demo` starts it, on PostgreSQL and Redis, and a real control plane.

Two tenants of the same quota: `vision` is asked through REST, `bare` is where the bare loop applies.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import httpx
import psycopg

from bench import processes
from bench.audit import AuditLog
from bench.bare import IN_FLIGHT, ApiServer, in_flight
from tests.controlplane.plane import ControlPlane

ROOT = Path(__file__).resolve().parents[1]
OFFER = "h100-whole"
HELD = 1
"""Devices that each of the two tenants may hold: of many notebooks one runs, the others wait."""
A_TOKEN = 500
"""Requests made with one token: it may ask 600 times a minute."""
CLEARED = 600
"""Seconds until what a round made must have gone, or must be at rest."""
APPLIED = "statefulsets,services,persistentvolumeclaims,secrets,networkpolicies"
OWNED = "allotment.dev/owner=workload"
READY = "Allotment is ready at "
PARTS = {
    "web": "uvicorn",
    "worker": "portal.run.worker",
    "beat": "portal.run.beat",
    "watcher": "watch_cluster",
    "door": "portal.door",
}


@dataclass
class Rig:
    """One running installation and the plane it works on."""

    plane: ControlPlane
    url: str
    home: Path
    process: "subprocess.Popen[str]"
    database: str
    postgres: int
    offer: str = OFFER
    refused: int = 0
    """Answers of 503 so far."""

    def __post_init__(self) -> None:
        self.audit = AuditLog(self.plane.layout.log("audit"))
        self.server = ApiServer(self.plane.kubeconfig)
        self.rows = psycopg.connect(self.database, autocommit=True)
        self.rest, self.petra = self.client("researcher"), self.client("platform")

    def token(self, username: str) -> str:
        """A person's REST token."""
        return str(json.loads((self.home / "tokens.json").read_text())[username])

    def fresh_token(self) -> str:
        """One more of the researcher's tokens: each may ask 600 times a minute, and is used for 500."""
        made = self.client("researcher").post("/tokens", json={"name": f"bench-{uuid4().hex[:8]}"})
        made.raise_for_status()
        return str(made.json()["token"])

    def client(self, username: str, token: str = "") -> httpx.Client:
        """REST as this person."""
        headers = {"Authorization": f"Bearer {token or self.token(username)}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30, trust_env=False)

    def groups(self) -> dict[str, list[int]]:
        """The pids by part: the product's, its servers', the plane's, and this client."""
        ours = processes.descendants(self.process.pid)
        found = {
            part: [pid for pid in ours if words in processes.command(pid)] for part, words in PARTS.items()
        }
        found["redis"] = [pid for pid in ours if "redis-server" in processes.command(pid)]
        found["postgres"] = [self.postgres, *processes.descendants(self.postgres)]
        found["plane"] = [record.pid for record in self.plane._state.processes.values()]
        found["client"] = [os.getpid()]
        return found

    def product(self) -> list[int]:
        """What stands still while the bare loop runs."""
        groups = self.groups()
        return [pid for part in PARTS for pid in groups[part]]

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by part."""
        return {part: processes.cpu_seconds(pids) for part, pids in self.groups().items()}

    def quiet(self) -> None:
        """Until nothing moves any more: the more wait, the longer the queue looks at them."""
        groups = self.groups()
        every = [pid for part in groups if part != "client" for pid in groups[part]]
        processes.until_quiet(every, seconds=CLEARED)

    def namespace(self, tenant: str) -> str:
        """The tenant's namespace, once it is there."""

        def named() -> str:
            answer = self.petra.get(f"/tenants/{tenant}").json()
            return str((answer["status"]["namespaces"] or [""])[0])

        return str(until(named, f"the namespace of {tenant}"))

    def left(self, namespace: str) -> list[str]:
        """What is in a namespace."""
        get = ("-n", namespace, "get", "-o", "name")
        made = self.plane.kubectl(*get, "pods,workloads.kueue.x-k8s.io")
        return [*self.plane.kubectl(*get, APPLIED, "-l", OWNED).split(), *made.split()]

    def alive(self, *, synced: bool = False, phase: str = "") -> int:
        """The rows of notebooks that are there; read past REST, because looking must not cost the product."""
        which = " and observed_generation = generation" if synced else ""
        which += f" and phase = '{phase}'" if phase else ""
        query = f"select count(*) from workloads_workload where deleted_at is null{which}"  # noqa: S608 - our own words
        found = self.rows.execute(query.encode()).fetchone()
        return int(found[0]) if found else 0

    def clear(self, *namespaces: str) -> None:
        """Remove every notebook: ours through REST, the bare loop's with kubectl; then wait for quiet."""
        alive = "select id from workloads_workload where deleted_at is null"
        for number, (pk,) in enumerate(self.rows.execute(alive).fetchall()):
            if number % A_TOKEN == 0:
                rest = self.client("researcher", self.fresh_token())
            rest.delete(f"/workloads/{pk}", headers={"If-Match": "*"}).raise_for_status()
        for namespace in namespaces:
            self.plane.kubectl("-n", namespace, "delete", APPLIED, "-l", OWNED, "--wait=false")
        for namespace in namespaces:
            until(lambda at=namespace: not self.left(at), f"{namespace} to be empty", CLEARED, every=1.0)  # type: ignore[misc]
        until(lambda: self.alive() == 0, "the rows to be gone", CLEARED, every=1.0)
        self.quiet()

    def body(self, slug: str) -> dict[str, Any]:
        """A notebook as REST takes it."""
        spec = {
            "kind": "notebook",
            "offer": self.offer,
            "cpu": "500m",
            "memory": "1Gi",
            "image": "python:3.13",
        }
        return {"tenant": "vision", "slug": slug, "spec": spec}

    async def ask(
        self, slugs: Sequence[str], tokens: Sequence[str], *, most: int = IN_FLIGHT
    ) -> tuple[float, list[float]]:
        """Notebooks by REST, so many requests in flight on warm connections, A_TOKEN with each token: when
        the first was asked for, and when each was answered. A 503 is asked again with its key, as it says.
        """
        answered: list[float] = []
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=most)) as session:

            async def warm() -> None:
                async with session.get(f"{self.url}/healthz") as answer:
                    await answer.read()

            await asyncio.gather(*(warm() for _ in range(min(most, len(slugs)))))
            began = time.time()

            def work(number: int, slug: str) -> Callable[[], Any]:
                async def one() -> None:
                    token = tokens[number // A_TOKEN]
                    key = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
                    url = f"{self.url}/api/v1/workloads"
                    while True:
                        async with session.post(url, json=self.body(slug), headers=key) as answer:
                            if answer.status == 201:
                                answered.append(time.time())
                                return
                            if answer.status != 503:
                                raise RuntimeError(await answer.text())
                            self.refused += 1
                            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))

                return one

            await in_flight([work(number, slug) for number, slug in enumerate(slugs)], most)
        return began, answered

    def tokens(self, requests: int) -> list[str]:
        """Fresh ones for so many requests."""
        return [self.fresh_token() for _ in range(0, requests, A_TOKEN)]

    def submit(self, slug: str) -> dict[str, Any]:
        """One notebook by REST."""
        answer = self.rest.post("/workloads", json=self.body(slug), headers={"Idempotency-Key": str(uuid4())})
        if answer.status_code != 201:
            raise RuntimeError(f"{answer.status_code} {answer.text}")
        return dict(answer.json())


def until(is_so: Callable[[], Any], what: str, seconds: float = 60, *, every: float = 0.25) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + seconds
    while not (answer := is_so()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)
    return answer


@contextmanager
def rig(*, fleet: str = "story", offer: str = OFFER, held: int = HELD) -> Iterator[Rig]:
    """Everything up, both tenants with so many devices of the offer as quota, nothing asked for yet."""
    with tempfile.TemporaryDirectory(prefix="allotment-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        plane = stack.enter_context(_plane(folder, fleet))
        database, postgres = stack.enter_context(_database(folder))
        found = stack.enter_context(_product(folder, plane, database, postgres))
        found.offer = offer
        _tenants(found, held)
        found.quiet()
        yield found


@contextmanager
def _plane(folder: Path, fleet: str) -> Iterator[ControlPlane]:
    running = os.environ.get("ALLOTMENT_PLANE_DIR")
    if running:
        yield ControlPlane(Path(running))
        return
    with ControlPlane(folder / "plane", fleet_name=fleet, audit=True) as plane:
        yield plane


@contextmanager
def _database(folder: Path) -> Iterator[tuple[str, int]]:
    """A PostgreSQL of its own: its address and its first process."""
    services = [sys.executable, "-m", "tests.services"]
    where = ["--dir", str(folder / "services")]
    told = subprocess.run([*services, "up", *where], cwd=ROOT, check=True, capture_output=True, text=True)
    exports = dict(line.removeprefix("export ").split("=", 1) for line in told.stdout.splitlines())
    try:
        pid = int((folder / "services" / "postgres" / "postmaster.pid").read_text().split()[0])
        yield exports["ALLOTMENT_DATABASE_URL"], pid
    finally:
        subprocess.run([*services, "down", *where], cwd=ROOT, check=True)


@contextmanager
def _product(folder: Path, plane: ControlPlane, database: str, postgres: int) -> Iterator[Rig]:
    from tests.ports import free_port

    home, port = folder / "home", free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "portal.demo", "--port", str(port), "--cluster", str(plane.kubeconfig)],
        cwd=ROOT,
        env={**os.environ, "ALLOTMENT_HOME": str(home), "ALLOTMENT_DATABASE_URL": database},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output: list[str] = []
    threading.Thread(target=lambda: output.extend(process.stdout or ()), daemon=True).start()
    try:
        until(lambda: process.poll() is not None or any(READY in line for line in output), "the product", 120)
        if process.poll() is not None:
            raise RuntimeError("".join(output))
        yield Rig(plane, f"http://127.0.0.1:{port}", home, process, database, postgres)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _tenants(rig: Rig, held: int) -> None:
    spec = {"department": "research"}
    key = {"Idempotency-Key": str(uuid4())}
    made = rig.petra.post("/tenants", json={"slug": "bare", "name": "Bare", "spec": spec}, headers=key)
    if made.status_code != 201:
        raise RuntimeError(made.text)
    wish = {"spec": {"offer": rig.offer, "nominal_quota": held, "borrowing_limit": 0, "lending_limit": 0}}
    (quota,) = (
        q for q in rig.petra.get("/quotas?tenant=vision").json()["items"] if q["spec"]["offer"] == rig.offer
    )
    rig.petra.put(f"/quotas/{quota['id']}", json=wish, headers={"If-Match": "*"}).raise_for_status()
    posted = rig.petra.post(
        "/quotas", json={"tenant": "bare", **wish}, headers={"Idempotency-Key": str(uuid4())}
    )
    posted.raise_for_status()
    for tenant in ("vision", "bare"):
        namespace = rig.namespace(tenant)
        until(
            lambda at=namespace: rig.plane.kubectl("-n", at, "get", "localqueues", "-o", "name"),  # type: ignore[misc]
            f"the queue of {tenant}",
        )
