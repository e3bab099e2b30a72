"""What only shows over some minutes: gaps, frozen exporters, missing fields; and old samples go."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from apps.cluster.models import Cluster, MirrorObject
from apps.metering import periodic
from apps.metering.models import Sample, TelemetryIssue
from apps.metering.specs import Source
from apps.metering.telemetry.rules.sources.reading import COLUMNS, Reading, Trouble, micros
from apps.metering.telemetry.services import issues as telemetry_issues
from apps.metering.telemetry.services import partitions, source_health
from apps.metering.telemetry.services.ingest import ingest
from tests.metering.watched import GPU, NOON, PIPES, PROFILED, STEP, send

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def watch(cluster: Cluster, minutes: float) -> dict[str, TelemetryIssue]:
    source_health.watch(cluster, now=NOON + timedelta(minutes=minutes))
    return {issue.kind: issue for issue in TelemetryIssue.objects.filter(resolved_at=None)}


@pytest.fixture
def node(cluster: Cluster) -> Cluster:
    body = {"metadata": {"name": "h100-0", "labels": {}}, "spec": {}, "status": {}}
    MirrorObject.objects.create(cluster=cluster, kind="Node", name="h100-0", uid="n", body=body)
    return cluster


def test_all_is_well(node: Cluster) -> None:
    for half in range(1, 20):
        send(node, half / 2)
    assert watch(node, 10) == {}


def test_fields_that_are_switched_off_are_named_with_the_lines_to_add(node: Cluster) -> None:
    for half in range(1, 20):
        when = NOON + timedelta(minutes=half / 2)
        row = tuple({"memory_used_mib": 5, "smi": 100, "energy_mj": half}.get(name) for name in COLUMNS)
        ingest(node, [Reading(GPU, micros(when), row)], source=Source.DCGM, step=STEP, now=when)
    issues = watch(node, 10)
    assert set(issues) == {"profiling-off"}
    words = issues["profiling-off"].message
    assert "DCGM_FI_PROF_SM_ACTIVE, gauge, " in words
    assert "DCGM_FI_PROF_SM_OCCUPANCY, gauge, " in words
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, " in words
    assert "DCGM_FI_PROF_PIPE_FP16_ACTIVE, gauge, " in words
    assert "default-counters.csv" in words
    for half in range(20, 40):
        send(node, half / 2)
    assert watch(node, 20) == {}


def test_only_the_field_that_is_missing_is_named(node: Cluster) -> None:
    for half in range(1, 20):
        send(node, half / 2, sm_active=None)
    words = watch(node, 10)["profiling-off"].message
    assert "DCGM_FI_PROF_SM_ACTIVE" in words
    assert "DCGM_FI_PROF_DRAM" not in words


@pytest.mark.parametrize("column", [*PIPES, "sm_occupancy"])
def test_a_field_that_no_sum_needs_is_of_a_kind_of_its_own(node: Cluster, column: str) -> None:
    for half in range(1, 20):
        send(node, half / 2, GPU, **{column: None})
    kind = "pipes-off" if column in PIPES else "sm-occupancy-off"
    issues = watch(node, 10)
    assert set(issues) == {kind}
    (line,) = issues[kind].message.splitlines()[1:]
    assert line.startswith("DCGM_FI_PROF_")
    assert column.removesuffix("_active").upper() in line
    for half in range(20, 40):
        send(node, half / 2)
    assert watch(node, 20) == {}


def test_pipes_that_read_0_are_switched_on(node: Cluster) -> None:
    for half in range(1, 20):
        send(node, half / 2, GPU, **dict.fromkeys(PIPES, 0))
    assert watch(node, 10) == {}


def test_an_exporter_that_repeats_itself_is_frozen(node: Cluster) -> None:
    for half in range(1, 20):
        send(node, half / 2, energy_mj=777)
    assert "Restart it" in watch(node, 10)["frozen"].message
    for half in range(20, 60):
        send(node, half / 2)
    assert watch(node, 30) == {}


def test_counters_of_0_under_load_are_stuck_until_they_move(node: Cluster) -> None:
    board = GPU._replace(model="NVIDIA H100 80GB HBM3")
    stuck = dict.fromkeys(PROFILED, 0) | {"smi": 99, "power_mw": 560_000}
    for half in range(1, 20):
        send(node, half / 2, board, **stuck)
        send(node, half / 2, board._replace(uuid="GPU-2"), **(stuck | {"power_mw": 90_000}))
        send(node, half / 2, board._replace(uuid="GPU-3", gpu_instance=1), **stuck)
    issue = watch(node, 10)["stuck-counters"]
    assert "1 GPUs on h100-0" in issue.message
    send(node, 10, board, **(stuck | {"sm_active": 1}))
    assert watch(node, 10) == {}


def test_a_device_that_falls_silent_is_a_gap_until_it_speaks(node: Cluster) -> None:
    for half in range(1, 20):
        send(node, half / 2)
        send(node, half / 2, GPU._replace(uuid="GPU-2"))
    send(node, 11)
    issue = watch(node, 12)["gap"]
    assert "1 GPUs on h100-0" in issue.message
    send(node, 12.1, GPU._replace(uuid="GPU-2"))
    send(node, 12.1)
    assert watch(node, 12.2) == {}


def test_the_slices_of_one_gpu_are_one_gpu(node: Cluster) -> None:
    small = GPU._replace(gpu_instance=1, profile="1g.10gb")
    for half in range(1, 20):
        for each in (small, small._replace(gpu_instance=2), small._replace(uuid="GPU-2")):
            send(node, half / 2, each, energy_mj=777)
    assert "2 GPUs on h100-0 repeat" in watch(node, 10)["frozen"].message
    assert "heard of 2 GPUs on h100-0" in watch(node, 13)["gap"].message


def test_a_node_that_was_taken_away_and_an_instance_that_was_cut_anew_are_no_gap(node: Cluster) -> None:
    small = GPU._replace(gpu_instance=1, profile="1g.10gb")
    send(node, 1, small)
    send(node, 8, small._replace(gpu_instance=2))
    gone = MirrorObject.objects.create(cluster=node, kind="Node", name="gone", uid="g", gone_at=NOON, body={})
    send(node, 1, GPU._replace(uuid="GPU-9", node="gone"))
    assert set(watch(node, 9)) == set()
    gone.delete()
    assert "GPUs on gone" in watch(node, 9)["gap"].message


def test_samples_go_when_they_are_no_longer_kept(cluster: Cluster) -> None:
    for days in (0, 1, 2, 10):
        send(cluster, days * 24 * 60)
    now = NOON + timedelta(days=10)
    assert partitions.keep(now, timedelta(days=9)) >= 1
    assert [sample.ts.day for sample in Sample.objects.order_by("ts")] == [3, 4, 12] if _by_day() else [4, 12]


def test_an_issue_goes_with_the_samples_it_told_of(cluster: Cluster) -> None:
    for days in (40, 20, 0):
        at = timezone.now() - timedelta(days=days)
        telemetry_issues.report(
            cluster, [Trouble("frozen", f"node-{days}", "Nothing of it was read.")], now=at
        )
        if days:
            telemetry_issues.resolve(cluster, ["frozen"], still=[("frozen", "node-0")], now=at)
    periodic.keep_samples()
    left = TelemetryIssue.objects.order_by("node").values_list("node", flat=True)
    assert list(left) == ["node-0", "node-20"]


def _by_day() -> bool:
    return connection.vendor == "postgresql"


@pytest.mark.postgres
@pytest.mark.skipif("ALLOTMENT_DATABASE_URL" not in os.environ, reason="partitions are PostgreSQL's")
def test_every_day_has_its_partition_made_ahead_and_dropped_whole(cluster: Cluster) -> None:
    send(cluster, 0)
    send(cluster, 24 * 60)
    today = (NOON - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert set(partitions.existing()) >= {today, today + 1}
    partitions.keep(NOON + timedelta(days=1), timedelta(days=1))
    assert set(range(today, today + 2 + partitions.AHEAD)) <= set(partitions.existing())
    assert partitions.keep(NOON + timedelta(days=40), timedelta(days=30)) >= 5
    assert Sample.objects.count() == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind FROM pg_class WHERE relname = 'metering_sample'")
        assert cursor.fetchone() == ("p",)
