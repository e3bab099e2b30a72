"""`python -m agent` as a process: it serves, costs next to nothing, prints a table, and ends when told to."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.agent import kubelet
from tests.agent.kubelet import Lister, answer, container, devices, pod
from tests.agent.live import uuid
from tests.agent.processes import GPUS, ROOT, SECONDS, scrape, started, wait_for
from tests.patience import patient

pytestmark = pytest.mark.programs

MOST_CPU, MOST_MIB = 0.01, 60.0


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(process: subprocess.Popen[str]) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found.group(1)) / 1024


@pytest.mark.exhaustive
def test_eight_gpus_every_second_cost_under_a_hundredth_of_a_core_and_sixty_mebibytes(tmp_path: Path) -> None:
    """With a kubelet to ask and two scrapers; the stand-in's own time is counted in."""
    socket = tmp_path / "kubelet.sock"
    pods = [pod("team", f"p-{n}", container("c", devices("nvidia.com/gpu", uuid(n)))) for n in range(GPUS)]
    with (
        kubelet.serving(socket, Lister(answer(*pods))),
        started("--interval", "1", "--window", "5", "--socket", str(socket)) as (process, address),
    ):
        wait_for(address, "DCGM_FI_PROF_SM_ACTIVE")
        time.sleep(2.0)
        began, used = time.monotonic(), cpu_seconds(process)
        while time.monotonic() - began < SECONDS:
            text = scrape(address)
            time.sleep(SECONDS / 4)
        share = (cpu_seconds(process) - used) / (time.monotonic() - began)
        memory = resident_mib(process)
    sys.stdout.write(f"{GPUS} GPUs at 1 s: {share:.2%} of a core, {memory:.1f} MiB\n")
    assert memory <= MOST_MIB
    assert share < patient(MOST_CPU)
    assert text.count('namespace="team"') > 100


def test_prometheus_reads_what_is_served(tmp_path: Path) -> None:
    with started("--interval", "0.2", "--socket", "", "--host", "node-7") as (_, address):
        text = wait_for(address, "DCGM_FI_PROF_SM_ACTIVE")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    active = families["DCGM_FI_PROF_SM_ACTIVE"].samples
    assert len(active) == GPUS
    assert {sample.labels["Hostname"] for sample in active} == {"node-7"}
    assert [sample.value for sample in active] == pytest.approx([0.5] * GPUS, abs=0.05)
    assert families["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"].type == "counter"


def test_it_ends_at_once_when_told_to() -> None:
    with started("--socket", "") as (process, address):
        wait_for(address, "ALLOTMENT_GPU_UP")
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0


def test_once_prints_a_table_for_a_person() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.agent.live",
            "2",
            "--once",
            "--interval",
            "0.3",
            "--socket",
            "",
            "--host",
            "n1",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    # What it measured, which on a busy machine is longer than what was asked for.
    said = re.match(r"n1, driver 570\.86\.15; ratios over the last (\d+\.\d) s", lines[0])
    assert said
    assert 0.3 <= float(said[1]) <= patient(3)
    assert lines[2].split()[:3] == ["device", "model", "SM"]
    assert re.match(r"GPU 1 +NVIDIA H200 +(49|50)\.\d%", lines[4])


def test_without_a_driver_it_says_so_and_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agent", "--once", "--interval", "0.1", "--socket", str(tmp_path / "none")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    )
    assert done.returncode == 0
    assert "everything unavailable on this node because" in done.stdout


@pytest.mark.parametrize("wrong", ["0", "9999", "abc"])
def test_a_senseless_interval_is_refused(wrong: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agent", "--once", "--interval", wrong],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--interval" in done.stderr
