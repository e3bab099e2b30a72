"""What IDEs say of their notebooks' use: asked through the cluster, kept, told; unknown where nothing is
said.
"""

import asyncio
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apps.cluster.models import MirrorObject
from apps.sealing import IDE, derived
from apps.workloads.models import Workload
from apps.workloads.opening.rules import ide_activity
from apps.workloads.opening.selectors import ide_use
from apps.workloads.opening.services import asking
from apps.workloads.opening.services.asking import Reached
from apps.workloads.opening.services.reaching import Upstream
from apps.workloads.specs import Phase
from tests.conftest import Cast, SignedIn
from tests.workloads.ides import ADDRESSES, BEGUN, MINUTE, NOW, running, served, wait_long
from tests.workloads.rest import Api


def kernel(state: str = "idle", last: str = "2026-11-25T15:20:00.123456Z", tabs: int = 1) -> dict[str, Any]:
    return {
        "id": "k",
        "name": "python3",
        "execution_state": state,
        "last_activity": last,
        "connections": tabs,
    }


def status(last: str = "2026-11-25T15:40:00Z") -> dict[str, Any]:
    return {"connections": 1, "kernels": 1, "last_activity": last, "started": "2026-11-25T14:00:00Z"}


def terminal(last: str) -> dict[str, Any]:
    return {"name": "1", "last_activity": last}


@pytest.mark.parametrize(
    ("terminals", "since", "told"),
    [
        ([terminal("2026-11-25T15:50:00Z")], None, "A terminal is in use."),
        ([terminal("2026-11-25T15:50:00Z")], NOW - 70 * MINUTE,
         "A terminal is in use, no GPU use since 14:50 UTC."),
        ([terminal("2026-11-25T15:00:00Z")] * 2, None,
         ("No kernel, last activity 15:40 UTC. "
         "2 terminals are open; a program that prints nothing there is not seen.")),
    ],
)  # fmt: skip
def test_its_words_of_terminals(terminals: list[Any], since: datetime | None, told: str) -> None:
    found = ide_activity.read([], status(), NOW, terminals)
    assert ide_activity.words(found, since, NOW) == told
    assert ide_activity.Activity.of_json(found.as_json()) == found


@pytest.mark.parametrize("terminals", [{}, None, [1], [{}], [terminal("soon")], [terminal("")] * 1001])
def test_terminals_that_are_none_are_not_jupyters_answer(terminals: Any) -> None:
    with pytest.raises(ValueError, match="Jupyter"):
        ide_activity.read([], status(), NOW, terminals)


@pytest.mark.parametrize(
    ("kernels", "since", "told"),
    [
        ([kernel("busy")], None, "A kernel runs code."),
        ([kernel("busy")], NOW - 70 * MINUTE, "A kernel runs code, no GPU use since 14:50 UTC."),
        ([kernel(), kernel("busy"), kernel("dead")], None, "1 of 3 kernels run code."),
        ([kernel()], NOW - 70 * MINUTE, "Its kernel runs no code, last activity 15:20 UTC, a tab is open."),
        ([kernel(tabs=0)], None, "Its kernel runs no code, last activity 15:20 UTC."),
        ([kernel(last="2026-11-23T09:05:00Z", tabs=0)], None,
         "Its kernel runs no code, last activity 2026-11-23 09:05 UTC."),
        ([], None, "No kernel, last activity 15:40 UTC."),
    ],
)  # fmt: skip
def test_its_words(kernels: list[Any], since: datetime | None, told: str) -> None:
    assert ide_activity.words(ide_activity.read(kernels, status(), NOW), since, NOW) == told


@pytest.mark.parametrize(
    ("kernels", "state"),
    [
        ({}, status()), ("[]", status()), ([1], status()), ([{}], status()),
        ([kernel(last="soon")], status()),
        ([kernel(last="2026-11-25T15:20:00")], status()), ([], {}), ([], None), ([], status(last="")),
        ([kernel()] * 1001, status()), ([{**kernel(), "execution_state": 7}], status()),
        ([kernel(last="0001-01-01T00:00:00+23:59")], status()),
    ],
)  # fmt: skip
def test_what_is_not_jupyters_answer_is_unknown(kernels: Any, state: Any) -> None:
    with pytest.raises(ValueError, match="Jupyter"):
        ide_activity.read(kernels, state, NOW)


def test_a_time_to_come_and_a_wild_count_are_not_believed() -> None:
    found = ide_activity.read([kernel(last="2099-01-01T00:00:00Z", tabs=10**9)], status(), NOW)
    assert (found.last_activity, found.tabs) == (NOW, 0)


