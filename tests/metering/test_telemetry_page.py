"""What is wrong with telemetry, on the console and over REST: what to do, for those who see the fleet."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.metering.models import CollectorPosition, Device
from apps.metering.specs import Source, TroubleKind
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.metering.telemetry.services import issues, polling, source_health
from tests.conftest import Cast
from tests.metering.scripted import telemetry_settings
from tests.workloads.rest import Api

pytestmark = pytest.mark.django_db
PAGE, REST = "/console/telemetry/", "/api/v1/telemetry-issues"
OFF = Trouble("profiling-off", "gpu-01", "Add to the counters file:\nDCGM_FI_PROF_SM_ACTIVE, gauge, ...")
BAD = Trouble("malformed", "gpu-02", "3 lines were kept aside.", "<rubbish>")


@pytest.fixture
def configured(settings: Any) -> Iterator[Any]:
    """Prometheus is the source."""
    with telemetry_settings(settings) as configure:
        configure(source="prometheus", url="http://prometheus.example")
        yield configure


def delivers(cast: Cast, *, minutes: float = 0.5) -> None:
    """The source was read until so many minutes ago, and two of three devices were heard of then."""
    now, cluster = timezone.now(), cast.vision.cluster
    until = now - timedelta(minutes=minutes)
    CollectorPosition.objects.create(cluster=cluster, source=Source.PROMETHEUS, until=until, updated_at=until)
    for number, ago in enumerate((minutes, minutes, 60)):
        seen = {"first_seen_at": now - timedelta(days=1), "last_seen_at": now - timedelta(minutes=ago)}
        Device.objects.create(cluster=cluster, uuid=f"GPU-{number}", node="gpu-01", **seen)


def html(user: User, url: str = PAGE) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(url, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return answer.content.decode()


def listed(user: User, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Api(user).client.get(f"{REST}{query}").json()["items"]
    return found


def test_every_kind_that_is_looked_for_has_its_word() -> None:
    others = {
        TroubleKind.NO_PRICE, TroubleKind.NO_START, TroubleKind.DEAD_GPU, TroubleKind.MEMORY_LEFT,
        TroubleKind.POOL_PARTIAL, TroubleKind.IN_SHARES,
    }  # fmt: skip
    looked_for = {*polling.ROUND_KINDS, *source_health.KINDS, *others}
    assert looked_for == set(map(str, TroubleKind))


def test_engineers_and_auditors_read_what_to_do_and_nobody_else_does(cast: Cast, configured: Any) -> None:
    delivers(cast)
    issues.report(cast.vision.cluster, [BAD, OFF], now=timezone.now())
    for user in (cast.petra, cast.ann):
        shown = html(user)
        assert "2 issues." in shown
        assert "Add to the counters file:<br>DCGM_FI_PROF_SM_ACTIVE, gauge, ..." in shown
        assert "&lt;rubbish&gt;" in shown
        assert shown.index("Profiling fields are off") < shown.index("Malformed text")
        assert "2 of 3" in shown
    for user in (cast.rosa, cast.leon, cast.otto):
        client = Client()
        client.force_login(user)
        assert client.get(PAGE).status_code == 404
        assert Api(user).client.get(REST).status_code == 404


def test_a_token_cut_to_some_tenants_does_not_see_the_fleets_troubles(cast: Cast) -> None:
    token = Api(cast.petra, tenants=["vision"])
    assert token.client.get(REST).status_code == 404


def test_that_all_is_well_is_said_only_where_every_source_was_read_lately(
    cast: Cast, configured: Any
) -> None:
    assert "Not every source delivers." in html(cast.petra)
    assert "never" in html(cast.petra)
    delivers(cast)
    shown = html(cast.ann)
    assert "<strong>All sources deliver.</strong>" in shown
    CollectorPosition.objects.update(until=timezone.now() - timedelta(minutes=10))
    assert "Not read lately" in html(cast.petra)
    assert "All sources deliver" not in html(cast.petra)
    configured(source="off")
    assert "No source is set: all use is unknown" in html(cast.petra)
    assert "All sources deliver" not in html(cast.petra)


def test_what_is_over_leaves_the_page_and_stays_in_the_record(cast: Cast, configured: Any) -> None:
    delivers(cast)
    cluster, now = cast.vision.cluster, timezone.now()
    issues.report(cluster, [OFF, BAD], now=now)
    issues.report(cluster, [BAD], now=now)
    issues.resolve(cluster, ["profiling-off"], still=(), now=now)
    assert "Profiling fields are off" not in html(cast.petra)
    assert "Profiling fields are off" in html(cast.petra, f"{PAGE}?show=all")
    (row,) = listed(cast.petra, "?open=true")
    assert (row["kind"], row["node"], row["count"], row["kept_aside"]) == (
        "malformed", "gpu-02", 2, "<rubbish>",
    )  # fmt: skip
    assert row["resolved_at"] is None
    assert {each["kind"] for each in listed(cast.ann)} == {"malformed", "profiling-off"}


def test_rest_filters_and_pages_and_tells_a_wrong_filter(cast: Cast) -> None:
    now = timezone.now()
    for number in range(3):
        gap = Trouble("gap", f"gpu-{number}", "Nothing was heard.")
        issues.report(cast.vision.cluster, [gap], now=now + timedelta(seconds=number))
    assert [each["node"] for each in listed(cast.petra, "?node=gpu-0,gpu-2")] == ["gpu-2", "gpu-0"]
    assert listed(cast.petra, "?kind=frozen") == []
    assert listed(cast.petra, "?cluster=nowhere") == []
    client = Api(cast.petra).client
    first = client.get(f"{REST}?limit=2").json()
    rest = client.get(first["next"]).json()
    assert [each["node"] for each in first["items"] + rest["items"]] == ["gpu-2", "gpu-1", "gpu-0"]
    assert client.get(f"{REST}?kind=moon").status_code == 400


def test_the_fleet_page_counts_them_and_leads_there(cast: Cast, configured: Any) -> None:
    assert "no open issue" in html(cast.petra, "/console/?part=gpus")
    issues.report(cast.vision.cluster, [OFF, BAD], now=timezone.now())
    shown = html(cast.ann, "/console/")
    assert f'<a href="{PAGE}">2 telemetry issues</a>' in shown
    assert "profiling fields are off, malformed text" in shown
    assert "2 open issues" in html(cast.ann, "/console/?part=gpus")
