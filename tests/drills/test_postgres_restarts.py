"""PostgreSQL dies and comes back: processes wait for it, say so once, and what was asked for runs soon."""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests import services
from tests.patience import patient, until
from tests.ports import free_port
from tests.story.by_rest import ask, job, reach
from tests.story.conftest import Installation, running

pytestmark = [pytest.mark.exhaustive, pytest.mark.postgres, pytest.mark.timeout(300)]
AWAY_SECONDS = 6.0
"""Longer than the lease of a leader."""
SOON_SECONDS = 10.0
"""From the database's first answer until all that was asked for before runs."""
WORDY = re.compile(r"^[\d:]+ web +\| .*(psycopg\.pool|Service Unavailable|database_unavailable)")


@pytest.fixture
def postgres() -> Iterator[Path]:
    """In no folder of this test's: PostgreSQL runs as a user of its own, who may not look into those."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        home = Path(folder) / "servers"
        home.mkdir()
        yield home
        services.down(home)


def test_what_was_asked_for_before_it_died_runs_soon_after_it_answers(
    postgres: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    url, port = services.postgres(postgres), free_port(run=2)
    with running(tmp_path / "home", port, "--fleet", "lab", database=url) as (output, _):
        demo = Installation(f"http://127.0.0.1:{port}", tmp_path / "home", None, output)
        with demo.client("researcher") as rosa:
            asked = [ask(rosa, f"asked-{number}", job(600)) for number in range(3)]
            heard = len(output)
            services.stop_postgres(postgres, "immediate")
            meet(rosa, seconds=AWAY_SECONDS)
            services.start_postgres(postgres)
            back = time.monotonic()
            until(lambda: rosa.get("/me").status_code == 200, "the portal to answer", 20)
            for workload in asked:
                reach(rosa, workload, "Running")
            took = time.monotonic() - back
        said = output[heard:]
    record_property("seconds_until_all_run", round(took, 1))
    assert took <= patient(SOON_SECONDS)
    assert not [line for line in said if "Traceback" in line]
    assert not [line for line in said if WORDY.match(line)], "all that it says of its outage is two lines"
    for words in ("does not answer: ", "answers again after "):
        counts = Counter(line.split()[1] for line in said if f"the database {words}" in line)
        assert (counts["web"], counts["watcher"], counts["beat"]) == (1, 1, 1)
        assert 1 <= counts["worker"] <= 2, "once in each of its processes"


def meet(rosa: httpx.Client, *, seconds: float) -> None:
    """REST, a page and the probe of readiness, each asked again and again for so long."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        assert rosa.get("/me").status_code in (200, 503)
        for address in ("/", "/readyz"):
            assert rosa.get(str(rosa.base_url.join(address))).status_code in (200, 302, 503)
        time.sleep(0.5)
