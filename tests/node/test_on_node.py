"""A notebook and a job in real containers: the product asks, Kueue admits, a kubelet runs them."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.workloads.lifecycle.services import live
from apps.workloads.manifests.pods import GROUP_ID, HOME, USER_ID
from apps.workloads.specs import NOTEBOOK_HOME, Phase
from tests.node.asking import jupyter_of, notebook, program, ready_of
from tests.workloads.on_plane import House

pytestmark = [pytest.mark.node, pytest.mark.django_db, pytest.mark.timeout(300)]

WHO_AM_I = """
import json, os
print(json.dumps({
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "home": os.environ["HOME"], "gpu": os.environ["NVIDIA_VISIBLE_DEVICES"],
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "effective": open("/proc/self/status").read().split("CapEff:")[1].split()[0],
}))
open(os.path.join(os.environ["HOME"], "written"), "w").write("x")
open("/dev/shm/written", "w").write("x")
"""


def test_a_notebook_runs_and_jupyterlab_answers(
    node_house: House, record_property: Callable[[str, object], None]
) -> None:
    asked = time.monotonic()
    row = notebook(node_house, "nb")
    node_house.reaches(row, Phase.RUNNING, 120)
    jupyter = jupyter_of(node_house, row)
    assert "JupyterLab" in jupyter.ask("/lab")
    record_property("asked for to JupyterLab's page, s", round(time.monotonic() - asked, 1))
    said = json.loads(jupyter.run(WHO_AM_I))
    assert_as_promised(said, home=NOTEBOOK_HOME)
    assert [device["id"] for device in row.placement[0]["devices"]] == [said["gpu"]]
    assert "http://127.0.0.1:8888/lab" in live.logs(row)


def test_a_job_runs_and_its_log_arrives(node_house: House) -> None:
    row = program(node_house, "train", WHO_AM_I)
    node_house.reaches(row, Phase.SUCCEEDED, 120)
    said = json.loads(live.logs(row, tail=5))
    assert_as_promised(said, home=HOME)
    assert said["gpu"] in node_house.plane.kubectl("get", "resourceslices", "-o", "yaml")


def assert_as_promised(said: dict[str, Any], *, home: str) -> None:
    """What it said of itself: our user and group, nothing of root's, half its memory to share, a device."""
    assert said["ids"] == [USER_ID, GROUP_ID, [GROUP_ID]]
    assert said["effective"] == "0" * 16, "no capability is left"
    assert said["shm"] == 1024**3 // 2
    assert said["home"] == home
    assert said["gpu"].startswith("MIG-")


def test_a_job_says_how_it_ended(node_house: House) -> None:
    row = program(node_house, "breaks", "raise SystemExit(3)")
    node_house.reaches(row, Phase.FAILED, 120)
    assert ready_of(row)["message"].startswith("It ended with exit code 3.")
