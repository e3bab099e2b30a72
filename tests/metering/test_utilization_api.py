"""REST of utilization: series by whom, ratios of sums, null where unknown, scoped, as JSON and as CSV."""

import csv
import io
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.metering.models import Bucket
from apps.workloads.models import Workload
from tests import factories
from tests.conftest import Cast, as_actor
from tests.metering import rolled

pytestmark = pytest.mark.both_databases

HOUR = timedelta(hours=1)


@pytest.fixture
def now() -> datetime:
    return rolled.floor(timezone.now(), 3600)


@pytest.fixture
def works(cast: Cast, now: datetime) -> dict[str, Workload]:
    whole = factories.make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    trains = factories.make_workload(cast.vision, cast.rosa, whole, slug="bert-ft")
    slices = factories.make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    other = factories.make_workload(cast.genomics, cast.otto, whole, slug="secret-run")
    rolled.hold(trains, ("gpu-01", "GPU-a"), now - 2 * HOUR, now)
    rolled.hold(slices, ("gpu-01", "GPU-b"), now - HOUR, now, rolled.SLICED)
    rolled.hold(other, ("gpu-02", "GPU-c"), now - 2 * HOUR, now, rolled.HOARDS)
    rolled.reach(cast.vision.cluster, now - 3 * HOUR, now)
    return {"trains": trains, "slices": slices, "other": other}


def ask(user: User, path: str, accept: str = "application/json", **query: Any) -> Any:
    now, actor = timezone.now(), as_actor(user)
    _, token = create_token(
        actor=actor, name=f"t-{now}", scopes=["metering:read"], tenants=[], expires_in_days=1, now=now
    )
    text = {
        key.rstrip("_"): each.isoformat() if isinstance(each, datetime) else each
        for key, each in query.items()
    }
    return Client().get(
        f"/api/v1/{path}", text, headers={"Authorization": f"Bearer {token}", "Accept": accept}
    )


def test_a_tenants_series_is_sums_divided_once(cast: Cast, works: dict[str, Workload], now: datetime) -> None:
    answer = ask(cast.rosa, "utilization", from_=now - 3 * HOUR, to=now, step_seconds=3600)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    (line,) = body["series"]
    assert line["tenant"] == "vision"
    values = line["values"]
    assert values["allocated"] == [0.0, 1.0, round(1 + 1 / 7, 6)]
    assert values["sm_active"] == [None, 0.81, round((0.81 + 0.6 / 7) / (1 + 1 / 7), 6)]
    # nvidia-smi knows nothing of slices: its figure is of the whole GPU alone.
    assert values["gpu_util"] == [None, 0.99, 0.99]
    assert values["coverage"] == [None, 1.0, 1.0]
    assert set(values) == {
        "allocated", "sm_active", "tensor_active", "dram_active", "gpu_util", "memory_used_bytes", "coverage"
    }  # fmt: skip


def test_what_is_not_known_is_null_and_lowers_the_coverage(
    cast: Cast, works: dict[str, Workload], now: datetime
) -> None:
    Bucket.objects.filter(workload=works["trains"], starts_at__gte=now - HOUR, level__lt=86400).update(
        seen_us=0, sm_us=0, smi_us=0, tensor_us=0, dram_us=0
    )
    body = ask(cast.rosa, f"workloads/{works['trains'].pk}/utilization", from_=now - 3 * HOUR, to=now + HOUR,
               step_seconds=3600).json()  # fmt: skip
    values = body["series"][0]["values"]
    assert values["sm_active"] == [None, 0.81, None, None]
    assert values["coverage"] == [None, 1.0, 0.0, None]
    # After the ledger's end nobody knows what is allocated either.
    assert values["allocated"] == [0.0, 1.0, 1.0, None]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("tenant", {"vision"}),
        ("department", {"research"}),
        ("offer", {"h100-whole", "h100-1g-10gb"}),
        ("device", {"GPU-a", "GPU-b"}),
    ],
)
def test_it_is_grouped_as_asked_and_shows_ones_own_alone(
    cast: Cast, works: dict[str, Workload], by: str, groups: set[str]
) -> None:
    body = ask(cast.leon, "utilization", group_by=by).json()
    assert {each[by] for each in body["series"]} == groups
    assert {each[by] for each in ask(cast.leon, "utilization/summary", group_by=by).json()["items"]} == groups


