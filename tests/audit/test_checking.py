"""The chains are checked in parts: bounded, on from any place, and right about what is being written."""

import json
from urllib.parse import unquote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.audit import periodic, selectors, services
from apps.audit.chain import Place, place_in
from apps.audit.specs import Target
from apps.web import self_checks
from tests.audit.records import sql, write, write_many
from tests.conftest import Cast
from tests.tenants.rest import Rest

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
BREAK = "UPDATE audit_auditevent SET reason = 'nothing' WHERE chain = 'tenant:vision' AND sequence = 4"


def followed(rest: Rest, query: str) -> list[dict[str, object]]:
    """Every part of a check, from the first on."""
    parts, address = [], f"/audit-events/verify?{query}"
    while address:
        answer = rest.get(address)
        assert answer.status_code == 200, answer.content
        parts.append(answer.json())
        address = (parts[-1]["next"] or "").partition("/api/v1")[2]
    return parts


def test_a_whole_record_is_checked_to_its_end_in_parts(cast: Cast) -> None:
    write_many(7)
    write_many(3, "speech", "platform")
    parts = followed(Rest(cast.ann), "limit=4")
    assert sum(int(str(part["checked"])) for part in parts) == 7 + 3 + 1, (
        "the token that asks is recorded too"
    )
    assert all(part["checked"] == 4 for part in parts[:-1])
    assert [part["breaches"] for part in parts] == [[]] * len(parts)


def test_the_first_broken_event_of_each_chain_is_named_and_the_others_are_checked_on(cast: Cast) -> None:
    write_many(7)
    write_many(5, "speech", "platform")
    sql(BREAK)
    sql("DELETE FROM audit_auditevent WHERE chain = 'tenant:speech' AND sequence = 5")
    parts = followed(Rest(cast.petra), "limit=3")
    found = [breach for part in parts for breach in part["breaches"]]  # type: ignore[attr-defined]
    assert found == [
        {"chain": "tenant:speech", "sequence": 5, "kind": "truncated",
         "message": "links at the end were deleted"},
        {"chain": "tenant:vision", "sequence": 4, "kind": "edited",
         "message": "its content is not what was hashed"},
    ]  # fmt: skip


def test_one_chain_alone_may_be_checked(cast: Cast) -> None:
    write_many(7)
    sql(BREAK)
    rest = Rest(cast.ann)
    (part,) = followed(rest, "chain=tenant:vision")
    assert [breach["sequence"] for breach in part["breaches"]] == [4]  # type: ignore[attr-defined]
    (part,) = followed(rest, "chain=platform")
    assert (part["breaches"], part["checked"]) == ([], 1)


@pytest.mark.parametrize(
    "query", ["chain=nowhere", "cursor=x", "cursor=1::platform&chain=tenant:vision", "limit=0"]
)
def test_a_check_of_nothing_is_refused(cast: Cast, query: str) -> None:
    write_many(1)
    answer = Rest(cast.ann).get(f"/audit-events/verify?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


def test_what_was_rewritten_behind_a_place_is_found_from_there_on(cast: Cast) -> None:
    write_many(6)
    part = services.check(None, chain="tenant:vision", most=3)
    assert part.place is not None
    assert part.place == place_in(unquote(str(part.place)))
    sql("DELETE FROM audit_auditevent WHERE sequence = 4")
    rest = services.check(part.place, chain="tenant:vision", most=3)
    assert [str(each).split(":")[1] for each in rest.breaches] == ["vision#5 missing"]


def test_only_who_sees_everything_may_check(cast: Cast) -> None:
    for rest in (Rest(cast.rosa), Rest(cast.leon), Rest(cast.petra, tenants=("vision",))):
        assert rest.get("/audit-events/verify").status_code == 404


def test_an_event_that_is_written_while_its_chain_is_read_is_no_breach(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_many(3)
    usual, left = selectors.links_after, [2]

    def links_after(place: Place, most: int) -> object:
        found = usual(place, most)
        if left[0]:
            left[0] -= 1
            write("lead", "workload.stop", Target("workload", "w", "n", "vision"))
        return found

    monkeypatch.setattr(selectors, "links_after", links_after)
    verdict = services.verify("tenant:vision")
    assert (verdict.breaches, verdict.links) == ((), 5)


def test_a_part_costs_the_same_statements_however_long_the_record_is(cast: Cast) -> None:
    def count(most: int) -> int:
        with CaptureQueriesContext(connection) as found:
            services.check(None, chain=None, most=most)
        return len(found)

    write_many(10)
    before = count(10)
    write_many(200)
    assert count(10) == before <= 4


def test_a_part_comes_to_a_bounded_number_of_chains(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_STEPS", 3)
    for number in range(5):
        write("lead", "workload.stop", Target("workload", "w", "n", f"team-{number}"))
    part = services.check(None, chain=None, most=1000)
    assert (part.links, part.place) == (3, Place("tenant:team-3"))
    part = services.check(part.place, chain=None, most=1000)
    assert (part.links, part.place) == (2, None)


def test_chains_whose_head_or_whose_links_are_gone_are_come_to_all_the_same(cast: Cast) -> None:
    for slug in ("b-b", "ba", "bc", "bd"):
        write("lead", "workload.stop", Target("workload", "w", "n", slug))
    sql("DELETE FROM audit_chainhead WHERE chain IN ('tenant:b-b', 'tenant:bd')")
    sql("DELETE FROM audit_auditevent WHERE chain IN ('tenant:ba')")
    part = services.check(None, chain=None, most=1000)
    found = {(each.chain, str(each.kind)) for each in part.breaches}
    assert found == {("tenant:b-b", "extra"), ("tenant:bd", "extra"), ("tenant:ba", "truncated")}
    assert set(services.verify().breaches) == set(part.breaches)


def test_what_the_workers_found_last_is_told_with_the_first_breach(cast: Cast) -> None:
    write_many(5)
    rest = Rest(cast.ann)
    assert rest.get("/audit-events/verify").json()["last_check"] is None
    sql(BREAK)
    periodic.check_chains()
    told = rest.get("/audit-events/verify").json()["last_check"]
    assert told["first_breach"] == "tenant:vision#4 edited: its content is not what was hashed"
    assert (told["checked"], told["breaches"]) == (5 + 1, 1)
    self_checks.note(self_checks.AUDIT, seen=6, breaches=0, now=timezone.now())
    assert rest.get("/audit-events/verify").json()["last_check"]["first_breach"] is None


@pytest.mark.parametrize(
    "text", ["", "x", "1:zz:platform", "1:ab", "-1::platform", json.dumps([1]), "9" * 30 + "::a"]
)
def test_a_text_that_is_no_place_is_none(text: str) -> None:
    assert place_in(text) is None