def test_an_answer_is_believed_for_a_while_and_for_its_run() -> None:
    kept = ide_activity.read([kernel()], status(), NOW).as_json()
    assert ide_activity.believed(kept, BEGUN, NOW + 15 * MINUTE) == ide_activity.Activity.of_json(kept)
    assert ide_activity.believed(kept, BEGUN, NOW + 16 * MINUTE) is None
    assert ide_activity.believed(kept, NOW + MINUTE, NOW + 2 * MINUTE) is None
    assert ide_activity.believed({"problem": "no answer"}, BEGUN, NOW) is None


class Jupyter:
    """What the IDE of a pod answers, and what it heard."""

    def __init__(self) -> None:
        self.kernels: Any = [kernel("busy")]
        self.terminals: Any = None
        """None: this server has none, and no address for them."""
        self.answer: Response | None = None
        self.heard: list[tuple[str, str]] = []
        self.health, self.asked_for_health = Response(status_code=404), 0

    async def said(self, request: Request) -> Response:
        if request.url.path == "/healthz":
            self.asked_for_health += 1
            return self.health
        self.heard.append((str(request.url.query), request.headers["authorization"]))
        if self.answer is not None:
            return self.answer
        if request.url.path == "/api/terminals":
            return Response(status_code=404) if self.terminals is None else JSONResponse(self.terminals)
        return JSONResponse(self.kernels if request.url.path == "/api/kernels" else status())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer here is late but where it never comes: a busy machine decides nothing."""
    wait_long(monkeypatch)


@pytest.fixture
def jupyter() -> Jupyter:
    return Jupyter()


@pytest.fixture
def notebook(cast: Cast, jupyter: Jupyter, tmp_path: Path) -> Iterator[Workload]:
    """Rosa's, running in a real pod behind a real port-forward."""
    with served(cast, tmp_path, [Route(path, jupyter.said) for path in ADDRESSES]) as row:
        yield row


def test_a_silent_cluster_keeps_nobody_else_from_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def said(one: Reached, _path: str, _now: datetime) -> dict[str, Any]:
        if one.to.host == "silent":
            await asyncio.Event().wait()
        return {"kernels": 1}

    monkeypatch.setattr(asking, "_said", said)
    monkeypatch.setattr(asking, "AT_ONCE", 2)
    monkeypatch.setattr(asking, "OF_ONE", 1)
    monkeypatch.setattr(asking, "SLICE_SECONDS", 0.5)
    silent, lively = uuid4(), uuid4()
    asked = {uuid4(): Reached(silent, Upstream("silent", 1, "t", None)) for _ in range(3)}
    one = uuid4()
    found = asyncio.run(asking._ask_all({**asked, one: Reached(lively, Upstream("a", 1, "t", None))}, NOW))
    first, *rest = asked
    assert found == {first: {"problem": "no answer"}, one: {"kernels": 1}}
    assert not set(rest) & set(found), "nobody asked them: what they said before stands"


