"""JupyterLab through the door: a real kubelet's port-forward, the token of a Secret, a kernel's WebSocket."""

import json
import socket
from typing import Any

import httpx
import pytest
from django.utils import timezone
from websockets.sync.client import connect

from apps.workloads.models import Workload
from apps.workloads.opening.selectors import ide_use
from apps.workloads.opening.services import asking, reaching
from apps.workloads.specs import Phase
from portal.door import ways
from tests.door.forward import Endless
from tests.node.asking import notebook, pod_of
from tests.node.doors import door
from tests.node.jupyter import execute, printed
from tests.workloads.on_plane import House

pytestmark = [pytest.mark.node, pytest.mark.django_db, pytest.mark.timeout(300)]
GPU = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])"


def test_a_cell_prints_its_gpu_through_the_door(node_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    row = notebook(node_house, "door")
    node_house.reaches(row, Phase.RUNNING, 120)
    reached = reaching.upstream(row)
    assert reached.way is not None
    monkeypatch.setattr(ways, "_asked", lambda *_: (Endless(), reached))
    with door() as port:
        headers = {"Host": f"{row.pk}.localhost:{port}", "Cookie": "allotment_way=taken-for-granted"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as browser:
            assert "JupyterLab" in browser.get("/lab").text
            kernel = browser.post("/api/kernels", json={"name": "python3"}).json()["id"]
            assert browser.post("/api/terminals").status_code == 200
        assert _told(port, row, kernel, headers["Cookie"]) == [row.placement[0]["devices"][0]["id"]]
    refused = httpx.get(f"http://{pod_of(node_house, row)['status']['podIP']}:8888/api/kernels", timeout=60)
    assert refused.status_code == 403
    now = timezone.now()
    assert asking.ask_due(now=now) == 1
    row.refresh_from_db()
    found = ide_use.activity_of(row, now)
    assert found is not None
    assert (found.kernels, found.terminals, found.uses_terminal) == (1, 1, True)


def _told(port: int, row: Workload, kernel: str, cookie: str) -> list[str]:
    """What a cell prints, by the kernel's channels."""
    host = f"{row.pk}.localhost:{port}"
    wire = socket.create_connection(("127.0.0.1", port))
    uri = f"ws://{host}/api/kernels/{kernel}/channels"
    given: dict[str, Any] = {"origin": f"http://{host}", "additional_headers": {"Cookie": cookie}}
    with connect(uri, sock=wire, **given) as channels:
        message = execute(GPU)
        channels.send(json.dumps(message))
        return printed(channels, message["header"]["msg_id"]).split()
