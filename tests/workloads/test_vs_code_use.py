"""What VS Code in the browser says of its use: whether a tab of it is open, which is no work."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apps.workloads.models import Workload
from apps.workloads.opening.rules import ide_activity
from apps.workloads.opening.selectors import ide_use
from apps.workloads.opening.services import asking
from tests.conftest import Cast
from tests.workloads.ides import ADDRESSES, MINUTE, NOW, served, wait_long
from tests.workloads.rest import Api


def beat(at: datetime) -> int:
    """As code-server gives a time."""
    return int(at.timestamp() * 1000)


@pytest.mark.parametrize(
    ("health", "told"),
    [
        ({"status": "alive", "lastHeartbeat": beat(NOW)}, "A tab of VS Code is open."),
        ({"status": "expired", "lastHeartbeat": beat(NOW - 110 * MINUTE)},
         "No tab of VS Code has been open since 14:10 UTC."),
        ({"status": "expired", "lastHeartbeat": 2**63}, "No tab of VS Code has been open since 16:00 UTC."),
        ({"status": "expired", "lastHeartbeat": 0}, "No tab of VS Code has been open yet."),
    ],
)  # fmt: skip
def test_its_words_of_a_tab_of_vs_code_which_is_no_work(health: dict[str, Any], told: str) -> None:
    found = ide_activity.read_health(health, NOW)
    assert ide_activity.words(found, NOW - 70 * MINUTE, NOW) == told
    assert (found.is_at_work, ide_activity.work_words(found)) == (False, "")
    assert ide_activity.Activity.of_json(found.as_json()) == found


@pytest.mark.parametrize(
    "health",
    [
        None, [], {}, {"status": "ok", "lastHeartbeat": 1}, {"status": "alive"},
        {"status": "alive", "lastHeartbeat": "1"}, {"status": "alive", "lastHeartbeat": True},
        {"status": "expired", "lastHeartbeat": -1}, {"status": "expired", "lastHeartbeat": 1.5},
    ],
)  # fmt: skip
def test_a_health_that_is_none_of_code_server_is_refused(health: Any) -> None:
    with pytest.raises(ValueError, match=r"Jupyter|/healthz"):
        ide_activity.read_health(health, NOW)


class CodeServer:
    """As code-server 4.139 (`out/node/routes/index.js`): each request but that for its health is a beat."""

    def __init__(self) -> None:
        self.beats = 0
        self.health: dict[str, Any] = {"status": "expired", "lastHeartbeat": beat(NOW - 110 * MINUTE)}

    async def said(self, request: Request) -> Response:
        if request.url.path == "/healthz":
            return JSONResponse(self.health)
        self.beats += 1
        self.health = {"status": "alive", "lastHeartbeat": beat(NOW)}
        return Response(status_code=404)


@pytest.mark.django_db
def test_vs_code_says_of_its_tab_and_is_not_kept_awake_by_the_question(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_long(monkeypatch)
    code = CodeServer()
    with served(cast, tmp_path, [Route(path, code.said) for path in ADDRESSES]) as row:
        assert asking.ask_due(now=NOW) == 1
        row.refresh_from_db()
        assert ide_use.words_of(row, NOW) == "No tab of VS Code has been open since 14:10 UTC."
        code.health = {"status": "alive", "lastHeartbeat": beat(NOW)}
        assert asking.ask_due(now=NOW + 5 * MINUTE) == 1
        row.refresh_from_db()
        assert row.ide is not None
        Workload.objects.update(ide={**row.ide, "answered_at": timezone.now().isoformat()})
        said = Api(cast.rosa).call("get", f"/{row.pk}").json()["status"]["ide"]
    assert ide_use.words_of(row, NOW + 5 * MINUTE) == "A tab of VS Code is open."
    assert code.beats == 0
    assert (said["message"], said["problem"], said["tabs"]) == ("A tab of VS Code is open.", None, 1)
    assert (said["kernels"], said["running"], said["terminals"]) == (None, None, None)
