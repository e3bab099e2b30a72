"""A portal and a door that run as they do in production, each a process, before pods that really serve."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from portal.demo import procfile
from tests.door.forward import Forwarding
from tests.door.pod import Pod
from tests.logs import heard, of_folder
from tests.patience import patient, until
from tests.ports import free_port, listens

SEED = "import json, sys, portal.asgi, tests.door.stage as s; print(json.dumps(s.seed(*sys.argv[1:])))"
SLUGS = (
    "mine", "shared", "lent", "leons", "llm", "stops", "goes", "leaves", "locked", "signs", "leads", "robs",
)  # fmt: skip
"""Of all workloads of the stage; each has a pod of that name."""
ROOT = Path(__file__).resolve().parents[2]
WITHIN = float(os.environ.get("STREAM_ENDS_WITHIN", patient(10)))
"""Seconds in which what is open ends; the promise is 1, see tests.workloads.test_stream_rights."""


@dataclass
class House:
    """Where they are, and who is who."""

    portal: str
    door: int
    door_pid: Callable[[], int]
    stage: dict[str, Any]
    pods: dict[str, Pod]
    log: Path
    restart_door: Callable[[], None]
    front: int
    """The port that browsers come to: the door's own, or that of what stands in front of it."""

    def host(self, slug: str) -> str:
        """The workload's own host."""
        return f"{self.stage['workloads'][slug]}.localhost:{self.front}"

    def origin(self, slug: str) -> str:
        return f"http://{self.host(slug)}"

    def as_(self, name: str) -> httpx.Client:
        """The portal in a browser in which this person is signed in."""
        return httpx.Client(
            base_url=self.portal, cookies={self.stage["cookie"]: self.stage["sessions"][name]}, timeout=60
        )

    def rest(self, name: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """One request to REST with this person's token."""
        headers = {"Authorization": f"Bearer {self.stage['tokens'][name]}"}
        return httpx.request(method, f"{self.portal}/api/v1/{path}", json=body, headers=headers, timeout=60)

    def opened_to(self, name: str, slug: str, to: str) -> httpx.Response:
        """The person says who opens a notebook."""
        path = f"workloads/{self.stage['workloads'][slug]}"
        headers = {
            "Authorization": f"Bearer {self.stage['tokens'][name]}",
            "If-Match": self.rest(name, "GET", path).headers["etag"],
            "Content-Type": "application/merge-patch+json",
        }
        content = json.dumps({"spec": {"notebook": {"open_to": to}}})
        return httpx.patch(f"{self.portal}/api/v1/{path}", content=content, headers=headers, timeout=60)

    def ask(self, slug: str, path: str = "/", method: str = "GET", **how: Any) -> httpx.Response:
        """One request to a workload's host; `host`, `way` (the cookie) and `at` (the port) as given."""
        headers = {"Host": how.pop("host", None) or self.host(slug), **how.pop("headers", {})}
        if way := how.pop("way", ""):
            headers["Cookie"] = f"allotment_way={way}"
        url = f"http://127.0.0.1:{how.pop('at', self.front)}{path}"
        return httpx.request(method, url, headers=headers, timeout=60, trust_env=False, **how)

    def asked_for(self, name: str, slug: str) -> str:
        """The one-time address behind "Open"."""
        with self.as_(name) as browser:
            form = browser.get(f"/t/vision/workloads/{self.stage['workloads'][slug]}/")
            assert form.status_code == 200, form.text
            csrf = form.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
            answer = browser.post(
                f"/t/vision/workloads/{self.stage['workloads'][slug]}/open/",
                data={"csrfmiddlewaretoken": csrf},
                headers={"Origin": self.portal},
            )
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def at_door(self, url: str, **cookies: str) -> httpx.Response:
        """A browser at a one-time address."""
        parts = httpx.URL(url)
        headers = {"Host": parts.netloc.decode()}
        if cookies:
            headers["Cookie"] = "; ".join(f"{key}={value}" for key, value in cookies.items())
        return httpx.get(
            f"http://127.0.0.1:{self.front}{parts.raw_path.decode()}",
            headers=headers,
            timeout=60,
            trust_env=False,
        )

    def enter(self, name: str, slug: str) -> str:
        """All the way from the button Open: the cookie of the way in."""
        url = self.asked_for(name, slug)
        sent = self.at_door(url)
        assert sent.status_code == 303, sent.text
        kept = sent.cookies["allotment_browser"]
        with self.as_(name) as browser:
            confirmed = browser.get(sent.headers["location"])
        assert confirmed.status_code == 303, confirmed.text
        entered = self.at_door(confirmed.headers["location"], allotment_browser=kept)
        assert (entered.status_code, entered.headers["location"]) == (303, f"{self.origin(slug)}/")
        return entered.cookies["allotment_way"]

    def socket(self, slug: str, way: str, *, origin: str | None = None, **how: Any) -> ClientConnection:
        """A WebSocket to a workload's host."""
        headers = {"Cookie": f"allotment_way={way}"}
        given: Any = self.origin(slug) if origin is None else origin or None
        wire = socket.create_connection(("127.0.0.1", self.front))
        uri = f"ws://{how.pop('host', self.host(slug))}{how.pop('path', '/ws')}"
        made: ClientConnection = connect(uri, sock=wire, origin=given, additional_headers=headers, **how)
        return made

    @property
    def memory(self) -> int:
        """Bytes that the door holds."""
        lines = Path(f"/proc/{self.door_pid()}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


def _environment(home: Path, web: int, door: int) -> dict[str, str]:
    return {
        **os.environ, "ALLOTMENT_HOME": str(home), "ALLOTMENT_DATABASE_URL": "",
        "ALLOTMENT_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0", "ALLOTMENT_PORT": str(web),
        "ALLOTMENT_DOOR_PORT": str(door), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip


@contextmanager
def house(
    home: Path, pods: dict[str, Pod], *, notebooks: int = 0, settings: Mapping[str, str] | None = None
) -> Iterator[House]:
    """Everything, until it is left. `notebooks`: so many more with a way in, all in the pod `bench`;
    `settings`: more of the environment.
    """
    (home / "static-root").mkdir(parents=True)
    with ExitStack() as stack:
        served = {name: stack.enter_context(pod).port for name, pod in pods.items()}
        cluster = stack.enter_context(Forwarding(served))
        (home / "kubeconfig").write_text(cluster.kubeconfig)
        web, door = free_port(), free_port()
        plain: dict[str, Any] = {"cwd": ROOT, "env": _environment(home, web, door) | dict(settings or {})}
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], check=True, **plain)
        stage = [sys.executable, "-c", SEED, str(home / "kubeconfig"), str(notebooks)]
        told = subprocess.run(stage, check=True, capture_output=True, text=True, **plain)
        log = stack.enter_context((home / "house.log").open("w"))

        def begin(part: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen(["sh", "-c", f"exec {procfile()[part]}"], stdout=log, stderr=log, **plain)

        running = {part: begin(part) for part in ("web", "door")}

        def restart_door() -> None:
            running["door"].kill()
            running["door"].wait(10)
            running["door"] = begin("door")
            until(lambda: listens(door), "the door")

        try:
            until(lambda: listens(web) and listens(door), "the portal and the door")
            stage_ = json.loads(told.stdout)
            where, pid = f"http://127.0.0.1:{web}", lambda: running["door"].pid
            front = httpx.URL((settings or {}).get("ALLOTMENT_APPS_URL", "")).port or door
            with heard(lambda: of_folder(home)):
                yield House(where, door, pid, stage_, pods, home / "house.log", restart_door, front)
        finally:
            for process in running.values():
                process.kill()
                process.wait(10)
