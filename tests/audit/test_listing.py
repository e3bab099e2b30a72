"""The list of the record over REST: who sees what, what narrows it, what it costs, and no secret in it."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.audit import selectors
from apps.audit.models import AuditEvent
from apps.audit.specs import Target
from apps.tenants.models import DepartmentManager, Membership
from tests.audit.records import write, write_many
from tests.conftest import Cast
from tests.factories import make_user
from tests.tenants.rest import Rest

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def record(cast: Cast) -> Cast:
    """Seven acts in three tenants and on the platform; one of each tenant's is by its member."""
    write("researcher", "workload.create", Target("workload", "w-1", "nb-ada", "vision"), minute=1)
    write(
        "lead", "workload.stop", Target("workload", "w-1", "nb-ada", "vision"), minute=2, reason="Lunch, 50 %"
    )
    write("platform", "tenant.update", Target("tenant", "t-2", "speech", "speech"), minute=3)
    write("outsider", "workload.create", Target("workload", "w-3", "fold", "genomics"), minute=4)
    write("platform", "offer.create", Target("offer", "o-1", "h100"), minute=5)
    write("researcher", "session.sign-in", Target("user", "u-1", "researcher"), minute=6)
    write("outsider", "session.sign-in", Target("user", "u-2", "outsider"), minute=7)
    return cast


def told(rest: Rest, query: str = "") -> list[str]:
    """Actor and action of what is listed, newest first; acts of setting up are left out."""
    answer = rest.get(f"/audit-events?limit=200&{query}")
    assert answer.status_code == 200, answer.content
    items = answer.json()["items"]
    return [f"{each['actor']} {each['action']}" for each in items if each["action"] != "token.create"]


ALL = [
    "outsider session.sign-in", "researcher session.sign-in", "platform offer.create",
    "outsider workload.create", "platform tenant.update", "lead workload.stop", "researcher workload.create",
]  # fmt: skip


def test_platform_engineers_and_auditors_see_all_of_it(record: Cast) -> None:
    assert told(Rest(record.petra)) == ALL
    assert told(Rest(record.ann)) == ALL


def test_a_lead_sees_what_was_done_in_the_team_and_a_member_what_it_did_itself(record: Cast) -> None:
    assert told(Rest(record.leon)) == ["lead workload.stop", "researcher workload.create"]
    assert told(Rest(record.rosa)) == ["researcher session.sign-in", "researcher workload.create"]
    assert told(Rest(record.otto)) == ["outsider session.sign-in", "outsider workload.create"]
    assert told(Rest(make_user("newcomer"))) == []


def test_a_manager_sees_what_was_done_in_the_tenants_of_the_department(record: Cast) -> None:
    mona = make_user("mona")
    DepartmentManager.objects.create(department=record.vision.department, user=mona)
    assert told(Rest(mona)) == ["platform tenant.update", "lead workload.stop", "researcher workload.create"]


def test_who_left_a_tenant_sees_nothing_of_it_not_even_what_it_did(record: Cast) -> None:
    Membership.objects.filter(user=record.rosa).delete()
    assert told(Rest(record.rosa)) == ["researcher session.sign-in"]


@pytest.mark.parametrize(
    ("username", "expected"),
    [
        ("platform", ["lead workload.stop", "researcher workload.create"]),
        ("auditor", ["lead workload.stop", "researcher workload.create"]),
        ("lead", ["lead workload.stop", "researcher workload.create"]),
        ("researcher", ["researcher workload.create"]),
    ],
)
def test_a_token_cut_to_a_tenant_sees_that_tenants_chain_alone(
    record: Cast, username: str, expected: list[str]
) -> None:
    assert told(Rest(User.objects.get(username=username), tenants=("vision",))) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("actor=lead,platform", ["platform offer.create", "platform tenant.update", "lead workload.stop"]),
        ("action=workload.create", ["outsider workload.create", "researcher workload.create"]),
        ("kind=tenant,offer", ["platform offer.create", "platform tenant.update"]),
        ("target=w-1", ["lead workload.stop", "researcher workload.create"]),
        ("kind=workload&target=w-3", ["outsider workload.create"]),
        ("tenant=speech", ["platform tenant.update"]),
        ("request_id=r-2,r-5", ["platform offer.create", "lead workload.stop"]),
        ("since=2026-11-20T09:06:00Z", ["outsider session.sign-in", "researcher session.sign-in"]),
        (
            "since=2026-11-20T09:02:00Z&until=2026-11-20T09:04:00Z",
            ["platform tenant.update", "lead workload.stop"],
        ),
        ("q=lunch", ["lead workload.stop"]),
        ("q=STOP+ada", ["lead workload.stop"]),
        ("q=50+%25", ["lead workload.stop"]),
        ("q=genomics", ["outsider workload.create"]),
        ("q=nothing-of-it", []),
        ("q=ada&actor=researcher", ["researcher workload.create"]),
    ],
)
def test_every_filter_narrows_the_list(record: Cast, query: str, expected: list[str]) -> None:
    assert told(Rest(record.petra), query) == expected


def test_a_filter_reaches_no_further_than_the_caller(record: Cast) -> None:
    leon = Rest(record.leon)
    assert told(leon, "actor=outsider") == told(leon, "target=w-3") == told(leon, "q=genomics") == []
    assert leon.get("/audit-events?tenant=genomics").status_code == 400


