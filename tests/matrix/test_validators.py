"""ETag and 304 on every address that is read: given after all checks, and never of what has changed."""

from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.specs import PlatformRole
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from portal.api.base.views import ApiView
from tests.matrix import asking, routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import Cell, address, load

pytestmark = pytest.mark.django_db
TABLE = load()
VIEWS = {route: getattr(view, "cls", object) for route, view in routes.served().items()}
READ = [
    row for row, asked in TABLE.rows.items() if "GET" in asked and issubclass(VIEWS[address(row)], ApiView)
]
SAME = ("Cache-Control", "Vary", "X-Request-Id")
EMPTY = ("Content-Type", "Content-Length")


def seen(scene: Scene, cell: Cell, tag: str) -> Any:
    return asking.ask(scene, TABLE, cell, headers={"If-None-Match": tag})


def cells(row: str) -> list[Cell]:
    return [cell for cell in TABLE.sample(row) if cell.method in ("GET", "HEAD")]


@pytest.mark.parametrize("row", READ)
def test_what_one_has_is_not_sent_again(scene: Scene, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is told up to now, such as costs, is another answer at every moment.
    moment = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)
    for cell in cells(row):
        if cell.role != PlatformRole.PLATFORM or cell.kind not in ("none", "own"):
            continue
        first = asking.ask(scene, TABLE, cell)
        if first["Cache-Control"] == "no-store":
            continue
        again = seen(scene, cell, f'"other", W/{first["ETag"]}')
        assert again.status_code == 304, cell
        assert (again.content, again["ETag"]) == (b"", first["ETag"])
        assert [name for name in SAME if not again.has_header(name)] == []
        assert [name for name in EMPTY if again.has_header(name)] == []
        other = seen(scene, cell, '"other"')
        assert (other.status_code, other.content) == (200, first.content)


@pytest.mark.parametrize("row", READ)
def test_a_304_is_given_to_nobody_who_is_refused(scene: Scene, row: str) -> None:
    refused = [cell for cell in cells(row) if TABLE.answers[cell.expected] != 200]
    told = [asking.wrong(scene, TABLE, cell, seen(scene, cell, "*")) for cell in refused]
    assert "\n".join(filter(None, told)) == ""


def test_a_status_that_moved_is_sent_and_still_matches_a_change(scene: Scene) -> None:
    client, path = scene.api["member"], f"/api/v1/workloads/{scene.here.own.pk}"
    with undone():
        had = client.get(path)["ETag"]
        Workload.objects.filter(pk=scene.here.own.pk).update(phase=Phase.STOPPING)
        now = client.get(path, headers={"If-None-Match": had})
        assert (now.status_code, now.json()["status"]["phase"]) == (200, "Stopping")
        assert now["ETag"] != had
        changed = client.patch(
            path, {"name": "x"}, content_type="application/json", headers={"If-Match": had}
        )
        assert (changed.status_code, changed["ETag"]) == (200, client.get(path)["ETag"])
