"""The written past: the same plan writes the same files, and they hold what detectors need."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from sandbox.fleet import history, past
from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.cli import describe
from sandbox.fleet.load import sample
from sandbox.fleet.series import GpuSeries, Span
from sandbox.fleet.spec import load_fleet

UNTIL = datetime(2026, 11, 20, tzinfo=UTC)


def plan(seed: int) -> history.Plan:
    return history.Plan("laptop", seed, 1, 1800, ("vision", "speech"), UNTIL)


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    history.write(plan(7), folder)
    return folder


def test_the_same_plan_writes_the_same_files(written: Path, tmp_path: Path) -> None:
    history.write(plan(7), tmp_path)
    for name in ("events.jsonl", "samples.jsonl", "truth.jsonl", "manifest.json"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes()


def test_samples_cover_every_device_at_every_step(written: Path) -> None:
    moments: dict[tuple[str, str], list[datetime]] = {}
    for line in lines(written / "samples.jsonl"):
        device = line["labels"]["UUID"], line["labels"].get("GPU_I_ID", "")
        first = datetime.fromisoformat(line["from"])
        moments.setdefault(device, []).extend(
            first + timedelta(seconds=line["step"] * n) for n in range(line["count"])
        )
        assert {len(v) for v in line["values"].values() if isinstance(v, list)} <= {line["count"]}
    assert len(moments) == 6 + 4 + 2 + 1
    every = [UNTIL - timedelta(minutes=30 * n) for n in range(47, -1, -1)]
    silent = {t["name"] for t in lines(written / "truth.jsonl") if t["behaviour"] == "silent"}
    assert all(sorted(set(found)) == sorted(found) for found in moments.values())
    assert any(found == every for found in moments.values())
    assert silent or all(found == every for found in moments.values())


def test_nobody_shares_a_device_and_all_wait_in_line(written: Path) -> None:
    held: dict[tuple[str, str], list[tuple[str, str]]] = {}
    claims: dict[str, dict[str, Any]] = {}
    for event in lines(written / "events.jsonl"):
        if event["resource"].startswith("resourceclaims"):
            uid = event["object"]["metadata"]["uid"]
            if event["type"] == "ADDED":
                claims[uid] = event["object"]
            elif event["type"] == "DELETED":
                allocation = claims[uid]["status"]["allocation"]
                (given,) = allocation["devices"]["results"]
                span = allocation["allocationTimestamp"], event["time"]
                held.setdefault((given["pool"], given["device"]), []).append(span)
    assert sum(len(spans) for spans in held.values()) > 10
    for spans in held.values():
        spans.sort()
        assert all(one[1] <= next_[0] for one, next_ in itertools.pairwise(spans))


def test_a_piece_says_what_the_exporter_would_have_said_at_each_moment() -> None:
    """The columns of a span are the samples of its moments, and the watts are the board's."""
    work = list(past.live(7, list(history.arrivals(plan(7), history.offers(load_fleet("laptop"), 7)))))
    run = next(r for w in work for r in w.runs if r.told.behaviour is Behaviour.TRAIN)
    gpu = run.device.gpu
    span = Span(run.lives[0].begins + timedelta(seconds=60), 30, 10)
    found = next(
        line for line in GpuSeries(gpu, past.by_device(work)).lines(span) if line.device == run.device
    )
    assert found.run is run
    seen = [sample(run.told, 60.0 + 30 * n, run.device, hour=12.0) for n in range(span.count)]
    told = [each.memory_mib for each in seen if each is not None]
    assert found.columns["DCGM_FI_DEV_FB_USED"] == [round(each) for each in told]
    watts = found.columns["DCGM_FI_DEV_POWER_USAGE"]
    assert isinstance(watts, list)
    assert min(watts) > gpu.model.idle_watts


def test_samples_name_pods_whose_truth_is_told(written: Path) -> None:
    told = {t["name"]: t for t in lines(written / "truth.jsonl")}
    seen = {s["labels"]["pod"] for s in lines(written / "samples.jsonl") if "pod" in s["labels"]}
    assert seen
    assert seen <= set(told)
    assert {True, False} == {t["effective"] for t in told.values()}


def test_events_tell_of_work_that_waited_ran_and_finished(written: Path) -> None:
    reasons = set()
    for event in lines(written / "events.jsonl"):
        if event["resource"].startswith("workloads"):
            reasons |= {c["reason"] for c in event["object"].get("status", {}).get("conditions", ())}
    assert {"Pending", "QuotaReserved", "Admitted", "Succeeded"} <= reasons


def test_a_fleet_is_described_in_one_line_per_pool() -> None:
    text = describe(load_fleet("lab"))
    assert text.splitlines()[0] == "fleet lab: 64 GPUs on 12 nodes"
    assert len(text.splitlines()) == 1 + len(load_fleet("lab").pools)
