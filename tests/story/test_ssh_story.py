"""SSH into a workload on a real API server: its RBAC, its exec, as the member's own account.

The containers are not real here: kwok runs a command on this machine as nobody, and neither ends its input
nor says its exit code. Those of a real node are in tests/node.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.door.house import WITHIN
from tests.factories import notebook_body
from tests.patience import until
from tests.story.by_rest import SLICE, ask, reach
from tests.story.by_ssh import Machine, allow, set_up
from tests.story.conftest import Installation

pytestmark = [pytest.mark.plane, pytest.mark.timeout(300)]
HOST = "nb-ssh.vision.allotment"


@pytest.fixture
def machine(installation: Installation, tmp_path: Path) -> Iterator[Machine]:
    """Rosa's machine, and a notebook of hers that runs in a team that lets its members in."""
    with installation.client("researcher") as rosa, installation.client("platform") as petra:
        notebook = reach(rosa, ask(rosa, "nb-ssh", notebook_body(SLICE)), "Running")
        allow(petra, "vision", is_on=True)
        yield set_up(rosa, tmp_path / "ssh")
        allow(petra, "vision", is_on=False)
        rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
        until(lambda: not rosa.get("/workloads").json()["items"], "the notebook to be gone", 60)


def test_a_command_runs_as_the_person_and_a_shell_ends_with_the_policy(
    installation: Installation, machine: Machine, record_property: Callable[[str, object], None]
) -> None:
    assert installation.plane
    ran = machine.run(HOST, "head -c 7; echo bad >&2", sent=b"through and more")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"through", b"bad\n")
    lines = installation.plane.layout.log("audit").read_text().splitlines()
    callers = {json.loads(line)["user"]["username"] for line in lines if '"subresource":"exec"' in line}
    assert callers, "the API server wrote down who ran it"
    assert all(name.startswith("system:serviceaccount:allotment-access:member-") for name in callers), callers
    open_ = machine.begun(HOST, "cat")
    assert open_.stdin
    assert open_.stdout
    open_.stdin.write(b"hello\n")
    open_.stdin.flush()
    assert open_.stdout.readline() == b"hello\n"
    with installation.client("platform") as petra:
        allow(petra, "vision", is_on=False)
        at = time.monotonic()
        assert open_.wait(WITHIN) == 255
        record_property("policy off to cut, seconds", round(time.monotonic() - at, 2))
        assert open_.stderr
        assert b"Your access to nb-ssh has ended." in open_.stderr.read()
        again = machine.run(HOST, "true")
        assert (again.returncode, b"Shell access is off in" in again.stderr) == (254, True)
