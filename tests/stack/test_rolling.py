"""Every process is started anew while people work, with the same code and with another: nobody notices."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import patient
from tests.stack.followers import Followers
from tests.stack.installation import ROOT, Stack, standing
from tests.stack.load import Load

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(1800)]

ROLLED_SECONDS = float(os.environ.get("STACK_ROLLED_SECONDS", "60"))
SILENT_SECONDS = 10.0
"""How long an open page or program may hear nothing, while jobs come and go: EventSource waits 3 s."""
Record = Callable[[str, object], None]


def work(stack: Stack, record: Record, during: Callable[[Load], None]) -> None:
    """RULE: no request fails, nothing acknowledged is lost, and the ledger holds: no device is held twice.
    Who follows hears again within SILENT_SECONDS of a restart, and has seen the last change of each workload.
    """
    with Load(stack) as load, Followers(load) as followers:
        during(load)
        load.stop()
        silence = max(each.longest_silence for each in followers.all)
        load.settle(90)
        followers.settle(10)
        load.clear(90)
        followers.settle(10)
    slowest = sorted(each.seconds for each in load.asked)
    record("requests", len(load.asked))
    record("failed", len(load.failed))
    record("jobs", len(load.deleted))
    record("p99_seconds", round(slowest[int(len(slowest) * 0.99)], 2))
    record("streams", len(followers.all))
    record("connected_again", sum(each.connected - 1 for each in followers.all))
    record("began_anew", sum(each.resets for each in followers.all))
    record("longest_silence_seconds", round(silence, 1))
    record("ledger", stack.manage("verify_ledger").strip())
    assert load.failed == []
    assert [each.refused for each in followers.all if each.refused] == []
    assert silence <= patient(SILENT_SECONDS)
    assert load.deleted, "no job came and went"


def test_a_rolling_restart_is_not_noticed(home: Path, record_property: Record) -> None:
    """As long as it takes to go through all of them, again and again; none ends with a traceback."""

    def during(_load: Load) -> None:
        ends = time.monotonic() + ROLLED_SECONDS
        times = 0
        while time.monotonic() < ends:
            stack.roll()
            times += 1
        record_property("times_all_were_restarted", times)

    with standing(home, retries=False) as stack:
        work(stack, record_property, during)
        assert stack.tracebacks() == {}


def test_an_upgrade_and_its_rollback_are_not_noticed(home: Path, record_property: Record) -> None:
    """From before the newest migration to this code, as the chart does it, and back over the new tables."""
    older = before_the_newest_migration(home)

    def during(_load: Load) -> None:
        stack.use(ROOT)
        stack.roll()
        stack.code = older
        stack.roll()

    with standing(home, retries=False, code=older) as stack:
        work(stack, record_property, during)


def before_the_newest_migration(home: Path) -> Path:
    """A checkout of the product as it was then."""
    files = ":(glob)apps/**/migrations/*.py"
    newest = ["git", "log", "-1", "--diff-filter=A", "--format=%H", "--", files]
    commit = subprocess.run(newest, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert commit, "there is no history here: clone the whole repository"
    folder = home / "older"
    folder.mkdir()
    archive = subprocess.run(["git", "archive", f"{commit}~1"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder
