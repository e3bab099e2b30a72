"""The record as a file: all that is wanted and no more, streamed, and never a part taken for the whole."""

import ast
import asyncio
import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.audit.models import AuditEvent
from apps.audit.selectors import stretches
from apps.audit.specs import Target
from apps.tenants.live.services import audit_export
from apps.tenants.models import Membership
from apps.web.streams import streaming
from tests.audit.records import write, write_many
from tests.conftest import Cast, as_actor
from tests.house.reading import ROOT, sources
from tests.patience import within

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


def headers(user: User, *tenants: str) -> dict[str, str]:
    given: dict[str, Any] = {"name": "t", "scopes": [], "tenants": list(tenants), "expires_in_days": 1}
    _, text = create_token(actor=as_actor(user), now=timezone.now(), **given)
    return {"Authorization": f"Bearer {text}"}


def exported(user: User, query: str, *tenants: str) -> str:
    """The whole file, as a server of ASGI sends it."""
    given = headers(user, *tenants)

    async def read() -> str:
        answer: Any = await AsyncClient().get(f"/api/v1/audit-events/export?{query}", headers=given)
        assert answer.status_code == 200, answer.content
        assert answer["Content-Disposition"].startswith('attachment; filename="audit-')
        assert answer["Cache-Control"] == "no-store"
        return b"".join([chunk async for chunk in answer]).decode()

    return async_to_sync(read)()


@pytest.fixture(autouse=True)
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "STRETCH", 4)


def test_a_file_has_a_line_for_every_event_newest_first(cast: Cast) -> None:
    write_many(10)
    rows = list(csv.DictReader(io.StringIO(exported(cast.leon, "action=workload.stop"))))
    assert [row["id"] for row in rows] == [f"tenant:vision#{number}" for number in range(10, 0, -1)]
    assert rows[0]["at"] == "2026-11-20T09:09:00Z"
    assert json.loads(rows[0]["changes"]) == {"suspend": [False, True]}
    lines = exported(cast.leon, "action=workload.stop&as=jsonl").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [row["id"] for row in rows]
    assert json.loads(lines[0])["at"] == "2026-11-20T09:09:00Z"


def test_a_file_of_nothing_has_a_head_and_no_line(cast: Cast) -> None:
    assert exported(cast.leon, "actor=nobody").count("\r\n") == 1
    assert exported(cast.leon, "actor=nobody&as=jsonl") == ""


def test_a_file_is_narrowed_and_cut_as_the_list_is(cast: Cast) -> None:
    write_many(5)
    write_many(5, "genomics", "outsider")
    write(
        "researcher",
        "session.sign-in",
        Target("user", "u", "researcher"),
        minute=9,
        reason="s3 token: s3cret",
    )

    def ids(text: str) -> list[str]:
        return [json.loads(line)["id"] for line in text.splitlines()]

    assert len(ids(exported(cast.ann, "as=jsonl&action=workload.stop"))) == 10
    assert ids(exported(cast.ann, "as=jsonl&tenant=genomics&until=2026-11-20T09:01:00Z")) == [
        "tenant:genomics#1"
    ]
    assert ids(exported(cast.ann, "as=jsonl&q=nb-3+outsider")) == ["tenant:genomics#4"]
    assert len(ids(exported(cast.ann, "as=jsonl", "vision"))) == 5
    assert len(ids(exported(cast.otto, "as=jsonl&action=workload.stop"))) == 5
    assert "s3cret" not in exported(cast.ann, "as=jsonl")


def test_no_statement_looks_at_more_than_a_stretch(cast: Cast) -> None:
    write_many(12)
    rows = AuditEvent.objects.filter(action="workload.stop")
    with CaptureQueriesContext(connection) as asked:
        found = [[row.target_id for row in stretch] for stretch in stretches(rows, "nb-2", 4)]
    assert found == [[], [], ["w-2"], []]
    assert len(asked) == 2 * 3 + 2


def test_events_of_one_moment_are_in_a_file_once(cast: Cast) -> None:
    for number in range(9):
        write("lead", "workload.stop", Target("workload", f"w-{number}", "n", "vision"))
    found = [row.target_id for stretch in stretches(AuditEvent.objects.all(), "", 2) for row in stretch]
    assert found == [f"w-{number}" for number in range(8, -1, -1)]


def end_membership(cast: Cast) -> None:
    Membership.objects.filter(user=cast.leon).delete()


def disable(cast: Cast) -> None:
    User.objects.filter(pk=cast.leon.pk).update(is_active=False)


@pytest.mark.parametrize("act", [end_membership, disable])
def test_a_file_whose_right_ends_is_broken_off(
    cast: Cast, act: Callable[[Cast], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_export, "STRETCH", 1)
    write_many(50)
    given, before = headers(cast.leon), streaming.open_streams()

    async def read() -> int:
        answer: Any = await AsyncClient().get("/api/v1/audit-events/export?as=jsonl", headers=given)
        stream = aiter(answer)
        seen = 1 if await anext(stream) else 0
        await sync_to_async(act)(cast)
        until = within(20)
        while seen < 50:
            # Slower than the guard looks, as a reader far away is.
            await asyncio.sleep(0.1)
            assert asyncio.get_running_loop().time() < until
            await anext(stream)
            seen += 1
        return seen

    with pytest.raises(streaming.BrokenOff):
        async_to_sync(read)()
    assert streaming.open_streams() == before


def test_files_are_made_by_services_and_with_a_guard() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for path in sources()
        if "streaming.file" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "streaming.file"
    }
    assert makers == {
        "apps/tenants/live/services/audit_export.py",
        "apps/workloads/lifecycle/services/log_files.py",
    }


def test_one_person_has_a_bounded_number_of_files_open(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.CONFIG, "streams_per_person", 1)
    given = headers(cast.ann)

    async def read() -> tuple[int, int]:
        client = AsyncClient()
        first: Any = await client.get("/api/v1/audit-events/export", headers=given)
        second: Any = await client.get("/api/v1/audit-events/export", headers=given)
        async for _ in first:
            pass
        third: Any = await client.get("/api/v1/audit-events/export", headers=given)
        await aiter(third).aclose()
        return second.status_code, third.status_code

    assert async_to_sync(read)() == (429, 200)
