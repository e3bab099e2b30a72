"""Readings become samples: once each, with what they change marked, and never half of them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.cluster.models import Cluster, MirrorObject
from apps.metering.models import Allocation, CollectorPosition, Device, DirtySpan, Sample, TelemetryIssue
from apps.metering.specs import Source
from apps.metering.telemetry.rules.sources.reading import (
    COLUMNS,
    Batch,
    Block,
    DeviceLabels,
    Reading,
    Trouble,
    Values,
    micros,
)
from apps.metering.telemetry.services import ingest as ingesting
from apps.metering.telemetry.services import partitions, sample_store
from apps.metering.telemetry.services.device_registry import DeviceBook
from apps.metering.telemetry.services.ingest import Ingested, ingest, store
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
STEP = timedelta(seconds=30)
GPU = DeviceLabels(uuid="GPU-1", node="h100-0", model="NVIDIA H100 80GB HBM3")
SLICE = DeviceLabels(uuid="GPU-2", gpu_instance=7, profile="1g.10gb", node="h100-0")


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def measured(**told: int) -> Values:
    return tuple(told.get(name) for name in COLUMNS)


def reading(when: datetime, device: DeviceLabels = GPU, **told: int) -> Reading:
    return Reading(device, micros(when), measured(**(told or {"sm_active": 500_000})))


def put(
    cluster: Cluster, *readings: Reading, now: datetime | None = None, source: Source = Source.DCGM
) -> Ingested:
    return ingest(cluster, readings, source=source, step=STEP, now=now or at(10))


def dirty() -> list[tuple[str, datetime]]:
    return sorted(DirtySpan.objects.values_list("gpu", "starts_at"))


def everything() -> tuple[list[Any], ...]:
    return (
        list(Sample.objects.order_by("device__uuid", "ts").values_list("device__uuid", "ts", *COLUMNS)),
        dirty(),
        list(CollectorPosition.objects.values_list("source", "shard", "until")),
        list(Device.objects.order_by("uuid").values_list("uuid", "gpu_instance", "profile")),
        list(TelemetryIssue.objects.order_by("kind").values_list("kind", "node", "count")),
    )


def test_every_column_is_stored_as_it_was_read(cluster: Cluster) -> None:
    told = {name: index for index, name in enumerate(COLUMNS)} | {"energy_mj": 2**50, "pcie_tx": 10**12}
    when = at(1) + timedelta(milliseconds=123)
    assert put(cluster, reading(when, GPU, **told)).stored == 1
    sample = Sample.objects.get()
    assert sample.ts == when
    assert {name: getattr(sample, name) for name in COLUMNS} == told
    assert sample.device.uuid == "GPU-1"
    assert (sample.device.node, sample.device.model) == ("h100-0", "NVIDIA H100 80GB HBM3")


def test_missing_is_null_and_never_nought(cluster: Cluster) -> None:
    put(cluster, reading(at(1), memory_used_mib=5))
    sample = Sample.objects.get()
    assert sample.sm_active is None
    assert sample.dram_active is None


def test_of_two_samples_at_one_time_the_first_stays(cluster: Cluster) -> None:
    first, second = reading(at(1), sm_active=1), reading(at(1), sm_active=2)
    assert put(cluster, first, second) == Ingested(stored=1, duplicates=1)
    assert put(cluster, second) == Ingested(stored=0, duplicates=1)
    assert Sample.objects.get().sm_active == 1


def test_a_batch_again_changes_nothing(cluster: Cluster) -> None:
    batch = [reading(at(m / 2), device) for m in range(20) for device in (GPU, SLICE)]
    assert put(cluster, *batch).stored == 40
    before = everything()
    assert put(cluster, *batch) == Ingested(duplicates=40)
    assert everything() == before


def test_late_samples_are_stored_and_their_buckets_marked(cluster: Cluster) -> None:
    put(cluster, reading(at(9)))
    DirtySpan.objects.all().delete()
    assert put(cluster, reading(at(3)), reading(at(9)), reading(at(9.5))) == Ingested(
        stored=2, duplicates=1, late=1
    )
    assert dirty() == [("GPU-1", at(0)), ("GPU-1", at(5))]


def test_what_comes_late_has_the_next_samples_judged_again(cluster: Cluster) -> None:
    put(cluster, reading(at(5.5)))
    DirtySpan.objects.all().delete()
    put(cluster, reading(at(4.5)))
    assert dirty() == [("GPU-1", at(0)), ("GPU-1", at(5))]


def test_a_sample_knows_how_long_it_speaks(cluster: Cluster) -> None:
    ingest(cluster, [reading(at(5))], source=Source.HISTORY, step=timedelta(minutes=5), now=at(10))
    assert Sample.objects.get().seconds == 300


def test_any_order_leaves_the_same_rows(cluster: Cluster) -> None:
    readings = [reading(at(m), sm_active=m) for m in range(1, 10)]
    for one in (readings[4], *readings[7:], *readings[:4], *readings[5:7]):
        put(cluster, one)
    assert list(Sample.objects.order_by("ts").values_list("sm_active", flat=True)) == list(range(1, 10))


def test_a_sample_marks_every_bucket_that_it_speaks_of(cluster: Cluster) -> None:
    put(cluster, reading(at(5)))  # (12:04:30, 12:05:00] is the first bucket only
    assert dirty() == [("GPU-1", at(0))]
    put(cluster, reading(at(10) + timedelta(seconds=1)))
    assert dirty() == [("GPU-1", at(0)), ("GPU-1", at(5)), ("GPU-1", at(10))]


def test_readings_from_ahead_or_from_long_ago_are_refused_and_told(cluster: Cluster) -> None:
    future, past = reading(at(12)), reading(at(0) - timedelta(days=31))
    result = put(cluster, future, past, reading(at(10.5)), now=at(10))
    assert (result.stored, result.refused) == (1, 2)
    issues = {issue.kind: issue for issue in TelemetryIssue.objects.all()}
    assert set(issues) == {"clock-ahead", "clock-old"}
    assert "NTP" in issues["clock-ahead"].message
    assert CollectorPosition.objects.get().until <= at(11)


def test_what_lies_about_its_time_does_not_move_the_position_past_the_truth(cluster: Cluster) -> None:
    put(cluster, reading(at(600)), now=at(10))
    assert put(cluster, reading(at(10.5)), now=at(11)) == Ingested(stored=1)
    assert Sample.objects.count() == 1


def test_an_instance_learns_its_uuid_from_the_exporter(cluster: Cluster) -> None:
    put(cluster, reading(at(1), SLICE))
    assert Device.objects.get().instance_uuid == ""
    DirtySpan.objects.all().delete()
    told = SLICE._replace(instance_uuid="MIG-a", pods=(("vision", "x"),))
    put(cluster, reading(at(8), told), reading(at(9), SLICE))
    assert Device.objects.get().instance_uuid == "MIG-a"
    assert ("GPU-2", at(0)) in dirty()
    assert Sample.objects.count() == 3


def test_an_instance_learns_its_uuid_from_the_claim_of_its_pod(cast: Any) -> None:
    cluster = cast.offer.cluster
    pod = {"kind": "Pod", "namespace": "vision", "name": "train-0", "uid": "pod-1"}
    MirrorObject.objects.create(cluster=cluster, **pod)
    MirrorObject.objects.create(
        cluster=cluster,
        kind="ResourceClaim",
        namespace="vision",
        name="c",
        uid="claim-1",
        controller_uid="pod-1",
    )
    workload = factories.make_workload(cast.vision, cast.rosa, cast.offer)
    Allocation.objects.create(
        cluster=cluster, tenant=workload.tenant, workload=workload, offer=cast.offer,
        claim_uid="claim-1", node="h100-0",
        device="h100-0/gpu-0-mig", device_uuid="MIG-b", share_numerator=1, share_denominator=7,
        started_at=at(0),
    )  # fmt: skip
    put(cluster, reading(at(1), SLICE._replace(pods=(("vision", "train-0"),))))
    assert Device.objects.get().instance_uuid == "MIG-b"


def test_an_instance_that_was_cut_anew_is_another_device(cluster: Cluster) -> None:
    put(cluster, reading(at(1), SLICE._replace(instance_uuid="MIG-a")))
    put(cluster, reading(at(2), SLICE._replace(profile="3g.40gb", instance_uuid="MIG-b")))
    put(cluster, reading(at(3), SLICE._replace(instance_uuid="MIG-c")))
    put(cluster, reading(at(4), SLICE._replace(instance_uuid="MIG-a")))
    found = sorted(Device.objects.values_list("profile", "instance_uuid"))
    assert found == [("1g.10gb", "MIG-a"), ("1g.10gb", "MIG-c"), ("3g.40gb", "MIG-b")]


def test_a_gpu_that_was_renumbered_or_moved_is_the_same_device(cluster: Cluster) -> None:
    put(cluster, reading(at(1)))
    put(cluster, reading(at(2), GPU._replace(node="h100-9", pods=(("a", "b"),))))
    assert Device.objects.get().node == "h100-9"
    put(cluster, reading(at(1.5), GPU._replace(node="h100-0")))
    assert Device.objects.get().node == "h100-9"


def test_last_seen_is_kept_up_to_date(cluster: Cluster) -> None:
    put(cluster, reading(at(1)), reading(at(1), SLICE))
    put(cluster, *(reading(at(m)) for m in range(2, 10)))
    seen = dict(Device.objects.values_list("uuid", "last_seen_at"))
    assert seen == {"GPU-1": at(9), "GPU-2": at(1)}


def test_clusters_do_not_share_devices_or_positions(cluster: Cluster) -> None:
    other = factories.make_cluster("other")
    assert put(cluster, reading(at(9))).stored == 1
    assert put(other, reading(at(5))) == Ingested(stored=1)
    assert Device.objects.count() == 2


def _steps() -> list[tuple[Any, str]]:
    return [
        (sample_store, "lock"), (ingesting, "DeviceBook"), (ingesting, "_sort"), (partitions, "ensure"),
        (sample_store, "add"), (sample_store, "mark_dirty"), (DeviceBook, "save"), (ingesting, "_advance"),
        (ingesting, "report"),
    ]  # fmt: skip


class Killed(Exception):
    """The worker is gone."""


def _dies(real: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def step(*given: Any, **named: Any) -> Any:
        if after:
            real(*given, **named)
        raise Killed

    return step


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(len(_steps())), ids=[name for _, name in _steps()])
def test_a_collector_killed_at_any_step_loses_nothing_and_counts_nothing_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: int, *, after: bool
) -> None:
    put(cluster, reading(at(1)))
    trouble = Trouble("malformed", "h100-0", "words", "aside")
    readings = [reading(at(0.5)), reading(at(2)), reading(at(6), SLICE), reading(at(7))]
    batch = Batch(readings, at(8), STEP, troubles=[trouble])
    where, name = _steps()[step]
    before = everything()
    with monkeypatch.context() as patch:
        patch.setattr(where, name, _dies(getattr(where, name), after=after))
        with pytest.raises(Killed):
            store(cluster, batch, source=Source.DCGM, now=at(10))
    assert everything() == before
    assert store(cluster, batch, source=Source.DCGM, now=at(10)).stored == 4
    assert Sample.objects.count() == 5
    assert CollectorPosition.objects.get().until == at(8)
    assert TelemetryIssue.objects.get().count == 1
    once = everything()
    assert store(cluster, batch, source=Source.DCGM, now=at(10)).stored == 0
    assert everything()[:4] == once[:4]


def test_issues_are_counted_while_they_last(cluster: Cluster) -> None:
    for minute in (1, 2):
        batch = Batch(
            [], at(minute), STEP, troubles=[Trouble("malformed", "n", f"words {minute}", "x" * 9999)]
        )
        store(cluster, batch, source=Source.DCGM, now=at(minute))
    issue = TelemetryIssue.objects.get()
    assert (issue.count, issue.message, issue.created_at, issue.last_at) == (2, "words 2", at(1), at(2))
    assert len(issue.kept_aside) < 1000


def columns(count: int, *, gap: bool = False) -> tuple[list[int | None] | None, ...]:
    told = {"sm_active": [index * 1000 for index in range(count)], "power_mw": [300_000] * count}
    told["energy_mj"] = [2**40 + index for index in range(count)]
    found: list[list[int | None] | None] = [list(told[name]) if name in told else None for name in COLUMNS]
    if gap:
        found[COLUMNS.index("power_mw")] = [None, *[300_000] * (count - 1)]
    return tuple(found)


def test_blocks_are_stored_as_their_readings_are(cluster: Cluster) -> None:
    times = [micros(at(minute / 2)) for minute in range(1, 15)]
    blocks = [
        Block(GPU, times, columns(14)),
        Block(GPU._replace(uuid="GPU-gap"), times, columns(14, gap=True)),
        Block(GPU._replace(uuid="GPU-late"), [micros(at(-5)), *times], columns(15)),
        Block(GPU._replace(uuid="GPU-ahead"), [*times, micros(at(30))], columns(15)),
        Block(GPU._replace(uuid="GPU-twice"), [*times, times[0]], columns(15)),
        Block(GPU, times, columns(14)),
    ]
    readings = [reading(at(1), GPU._replace(uuid="GPU-one")), reading(at(1))]
    put(cluster, reading(at(-2)))
    batch = Batch(readings, at(8), STEP, blocks=blocks)
    other = factories.make_cluster("south")
    put(other, reading(at(-2)))
    told = store(cluster, batch, source=Source.DCGM, now=at(10))
    assert told == store(other, Batch(batch.every(), at(8), STEP), source=Source.DCGM, now=at(10))
    assert (told.stored, told.late, told.duplicates, told.refused) == (14 * 5 + 1 + 1, 1, 1 + 14 + 1, 1)
    assert list(samples_of(cluster)) == list(samples_of(other))
    marks = [
        sorted(DirtySpan.objects.filter(cluster=each).values_list("gpu", "starts_at"))
        for each in (cluster, other)
    ]
    assert marks[0] == marks[1]
    again = store(cluster, batch, source=Source.DCGM, now=at(10))
    assert (again.stored, again.duplicates) == (0, told.stored + told.duplicates)
    assert list(samples_of(cluster)) == list(samples_of(other))


def samples_of(cluster: Cluster) -> Any:
    rows = Sample.objects.filter(device__cluster=cluster).order_by("device__uuid", "ts")
    return rows.values_list("device__uuid", "ts", "seconds", *COLUMNS)
