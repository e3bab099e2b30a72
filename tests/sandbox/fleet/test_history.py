"""The written past: the same plan writes the same files, and they hold what detectors need."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from sandbox.fleet import history
from sandbox.fleet.cli import describe
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
    samples = lines(written / "samples.jsonl")
    times = {s["time"] for s in samples}
    devices = {(s["labels"]["UUID"], s["labels"].get("GPU_I_ID")) for s in samples}
    assert len(times) == 48
    assert len(devices) == 6 + 4 + 2 + 1
    assert max(times) == "2026-11-20T00:00:00Z"


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
