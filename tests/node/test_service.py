"""A service in real containers: asked all the time while a replica is killed and a new version rolls."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from django.utils import timezone

from apps.accounts import tokens
from apps.errors import Conflict
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.opening.services import reaching
from apps.workloads.opening.services.reaching import Upstream
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadChange
from portal.door import ways
from tests.door.forward import Endless
from tests.node.asking import PYTHON
from tests.node.doors import door
from tests.patience import patient
from tests.workloads.on_plane import House

pytestmark = [
    pytest.mark.node, pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(900)
]  # fmt: skip

SERVED = """
import http.server, json, os, signal, threading, time
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path != "/health":
            time.sleep(0.02)
        models = [{"id": "stand-in", "object": "model", "owned_by": os.environ["VERSION"]}]
        body = json.dumps({"object": "list", "data": models, "pod": os.environ["HOSTNAME"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("", 8000), Answers)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
"""
"""It has the addresses of an OpenAI-compatible server, and no model."""
REQUESTS = 1000
TEXT = tokens.generate(b"x" * tokens.RANDOM_BYTES).text


class Asking(threading.Thread):
    """One client after the other's answer, without a pause, until it is told to stop."""

    def __init__(self, port: int, row: Workload) -> None:
        super().__init__(daemon=True)
        self.row, self.port, self.over = row, port, threading.Event()
        self.versions, self.pods, self.refused = Counter[str](), Counter[str](), list[str]()

    def run(self) -> None:
        headers = {"Host": f"{self.row.pk}.localhost:{self.port}", "Authorization": f"Bearer {TEXT}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60) as client:
            while not self.over.is_set():
                answer = client.get("/v1/models")
                if answer.status_code == 200:
                    body = answer.json()
                    self.versions[body["data"][0]["owned_by"]] += 1
                    self.pods[body["pod"]] += 1
                else:
                    self.refused.append(f"{datetime.now(UTC):%H:%M:%S} {answer.status_code} {answer.text}")

    @property
    def answers(self) -> int:
        return self.versions.total()


def ready(row: Workload) -> list[int]:
    """Replicas that are wanted, that answer, and that run what is wanted now."""
    row.refresh_from_db()
    found: Any = row.replicas or {"wanted": 0, "ready": 0, "updated": 0}
    return [found["wanted"], found["ready"], found["updated"]]


def pods(house: House, row: Workload) -> list[str]:
    told = house.plane.kubectl("get", "pods", "-A", "-l", f"allotment.dev/uid={row.pk}", "-o", "json")
    return sorted(pod["metadata"]["name"] for pod in json.loads(told)["items"])


class Replicas:
    """Those that answer, as the mirror last had them: the door's threads do not see what is not committed."""

    def __init__(self, house: House, row: Workload) -> None:
        self.house, self.row, self.found = house, row, dict[str, Upstream]()
        self.look()

    def look(self) -> None:
        names = pods(self.house, self.row)
        found = dict[str, Upstream]()
        for name in names:
            with suppress(Conflict):
                to = reaching.upstream(self.row, without=[other for other in names if other != name])
                found[to.pod] = to
        self.found = found or self.found

    def asked(self, _known: object, _workload: object, left: frozenset[str]) -> tuple[Endless, Upstream]:
        """In the place of `ways._asked`."""
        better = [to for name, to in self.found.items() if name not in left]
        return Endless(), (better or list(self.found.values()))[-1]

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        def seen() -> bool:
            self.look()
            return is_so()

        self.house.until(seen, what, 240)

    def all_run(self) -> bool:
        return ready(self.row) == [2, 2, 2]


def served(house: House) -> Replicas:
    row = house.submit(
        "llm", kind="service", image=PYTHON, command=["python3", "-u", "-c", SERVED], volumes=[],
        cpu="250m", memory="256Mi", env={"VERSION": "1"}, service={"replicas": 2, "health_path": "/health"},
    )  # fmt: skip
    house.reaches(row, Phase.RUNNING, 180)
    house.until(lambda: ready(row) == [2, 2, 2], "two replicas", 180)
    return Replicas(house, row)


def kill(house: House, pod: str) -> None:
    """SIGKILL at once, and nobody is told before."""
    house.plane.kubectl(
        "delete", "pod", pod, "-n", house.tenant.object_name, "--grace-period=0", "--force", "--wait=false"
    )


def roll(house: House, row: Workload) -> None:
    change = WorkloadChange(spec=replace(reading.spec_of(row), env={"VERSION": "2"}))
    verbs.update_workload(actor=house.rosa, workload=row, change=change, now=timezone.now())


def test_no_request_is_lost_while_a_replica_is_killed_and_a_version_rolls(
    node_house: House, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    replicas = served(node_house)
    row = replicas.row
    monkeypatch.setattr(ways, "_asked", replicas.asked)
    with door() as port:
        asking = Asking(port, row)
        asking.start()
        replicas.until(lambda: asking.answers > 100, "a hundred answers")
        killed = asking.pods.most_common(1)[0][0]
        kill(node_house, killed)
        replicas.until(lambda: killed not in pods(node_house, row) and replicas.all_run(), "another")
        roll(node_house, row)
        replicas.until(lambda: asking.versions["2"] > 100 and replicas.all_run(), "the new version")
        replicas.until(lambda: asking.answers >= REQUESTS, f"{REQUESTS} answers")
        asking.over.set()
        asking.join(patient(30))
    record_property("answers by version", dict(asking.versions))
    record_property("answers by pod", sorted(asking.pods.values()))
    assert asking.refused == []
    assert set(asking.versions) == {"1", "2"}
    assert len(asking.pods) >= 3, "the killed one, another of its version, one of the next"
