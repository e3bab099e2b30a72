"""The disk of the database is full: no change without its record in the audit, what is there can be read, and
work goes on once there is room. Each on a small disk of its own, which only root can mount.
"""

import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
import redis

from tests import services
from tests.patience import patient, until
from tests.ports import free_port
from tests.story.by_rest import ask, job, reach
from tests.story.conftest import Installation, running

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.postgres,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk"),
]
FULL_SECONDS = float(os.environ.get("DRILL_FULL_SECONDS", "70"))
"""Longer than the minute after which the use of a token is noted again."""
PAUSE = 0.8
"""Seconds between two turns of a person: no more than a token may ask in a minute."""
SOON_SECONDS = 15.0
"""From the first room until all that was asked for runs: a wait of 5 s, a sweep of 5 s, and the work."""
TENANT = "/tenants/vision"
FULL, ROOM = "the database cannot write, because its disk is full: ", "the database has room again after "
MOST_OF_CELERY = 5
"""Tracebacks: its timers log one when Redis takes no writes."""
Record = Callable[[str, object], None]


class Disk:
    """A file system of its own at a folder, and one file that takes what room it has."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder, self._ballast = folder, folder / "ballast"
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)

    def fill(self) -> None:
        """To the last page; also what others have let go of since."""
        with self._ballast.open("ab") as ballast:
            while True:
                room = os.statvfs(self.folder)
                if not room.f_bavail:
                    return
                with suppress(OSError):
                    os.posix_fallocate(ballast.fileno(), ballast.tell(), room.f_bavail * room.f_frsize)
                ballast.seek(0, os.SEEK_END)

    def free(self) -> None:
        self._ballast.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)


@dataclass
class Seen:
    """What one engineer was answered while the disk was full."""

    answers: Counter[int] = field(default_factory=Counter)
    reads: Counter[int] = field(default_factory=Counter)
    acknowledged: list[str] = field(default_factory=list)
    words: str = ""

    def change(self, petra: httpx.Client, name: str) -> int:
        """A privileged change; what was acknowledged must be there in the end."""
        body = {"name": name}
        answer = petra.patch(TENANT, json=body, headers={"If-Match": "*"})
        self.answers[answer.status_code] += 1
        if answer.status_code == 200:
            self.acknowledged.append(name)
        elif answer.status_code == 503:
            self.words = answer.json()["detail"]
        return answer.status_code

    def read(self, *of: httpx.Client) -> None:
        for client in of:
            for address in ("/me", "/workloads", TENANT, "/audit-events"):
                self.reads[client.get(address).status_code] += 1


@contextmanager
def disk_at(folder: Path, megabytes: int) -> Iterator[Disk]:
    made = Disk(folder, megabytes)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def outside() -> Iterator[Path]:
    """In no folder of this test's: PostgreSQL runs as a user of its own, who may not look into those."""
    with tempfile.TemporaryDirectory(prefix="full-") as folder:
        yield Path(folder) / "servers"


def named(petra: httpx.Client) -> list[str]:
    """The names that the audit record says the tenant was given, oldest first."""
    query = {"tenant": "vision", "action": "tenant.update", "limit": "200"}
    page = petra.get("/audit-events", params=query).json()
    found = page["items"]
    while page["next"]:
        page = petra.get(page["next"]).json()
        found += page["items"]
    return [each["changes"]["name"][1] for each in reversed(found) if "name" in each["changes"]]


def meet(disk: Disk, petra: httpx.Client, rosa: httpx.Client) -> Seen:
    """People change and read things for so long while there is no room."""
    seen, ends, number = Seen(), time.monotonic() + FULL_SECONDS, 0
    while time.monotonic() < ends:
        disk.fill()
        seen.change(petra, f"Vision {number}")
        seen.read(petra, rosa)
        number += 1
        time.sleep(PAUSE)
    return seen


def judge(seen: Seen, petra: httpx.Client, said: list[str], tracebacks: int) -> None:
    """RULE: what is acknowledged is there and in the record, what is refused is in neither; reads answer."""
    assert set(seen.answers) <= {200, 503}
    assert seen.answers[503] > 0, "the disk was full"
    assert seen.words.startswith("The disk of the database is full: ")
    assert set(seen.reads) == {200}
    record = named(petra)
    assert record == [*seen.acknowledged, "Vision again"]
    assert petra.get(TENANT).json()["name"] == record[-1]
    assert len([line for line in said if "Traceback" in line]) <= tracebacks
    for words in (FULL, ROOM):
        counts = Counter(line.split()[1] for line in said if words in line)
        assert counts["web"] == 1, "one line for an outage"
        assert all(count <= 6 for count in counts.values()), "of each process at most one"