@pytest.mark.django_db
def test_who_was_not_asked_keeps_what_it_said(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    row = running(cast, "mine")
    kept = ide_activity.read([kernel("busy")], status(), NOW).as_json()
    Workload.objects.update(ide=kept)

    async def nobody(*_: Any) -> dict[Any, Any]:
        return {}

    monkeypatch.setattr(asking, "_upstream", lambda _row: Upstream("a", 1, "t", None))
    monkeypatch.setattr(asking, "_ask_all", nobody)
    assert asking.ask_due(now=NOW) == 0
    row.refresh_from_db()
    assert (row.ide, row.ide_asked_at) == (kept, NOW)


@pytest.mark.django_db
def test_it_is_asked_with_its_token_kept_and_asked_again_after_a_while(
    notebook: Workload, jupyter: Jupyter
) -> None:
    before = notebook.updated_at
    assert asking.ask_due(now=NOW) == 1
    notebook.refresh_from_db()
    token = f"token {derived(IDE, str(notebook.pk))}"
    assert jupyter.heard == [("no_track_activity=1", token), ("", token), ("no_track_activity=1", token)]
    assert ide_use.words_of(notebook, NOW) == "A kernel runs code."
    assert notebook.updated_at == before, "nobody changed it"
    assert asking.ask_due(now=NOW + 4 * MINUTE) == 0
    jupyter.kernels, jupyter.terminals = [], [terminal("2026-11-25T16:04:00Z")]
    assert asking.ask_due(now=NOW + 5 * MINUTE) == 1
    notebook.refresh_from_db()
    assert ide_use.words_of(notebook, NOW + 6 * MINUTE) == "A terminal is in use."
    assert jupyter.asked_for_health == 1, "its log would have each as an error"


@pytest.mark.django_db
@pytest.mark.parametrize("health", [Response("no", 403), JSONResponse({"ok": True}), Response("<h1>hi</h1>")])
def test_what_has_another_health_is_asked_as_jupyter(
    notebook: Workload, jupyter: Jupyter, health: Response
) -> None:
    jupyter.health = health
    assert asking.ask_due(now=NOW) == 1
    notebook.refresh_from_db()
    assert ide_use.words_of(notebook, NOW) == "A kernel runs code."


@pytest.mark.django_db
@pytest.mark.usefixtures("notebook")
def test_whom_the_machine_trusts_is_not_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def where() -> str:
        raise AssertionError("20 ms for one notebook, and 0.7 MB for each that is asked at the same time")

    monkeypatch.setattr("certifi.where", where)
    assert asking.ask_due(now=NOW) == 1


BOMB = zlib.compress(b"[" + b" " * 10**6 + b"]")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Response("no", 403), "it refuses its token"),
        (Response("gone", 404), "it does not speak Jupyter's API"),
        (Response(status_code=302, headers={"Location": "http://169.254.169.254/"}), "speak Jupyter's API"),
        (Response("<h1>not json</h1>"), "it does not speak Jupyter's API"),
        (Response(b"[" + b" " * 300_000 + b"]"), "it does not speak Jupyter's API"),
        (Response(BOMB, headers={"Content-Encoding": "deflate"}), "it does not speak Jupyter's API"),
        (Response("[" * 100_000), "it does not speak Jupyter's API"),
    ],
)
def test_another_answer_makes_it_unknown(
    notebook: Workload, jupyter: Jupyter, answer: Response, why: str
) -> None:
    asking.ask_due(now=NOW)
    jupyter.answer = answer
    assert asking.ask_due(now=NOW + 5 * MINUTE) == 0
    notebook.refresh_from_db()
    words = ide_use.words_of(notebook, NOW + 5 * MINUTE)
    assert words.startswith("What its IDE does is unknown: ")
    assert why in words
    assert ide_use.activity_of(notebook, NOW + 5 * MINUTE) is None
    assert len(jupyter.heard) == 4, "it is led nowhere, and asked no more"


@pytest.mark.django_db
def test_one_that_does_not_answer_keeps_no_other_waiting(cast: Cast, notebook: Workload) -> None:
    lost, none = running(cast, "lost"), running(cast, "none")
    MirrorObject.objects.filter(name="none").delete()
    assert asking.ask_due(now=NOW) == 1
    for row in (lost, none):
        row.refresh_from_db()
        assert ide_use.words_of(row, NOW) == "What its IDE does is unknown: no answer."


@pytest.mark.django_db
def test_what_does_not_run_is_not_asked(cast: Cast, notebook: Workload, jupyter: Jupyter) -> None:
    Workload.objects.update(phase=Phase.STARTING)
    assert asking.ask_due(now=NOW) == 0
    assert not jupyter.heard
    notebook.refresh_from_db()
    assert ide_use.words_of(notebook, NOW) == ""


@pytest.mark.django_db
def test_an_answer_for_a_run_that_is_over_is_dropped(notebook: Workload) -> None:
    Workload.objects.filter(pk=notebook.pk).update(started_at=BEGUN + MINUTE)
    asking._keep(notebook, {"problem": "no answer"})
    notebook.refresh_from_db()
    assert notebook.ide is None


@pytest.mark.django_db
def test_rest_and_the_page_say_it(cast: Cast, notebook: Workload, signed_in: SignedIn) -> None:
    api = Api(cast.rosa)
    page = f"/t/vision/workloads/{notebook.pk}/"

    def told() -> tuple[Any, str]:
        status = api.call("get", f"/{notebook.pk}").json()["status"]
        html = signed_in(cast.rosa).get(page).content.decode()
        assert status["ide"]["message"] in html
        assert api.call("get").json()["items"][0]["status"]["ide"] == status["ide"]
        return status["ide"], status["gpu_idle_since"]

    said, _ = told()
    assert said["message"] == "What its IDE does is unknown: not asked yet."
    assert (said["problem"], said["running"], said["answered_at"]) == ("not asked yet", None, None)
    now = timezone.now()
    Workload.objects.update(started_at=now - MINUTE, gpu_idle_since=now)
    asking.ask_due(now=now)
    said, since = told()
    assert said["message"].startswith("A kernel runs code, no GPU use since ")
    assert (said["problem"], said["kernels"], said["running"], said["tabs"]) == (None, 1, 1, 1)
    assert (said["terminals"], said["terminal_activity"]) == (0, None)
    assert since is not None
    Workload.objects.update(phase=Phase.STOPPED)
    assert api.call("get", f"/{notebook.pk}").json()["status"]["ide"] is None
    assert "ide-use" not in signed_in(cast.rosa).get(page).content.decode()