def test_what_was_done_in_a_tenant_that_is_gone_is_found_by_who_sees_everything(record: Cast) -> None:
    record.speech.deleted_at = record.speech.created_at
    record.speech.save()
    assert told(Rest(record.ann), "tenant=speech") == ["platform tenant.update"]
    assert Rest(record.leon).get("/audit-events?tenant=speech").status_code == 400


@pytest.mark.parametrize(
    ("query", "name"),
    [("q=" + "a" * 101, "q"), ("since=yesterday", "since"), ("sort=actor", "sort"), ("limit=0", "limit"),
     ("actor=" + ",".join("a" * 101), "actor"), ("cursor=x", "cursor")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(record: Cast, query: str, name: str) -> None:
    answer = Rest(record.petra).get(f"/audit-events?{query}")
    assert answer.status_code == 400
    assert [each["parameter"] for each in answer.json()["errors"]] == [name]


def test_pages_follow_each_other_without_a_gap_while_more_is_written(cast: Cast) -> None:
    write_many(7)
    rest = Rest(cast.leon)
    query: str | None = "/audit-events?limit=3&action=workload.stop"
    seen: list[str] = []
    while query:
        page = rest.get(query).json()
        seen += [each["id"] for each in page["items"]]
        query = page["next"] and page["next"].partition("/api/v1")[2]
        write("lead", "workload.stop", Target("workload", "w", "n", "vision"), minute=100 + len(seen))
    assert seen == [f"tenant:vision#{number}" for number in range(7, 0, -1)]


def test_an_event_is_told_whole(cast: Cast) -> None:
    write_many(2)
    (event,) = Rest(cast.leon).get("/audit-events?target=w-1").json()["items"]
    row = AuditEvent.objects.get(target_id="w-1")
    assert event == {
        "object": "audit_event", "id": "tenant:vision#2", "at": "2026-11-20T09:01:00Z", "actor": "researcher",
        "token": "alt_12345678", "action": "workload.stop",
        "target": {"kind": "workload", "id": "w-1", "name": "nb-1"}, "tenant": "vision", "request_id": "r-1",
        "reason": "done", "changes": {"suspend": [False, True]}, "chain": "tenant:vision", "sequence": 2,
        "previous_hash": row.previous_hash, "hash": row.hash,
    }  # fmt: skip


def test_a_page_as_csv_has_what_changed_as_json_and_no_formula(cast: Cast) -> None:
    write(
        "=cmd", "workload.stop", Target("workload", "w", "nb", "vision"), changes={"suspend": [False, True]}
    )
    answer = Rest(cast.ann).get("/audit-events?target=w", accept="text/csv")
    head, line = answer.content.decode().splitlines()
    assert head.startswith("id,at,actor,token,action,target_kind,target_id,target_name,tenant,")
    assert ",'=cmd," in line
    assert '"{""suspend"": [false, true]}"' in line


SECRETS: dict[str, Any] = {
    "a variable's value": {"spec": [None, {"env": {"HF_TOKEN": "s3cret-value"}, "image": "a"}]},
    "a variable that changed": {"env": [{"HF_TOKEN": "s3cret-value"}, {"HF_TOKEN": "s3cret-value-2"}]},
    "a password": {"password": [None, "s3cret-value"]},
    "a password below": {"login": [None, {"password": "s3cret-value"}]},
    "an API token": {"note": [None, "use alt_s3cretvaluelongenough"]},
    "an address with one": {"url": [None, "https://me:s3cret-value@registry.example"]},
}


@pytest.mark.parametrize("changes", SECRETS.values(), ids=SECRETS)
def test_no_secret_that_somebody_wrote_is_shown(cast: Cast, changes: Any) -> None:
    target = Target("workload", "w", "nb", "vision")
    write("lead", "workload.create", target, changes=changes, reason="token: s3cret-value")
    for accept in ("application/json", "text/csv"):
        page = Rest(cast.ann).get("/audit-events", accept=accept).content.decode()
        assert "s3cret" not in page
        assert "[secret]" in page
    assert "HF_TOKEN" in page or "HF_TOKEN" not in str(changes), "its name stays"


def test_a_page_costs_the_same_statements_however_much_is_recorded(cast: Cast) -> None:
    def count(query: str) -> int:
        rest = Rest(cast.leon)
        with CaptureQueriesContext(connection) as found:
            assert rest.get(f"/audit-events?{query}").status_code == 200
        return len(found)

    queries = ("", "q=nb-1", "tenant=vision&actor=researcher", "include_total=true")
    write_many(3)
    few = [count(query) for query in queries]
    write_many(60)
    assert [count(query) for query in queries] == few
    assert max(few) <= 10


def test_words_are_looked_for_among_the_newest_alone(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    write_many(8)
    rest = Rest(cast.ann)
    assert len(told(rest, "q=nb-2")) == 1
    monkeypatch.setattr(selectors, "LOOKED_THROUGH", 5)
    assert told(rest, "q=nb-2") == []
    assert len(told(rest, "q=nb-2&until=2026-11-20T09:05:00Z")) == 1