def run(demo: Installation, disk: Disk, record_property: Record, tracebacks: int = 0) -> None:
    """Full for so long, then there is room again."""
    with demo.client("researcher") as rosa, demo.client("platform") as petra:
        before = ask(rosa, "before", job(600))
        reach(rosa, before, "Running")
        heard = len(demo.output)
        disk.fill()
        seen = meet(disk, petra, rosa)
        disk.free()
        back = time.monotonic()
        until(lambda: seen.change(petra, "Vision again") == 200, "a change to be taken", SOON_SECONDS)
        record_property("seconds_until_a_change_is_taken", round(time.monotonic() - back, 1))
        asked = ask(rosa, "after", job(600))
        reach(rosa, asked, "Running", SOON_SECONDS)
        took = time.monotonic() - back
        until(lambda: any(ROOM in line for line in demo.output[heard:]), "the log to say it", 20)
        time.sleep(6)
        seen.acknowledged.remove("Vision again")
        judge(seen, petra, demo.output[heard:], tracebacks)
        assert rosa.get(f"/workloads/{before['id']}").json()["status"]["phase"] == "Running"
    record_property("seconds_until_work_runs", round(took, 1))
    record_property("answers", dict(seen.answers))
    record_property("reads", dict(seen.reads))
    record_property("lines_of_log", len(demo.output) - heard)
    assert took <= patient(SOON_SECONDS)


def test_postgresql_refuses_changes_and_none_is_applied_unrecorded(
    outside: Path, tmp_path: Path, record_property: Record
) -> None:
    with disk_at(outside / "postgres", 320) as disk:
        try:
            url, port = services.postgres(outside), free_port(run=2)
            with running(tmp_path / "home", port, "--fleet", "lab", database=url) as (output, _):
                run(Installation(f"http://127.0.0.1:{port}", tmp_path / "home", None, output), disk,
                    record_property)  # fmt: skip
        finally:
            services.stop_postgres(outside, "immediate")


def test_a_postgresql_that_could_not_write_its_log_is_an_outage_and_loses_nothing(
    outside: Path, tmp_path: Path, record_property: Record
) -> None:
    with disk_at(outside / "postgres", 320) as disk:
        try:
            url, port = services.postgres(outside), free_port(run=2)
            with running(tmp_path / "home", port, "--fleet", "lab", database=url) as (output, _):
                demo = Installation(f"http://127.0.0.1:{port}", tmp_path / "home", None, output)
                with demo.client("researcher") as rosa:
                    asked = ask(rosa, "asked", job(600))
                    crowd(url, disk)
                    until(lambda: rosa.get("/me").status_code == 503, "the outage to be met", 10)
                    disk.free()
                    record_property("postgresql_has_ended", revive(outside, url))
                    back = time.monotonic()
                    reach(rosa, asked, "Running", SOON_SECONDS)
                    reach(rosa, ask(rosa, "after", job(600)), "Running", SOON_SECONDS)
                    record_property("seconds_until_work_runs", round(time.monotonic() - back, 1))
                assert not [line for line in output if "Traceback" in line]
        finally:
            services.stop_postgres(outside, "immediate")


def crowd(url: str, disk: Disk) -> None:
    """Write into PostgreSQL's log alone until there is no room for it: it stops all its processes then."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(400):
            disk.fill()
            try:
                connection.execute("SELECT pg_logical_emit_message(false, 'drill', repeat('x', 1000000))")
            except psycopg.OperationalError:
                return
    pytest.fail("PostgreSQL's log never ran out of room")


def revive(home: Path, url: str) -> bool:
    """Start PostgreSQL where it ended, as an operator has to; whether it had. Back once it answers."""
    has_ended = not (home / "postgres" / "postmaster.pid").exists()
    if has_ended:
        services.start_postgres(home)

    def answers() -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(url):
            return True
        return False

    until(answers, "PostgreSQL to answer", 30)
    return has_ended


def test_the_demo_on_one_full_disk_refuses_changes_and_its_queue_is_a_hint(
    tmp_path: Path, record_property: Record
) -> None:
    """SQLite and Redis, which keeps its queue on that disk too: it takes nothing then, and no worker ends.
    The cluster has room.
    """
    with disk_at(tmp_path / "home", 256) as disk:
        home, port = tmp_path / "home", free_port(run=2)
        (tmp_path / "cluster").mkdir()
        (home / "sandbox").symlink_to(tmp_path / "cluster")
        with running(home, port, "--fleet", "lab") as (output, _):
            at = re.search(r"port=(\d+)", (home / "redis.log").read_text())
            assert at
            redis.Redis(port=int(at[1])).config_set("appendonly", "yes")
            demo = Installation(f"http://127.0.0.1:{port}", home, None, output)
            run(demo, disk, record_property, tracebacks=MOST_OF_CELERY)