def test_watchers_see_everybody(cast: Cast, works: dict[str, Workload]) -> None:
    assert {each["tenant"] for each in ask(cast.ann, "utilization").json()["series"]} == {
        "vision",
        "genomics",
    }


def test_another_teams_workload_is_not_there(cast: Cast, works: dict[str, Workload]) -> None:
    assert ask(cast.rosa, f"workloads/{works['other'].pk}/utilization").status_code == 404
    assert ask(cast.rosa, "utilization", workload=str(works["other"].pk)).json()["series"] == []
    assert ask(cast.rosa, "utilization", tenant="genomics").json()["series"] == []


def test_the_csv_has_the_same_values(cast: Cast, works: dict[str, Workload], now: datetime) -> None:
    query = {"from_": now - 3 * HOUR, "to": now, "step_seconds": 3600, "group_by": "device"}
    answer = ask(cast.rosa, "utilization", "text/csv", **query)
    assert answer["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(rows) == 6
    assert (rows[0]["device"], rows[0]["allocated"], rows[0]["sm_active"]) == ("GPU-a", "0", "")
    assert (rows[2]["device"], rows[2]["sm_active"], rows[2]["gpu_util"]) == ("GPU-a", "0.81", "0.99")
    assert rows[5]["gpu_util"] == ""
    summary = ask(
        cast.rosa,
        "utilization/summary",
        "text/csv",
        **{k: v for k, v in query.items() if k != "step_seconds"},
    )
    assert summary.content.decode().splitlines()[0].startswith("device,gpu_hours,mean_sm_active")


def test_the_summary_has_mean_p95_most_and_coverage(
    cast: Cast, works: dict[str, Workload], now: datetime
) -> None:
    rows = Bucket.objects.filter(workload=works["trains"])
    quarter = 300_000_000 // 10
    rows.update(histogram=[0, 0, 0, 0, 0, 0, 0, 0, 9 * quarter, quarter], sm_max=980_000, memory_max_mib=1024)
    body = ask(cast.rosa, "utilization/summary", from_=now - 2 * HOUR, to=now, group_by="workload").json()
    (line,) = [each for each in body["items"] if each["workload"] == str(works["trains"].pk)]
    assert line["gpu_hours"] == 2.0
    assert line["mean"]["sm_active"] == 0.81
    # Half of the last tenth; its end, 1.0, was never reached.
    assert line["p95"]["sm_active"] == 0.95
    assert line["max"] == {"sm_active": 0.98, "memory_used_bytes": 1024**3}
    assert line["coverage"] == 1.0
    rows.update(sm_max=930_000)
    body = ask(cast.rosa, "utilization/summary", from_=now - 2 * HOUR, to=now, group_by="workload").json()
    assert 0.93 in [each["p95"]["sm_active"] for each in body["items"]]


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ({"step_seconds": 301}, "step_seconds"),
        ({"step_seconds": 60}, "step_seconds"),
        ({"group_by": "planet"}, "group_by"),
        ({"workload": "nonsense"}, "workload"),
        ({"from_": "yesterday"}, "from"),
        ({"from_": "2020-01-01T00:00:00Z", "step_seconds": 300}, "step_seconds"),
    ],
)
def test_what_cannot_be_asked_names_the_parameter(cast: Cast, query: dict[str, Any], wrong: str) -> None:
    answer = ask(cast.rosa, "utilization", **query)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["parameter"] == wrong


def test_before_anything_was_metered_there_is_no_series(cast: Cast) -> None:
    body = ask(cast.petra, "utilization").json()
    assert body["series"] == []
    assert body["step_seconds"] == 300
