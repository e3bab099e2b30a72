"""Two clocks and two watchers on one installation: one of each works, another takes over within 10 s."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.drills.installed import Installed, labelled, processes
from tests.patience import patient, until
from tests.story.conftest import ROOT

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(900)]

LONGEST = 10.0
WATCHER, CLOCK = "manage.py watch_cluster", "portal.run.beat"


def leaders(home: Path) -> dict[str, tuple[str, int]]:
    """Who leads what by now, and how often it went to another."""
    with closing(sqlite3.connect(home / "allotment.sqlite3", timeout=20)) as database:
        rows = database.execute("select name, holder, term from cluster_leadership").fetchall()
    return {name.partition(":")[0]: (holder, term) for name, holder, term in rows}


def of(home: Path, words: str) -> dict[int, dict[str, str]]:
    return {pid: env for pid, env in processes(words).items() if env.get("ALLOTMENT_HOME") == str(home)}


@pytest.fixture
def first(demo: Installed) -> Iterator[list[int]]:
    """The installation's own clock and watcher, which go on in the end whatever happens."""
    own = [*of(demo.home, WATCHER), *of(demo.home, CLOCK)]
    yield own
    for pid in own:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def spares(demo: Installed, first: list[int], tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One more of each, of the same installation."""
    env = of(demo.home, WATCHER)[first[0]]
    clock = ["-m", "portal.run.beat", "--schedule", str(tmp_path / "s")]
    started = [
        subprocess.Popen([sys.executable, *command], cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
        for command in (["manage.py", "watch_cluster"], clock)
    ]
    yield started
    for process in started:
        process.terminate()
        process.wait(20)


def test_the_spare_ones_take_over_and_who_slept_changes_nothing(
    demo: Installed,
    first: list[int],
    spares: list[subprocess.Popen[bytes]],
    record_property: Callable[[str, object], None],
) -> None:
    until(lambda: len(leaders(demo.home)) == 2, "a clock and a watcher to lead", 30)
    before = leaders(demo.home)
    time.sleep(10)
    assert leaders(demo.home) == before, "a spare one must not push the first aside"
    for pid in first:
        os.kill(pid, signal.SIGSTOP)
    slept = time.monotonic()
    until(lambda: all(leaders(demo.home)[n][1] > before[n][1] for n in before), "the spare ones to lead", 60)
    taken = time.monotonic() - slept
    record_property("taken_over_seconds", round(taken, 1))
    pk = demo.submit("after-the-leader")
    until(
        lambda: demo.shown(pk)["status"]["phase"] == "Running", "a notebook to run under the spare ones", 90
    )
    now = leaders(demo.home)
    for pid in first:
        os.kill(pid, signal.SIGCONT)
    time.sleep(5)
    assert leaders(demo.home) == now
    assert all(process.poll() is None for process in spares)
    assert len(labelled(demo, "pod")) == 1
    assert taken <= patient(LONGEST)
