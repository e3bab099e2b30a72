"""Stop, resume, signals, memory: what only a container shows of a workload's end."""

import time
import urllib.request

import pytest

from apps.workloads.lifecycle.services import live
from apps.workloads.models import Workload
from apps.workloads.specs import NOTEBOOK_HOME, Phase
from tests.node.asking import PYTHON, jupyter_of, notebook, pod_of, program, ready_of
from tests.node.cluster import NodeCluster
from tests.workloads.on_plane import House

pytestmark = [
    pytest.mark.node, pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(400)
]  # fmt: skip

SAYS_GOODBYE = f"""
import http.server, os, signal, sys
def goodbye(number, frame):
    with open("{NOTEBOOK_HOME}/goodbye", "w") as file:
        file.write(signal.Signals(number).name)
    sys.exit(0)
signal.signal(signal.SIGTERM, goodbye)
os.chdir("{NOTEBOOK_HOME}")
http.server.test(http.server.SimpleHTTPRequestHandler, port=8888)
"""
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
TAKES_TOO_MUCH = "held = bytearray(2 << 30); print(len(held))"


def stop(house: House, row: Workload) -> float:
    """Seconds until it is stopped."""
    began = time.monotonic()
    house.act("stop", row, reason="lunch")
    house.reaches(row, Phase.STOPPED, 120)
    return time.monotonic() - began


def test_a_file_in_the_home_survives_stop_and_resume(node_house: House, node_cluster: NodeCluster) -> None:
    row = notebook(node_house, "nb")
    node_house.reaches(row, Phase.RUNNING, 120)
    jupyter_of(node_house, row).run("open('kept', 'w').write('work')")
    stop(node_house, row)
    node_house.act("resume", row, reason="")
    node_house.reaches(row, Phase.RUNNING, 120)
    assert jupyter_of(node_house, row).run("print(open('kept').read())") == "work\n"
    asked = [line for line in node_cluster.requests() if "jupyterlab/manifests" in line]
    assert len(asked) >= 2, "each start asks the registry"


def test_a_stop_is_a_signal_that_a_program_may_answer(node_house: House) -> None:
    row = node_house.submit("nb", image=PYTHON, command=["python3", "-c", SAYS_GOODBYE])
    node_house.reaches(row, Phase.RUNNING, 120)
    stop(node_house, row)
    node_house.act("resume", row, reason="")
    node_house.reaches(row, Phase.RUNNING, 120)
    address = f"http://{pod_of(node_house, row)['status']['podIP']}:8888/goodbye"
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert answer.read() == b"SIGTERM"


def test_a_program_that_ignores_the_signal_is_killed_after_its_grace(node_house: House) -> None:
    row = program(node_house, "stubborn", IGNORES)
    node_house.reaches(row, Phase.RUNNING, 120)
    assert 28 < stop(node_house, row) < 60


def test_a_job_that_takes_too_much_memory_says_so(node_house: House) -> None:
    row = program(node_house, "greedy", TAKES_TOO_MUCH, memory="256Mi")
    node_house.reaches(row, Phase.FAILED, 120)
    words = "It used more memory than it asked for and was killed (OOMKilled, exit code 137)."
    assert ready_of(row)["message"].startswith(words)


def test_a_notebook_that_was_killed_for_memory_is_started_again_and_says_why(node_house: House) -> None:
    """Its first process is what took too much: a kernel alone would be killed without it."""
    mark = f"'{NOTEBOOK_HOME}/second'"
    code = f"import os\nif os.path.exists({mark}):\n    " + SAYS_GOODBYE.strip().replace("\n", "\n    ")
    code += f"\nopen({mark}, 'w').close()\nprint('before')\n" + TAKES_TOO_MUCH
    row = node_house.submit("nb", image=PYTHON, memory="256Mi", command=["python3", "-u", "-c", code])

    def was_started_again() -> bool:
        node_house.phase(row)
        return "started again" in ready_of(row)["message"]

    node_house.until(was_started_again, "the second start", 120)
    assert node_house.phase(row) == Phase.RUNNING
    assert ready_of(row)["message"] == (
        "It runs. It was started again. It used more memory than it asked for and was killed (OOMKilled, "
        "exit code 137)."
    )
    assert "before" in live.logs(row, previous=True)
    assert "before" not in live.logs(row)
