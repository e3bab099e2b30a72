"""Every list of metering as CSV for who asks for it, costs by member, and the states of devices."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from apps.metering.models import Allocation, Finding, TelemetryIssue
from tests.conftest import Cast
from tests.metering.used_scene import Used, used
from tests.workloads.rest import Api

__all__ = ["used"]

HOUR = timedelta(hours=1)


def table(user: Any, path: str) -> list[dict[str, str]]:
    answer = Api(user).client.get(f"/api/v1/{path}", headers={"Accept": "text/csv"})
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def body(user: Any, path: str) -> Any:
    answer = Api(user).client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.django_db
def test_costs_by_member_are_those_of_the_page_and_sum_to_the_tenants(used: Used) -> None:
    cast = used.cast
    found = body(cast.leon, "costs?group_by=member")
    assert {each["member"] for each in found["items"]} == {cast.rosa.username, cast.leon.username}
    assert found["total"] == body(cast.leon, "costs")["total"]
    hoards = next(each for each in found["items"] if each["member"] == cast.leon.username)
    assert hoards["waste_by_cause"]["hoarded"]["amount"] == "22.8144"
    lines = table(cast.leon, "costs?group_by=member")
    assert [line["member"] for line in lines] == [each["member"] for each in found["items"]]
    assert [line["waste"] for line in lines] == [each["waste"]["amount"] for each in found["items"]]
    assert {line["currency"] for line in lines} == {"EUR"}


@pytest.mark.django_db
def test_allocations_come_as_csv_page_by_page(used: Used) -> None:
    lines = table(used.cast.rosa, "allocations")
    assert [line["id"] for line in lines] == [
        each["id"] for each in body(used.cast.rosa, "allocations")["items"]
    ]
    assert lines[0]["to"].endswith("Z")
    short = Api(used.cast.rosa).client.get("/api/v1/allocations?limit=1", headers={"Accept": "text/csv"})
    assert 'rel="next"' in short["Link"]
    assert len(short.content.decode().splitlines()) == 2
    assert Allocation.objects.count() == 3


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "first"), [("findings", "id,tenant"), ("telemetry-issues", "id,cluster")])
def test_an_empty_list_has_its_head(cast: Cast, path: str, first: str) -> None:
    answer = Api(cast.petra).client.get(f"/api/v1/{path}", headers={"Accept": "text/csv"})
    assert answer.status_code == 200
    assert answer.content.decode().startswith(first)
    assert not Finding.objects.exists()
    assert not TelemetryIssue.objects.exists()


@pytest.mark.django_db
def test_a_refusal_is_a_problem_whatever_was_accepted(cast: Cast) -> None:
    answer = Api(cast.rosa).client.get("/api/v1/costs?group_by=colour", headers={"Accept": "text/csv"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert "member" in answer.json()["detail"]
    assert (
        Api(cast.rosa).client.get("/api/v1/telemetry-issues", headers={"Accept": "text/csv"}).status_code
        == 404
    )


@pytest.mark.django_db
def test_states_are_the_cells_of_the_picture(used: Used) -> None:
    since = f"{used.now - 4 * HOUR:%Y-%m-%dT%H:%M:%SZ}"
    path = f"utilization/states?from={since}&step_seconds=1800"
    found = body(used.cast.rosa, path)
    states = {each["device"]: each["state"] for each in found["items"]}
    assert states == {"GPU-0000-aaaa": "used-100", "GPU-0000-bbbb": "hoarded"}
    lines = table(used.cast.rosa, path)
    assert len(lines) == len(found["items"])
    assert lines[0]["state"] == found["items"][0]["state"]
    assert Api(used.cast.rosa).client.get("/api/v1/utilization/states?group_by=tenant").status_code == 400
    one = body(used.cast.petra, f"{path}&device=GPU-0000-cccc")
    assert {each["node"] for each in one["items"]} == {"gpu-02"}
    assert body(used.cast.rosa, f"{path}&device=GPU-0000-cccc")["items"] == []
