"""The agent against known kernels on a real H200: `python -m tests.gpu.truth`; not part of any test run.

Every load runs for longer than the agent's window; what the agent serves at its end is compared with what the
load must have done by arithmetic. Ends with 1 if a figure is more than 5 points off, and prints a table for
docs/agent.md, the agent's own cost included. Needs the driver, `requirements/agent.txt`, and an idle GPU.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.gpu.kernels import PEAK_FLOPS_PER_CYCLE
from tests.gpu.loads import HELD_GIB

ROOT = Path(__file__).resolve().parents[2]
WINDOW, EXTRA = 20.0, 8.0
POINTS = 0.05
SM, TENSOR, DRAM = ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE")
SMI, USED, CLOCK = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_SM_CLOCK")
PROCESSES = "ALLOTMENT_GPU_PROCESSES"

Values = dict[str, float]


@dataclass(frozen=True)
class Scene:
    """Loads that run together, and the field whose truth they know. `also`: bounds of other fields."""

    name: str
    loads: tuple[str, ...]
    judged: str
    also: dict[str, tuple[float, float]] = field(default_factory=dict)


SCENES = (
    Scene("nothing", (), SM, {SMI: (0, 5), PROCESSES: (0, 0)}),
    Scene("one block spins", ("one_block",), SM, {SMI: (95, 100), TENSOR: (0, 0.01), PROCESSES: (1, 1)}),
    Scene("bf16 multiplication", ("multiply",), TENSOR, {TENSOR: (0.75, 1), SM: (0.95, 1)}),
    Scene("copy", ("copy",), DRAM, {DRAM: (0.6, 1), TENSOR: (0, 0.01)}),
    Scene("idle, 40 GiB held", ("hold",), SM, {USED: (HELD_GIB * 1024, 1e9), SMI: (0, 5), PROCESSES: (1, 1)}),
    # Within half a point: five would pass for anything.
    Scene("50 ms every 20 s", ("burst",), SM, {SM: (0.0005, 0.0075)}),
    Scene("two processes, half of the SMs each", ("half", "half"), SM, {SMI: (95, 100), PROCESSES: (2, 2)}),
)


@dataclass(frozen=True)
class Result:
    """What a scene gave; `wrong` says what is out of bounds."""

    scene: Scene
    truth: float
    seen: Values
    wrong: tuple[str, ...]


def main() -> int:
    """Run all scenes; 0 if all hold."""
    with agent() as (process, address):
        time.sleep(WINDOW + EXTRA)
        began, used = time.monotonic(), cpu_seconds(process.pid)
        results = [run(scene, address) for scene in SCENES]
        share = (cpu_seconds(process.pid) - used) / (time.monotonic() - began)
        memory = peak_mib(process.pid)
    sys.stdout.write(report(results, share, memory))
    return 1 if any(result.wrong for result in results) else 0


@contextmanager
def agent() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The real agent, every second, and its address."""
    options = (
        "--interval",
        "1",
        "--window",
        str(WINDOW),
        "--bind",
        "127.0.0.1",
        "--port",
        "9400",
        "--socket",
        "",
    )
    with subprocess.Popen([sys.executable, "-m", "agent", *options], cwd=ROOT, text=True) as process:
        try:
            yield process, "http://127.0.0.1:9400/metrics"
        finally:
            process.terminate()


def run(scene: Scene, address: str) -> Result:
    """Start the loads, wait until the window lies within them, and look before they end."""
    seconds = WINDOW + 2 * EXTRA
    command = [sys.executable, "-m", "tests.gpu.loads"]
    children = [
        subprocess.Popen([*command, name, str(seconds)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for name in scene.loads
    ]
    clocks: list[float] = []
    ends = time.monotonic() + WINDOW + EXTRA
    while time.monotonic() < ends:
        time.sleep(1.0)
        clocks.append(scrape(address).get(CLOCK, 0.0))
    seen = scrape(address)
    done = [json.loads(child.communicate()[0]) for child in children]
    # The next scene begins with a window that has nothing of this one in it.
    time.sleep(WINDOW)
    truth = expected(done, statistics.fmean(clocks[len(clocks) // 2 :]))
    return Result(scene, truth, seen, tuple(wrong(scene, truth, seen)))


def expected(done: list[Values], clock_mhz: float) -> float:
    """What must be seen: told by the load, or its operations over what the SMs can do at this clock."""
    if not done:
        return 0.0
    first = done[0]
    if "truth" in first:
        return first["truth"]
    return first["flops_per_second"] / (first["sms"] * PEAK_FLOPS_PER_CYCLE * clock_mhz * 1e6)


def wrong(scene: Scene, truth: float, seen: Values) -> Iterator[str]:
    """What does not hold, in words."""
    value = seen.get(scene.judged)
    if value is None:
        yield f"{scene.judged} is unknown"
    elif abs(value - truth) > POINTS:
        yield f"{scene.judged} is {value:.4f}, and {truth:.4f} is true"
    for name, (low, high) in scene.also.items():
        found = seen.get(name)
        if found is None and name == PROCESSES:
            # In a container without the host's process ids; the agent says so itself.
            continue
        if found is None or not low <= found <= high:
            yield f"{name} is {found}, not from {low} to {high}"


def scrape(address: str) -> Values:
    """The first GPU's values by field; empty while there are none."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310 - our own address
            lines = answer.read().decode().splitlines()
    except (urllib.error.URLError, TimeoutError):
        return {}
    found = (re.fullmatch(r'(\w+)\{gpu="0",.*\} (\S+)', line) for line in lines)
    return {match.group(1): float(match.group(2)) for match in found if match}


def cpu_seconds(pid: int) -> float:
    """Of a process so far, in user and kernel mode."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had resident."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) / 1024 if found else 0.0


def report(results: list[Result], share: float, memory: float) -> str:
    """A table as Markdown, what is wrong, and what the agent cost."""
    lines = [
        "| load | judged | true | seen | GPU_UTIL | SM | tensor | DRAM |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        seen = [result.seen.get(name, float("nan")) for name in (result.scene.judged, SMI, SM, TENSOR, DRAM)]
        cells = [f"{seen[0]:.4f}", f"{seen[1]:.0f} %", *(f"{value:.4f}" for value in seen[2:])]
        lines.append(
            f"| {result.scene.name} | {result.scene.judged} | {result.truth:.4f} | {' | '.join(cells)} |"
        )
    lines += [f"WRONG, {result.scene.name}: {words}" for result in results for words in result.wrong]
    lines.append(f"The agent: {share:.2%} of a core, at most {memory:.1f} MiB.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
