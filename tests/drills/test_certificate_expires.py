"""Our certificate ends while people work: what they ask for waits, and goes on once it is renewed."""

import datetime as dt
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.controlplane import pki
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rights import ACCOUNT
from tests.drills.installed import Installed, clear
from tests.patience import patient, until
from tests.ports import free_port
from tests.story.by_rest import ask, job, reach
from tests.story.conftest import Installation, running

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(600)]
LASTS = dt.timedelta(seconds=15)
ENDED_SECONDS = float(os.environ.get("DRILL_ENDED_SECONDS", "30"))
SOON_SECONDS = 65.0
"""A row that failed often is tried again within 60 s."""
HOUR = dt.timedelta(hours=1)
Record = Callable[[str, object], None]


class Files:
    """A kubeconfig that names a client's certificate and its key, each in a file of its own."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self.folder, self.pki = folder, plane.layout.pki
        reached = json.loads(plane.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        user = {"client-certificate": str(folder / "crt"), "client-key": str(folder / "key")}
        self.path = folder / "kubeconfig"
        self.renew(HOUR)
        self.path.write_text(json.dumps(pki.kubeconfig(reached, user, self.pki.cert("ca"))))

    def renew(self, lasts: dt.timedelta) -> None:
        """The product's account, known by a certificate that is good for so long from now."""
        for name, content in zip(
            ("crt", "key"),
            pki.client(self.pki, ACCOUNT, "system:serviceaccounts", lasts=lasts),
            strict=True,
        ):
            pki.write_private(self.folder / name, content)

    def connect_anew(self) -> None:
        """As after a restart: those who have a connection keep what they began it with."""
        os.utime(self.path)


@pytest.fixture
def files(tmp_path: Path, control_plane: ControlPlane) -> Files:
    return Files(tmp_path, control_plane)


@pytest.fixture
def demo(files: Files, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Installation]:
    """A demo by that kubeconfig. What it made goes with it: others need the fleet's slices."""
    home, port = tmp_path / "home", free_port(run=2)
    with running(home, port, "--cluster", str(files.path)) as (output, _):
        installation = Installation(f"http://127.0.0.1:{port}", home, control_plane, output)
        yield installation
        files.renew(HOUR)
        clear(Installed(installation))


def synced(rosa: httpx.Client, workload: dict[str, Any]) -> dict[str, Any]:
    conditions = rosa.get(f"/workloads/{workload['id']}").json()["status"]["conditions"]
    return next((each for each in conditions if each["type"] == "Synced"), {})


def test_work_waits_with_the_cause_and_goes_on_once_it_is_renewed(
    demo: Installation, files: Files, record_property: Record
) -> None:
    with demo.client("researcher") as rosa, demo.client("platform") as petra:
        before = ask(rosa, "before", job(600))
        reach(rosa, before, "Running")
        heard = len(demo.output)
        files.renew(LASTS)
        files.connect_anew()
        time.sleep(LASTS.total_seconds())
        asked = ask(rosa, "meanwhile", job(600))
        until(lambda: synced(rosa, asked).get("reason") == "Unauthorized", "the cause to be said", 30)
        assert "the client certificate in its kubeconfig expired on " in synced(rosa, asked)["message"]
        checks = {each["name"]: each for each in petra.get("/health").json()["findings"]}
        assert checks["client certificate of demo"]["state"] == "wrong"
        time.sleep(ENDED_SECONDS)
        files.renew(HOUR)
        began = time.monotonic()
        # The fleet has one such slice, which `before` holds: Kueue's word comes after the write.
        until(lambda: synced(rosa, asked).get("status") == "True", "it to be applied", SOON_SECONDS)
        took = time.monotonic() - began
        assert rosa.get(f"/workloads/{before['id']}").json()["status"]["phase"] == "Running"
        said = demo.output[heard:]
    record_property("seconds_until_it_is_applied", round(took, 1))
    record_property("lines_of_log", len(said))
    assert took <= patient(SOON_SECONDS)
    assert not [line for line in said if "Traceback" in line]
