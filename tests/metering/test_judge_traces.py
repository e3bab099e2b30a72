"""`manage.py judge_traces`: a folder of recorded allocations in, a line of JSON for each out, without a
database.
"""

import csv
import gzip
import json
import random
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.metering import scenarios
from tests.metering.traces import export

COLUMNS = [
    "ts",
    "gpu_util",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "fb_used_mib",
    "fb_total_mib",
    "power_w",
    "processes",
    "xid",
]


def record(folder: Path, name: str, seed: int = 1) -> dict[str, object]:
    """A scenario as the files hold it."""
    rng = random.Random(seed)
    scenario = next(s for s in scenarios.SCENARIOS if s.__name__ == name)
    story = scenario(rng)
    file = f"{name}.csv.gz"
    with gzip.open(folder / file, "wt", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for s in export(story, rng):
            util = None if s.util is None else round(100 * s.util)
            cells = (
                s.ts,
                util,
                s.sm,
                s.occupancy,
                s.tensor,
                s.dram,
                s.memory,
                s.total,
                s.watts,
                s.processes,
                s.xid,
            )
            writer.writerow("" if c is None else c for c in cells)
    return {**story.meta, "id": name, "file": file}


def judged(folder: Path, metas: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    (folder / "meta.jsonl").write_text("".join(json.dumps(m) + "\n" for m in metas))
    out = StringIO()
    call_command("judge_traces", str(folder), stdout=out, stderr=StringIO())
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [f["id"] for f in found] == [m["id"] for m in metas]
    return {f["id"]: f for f in found}


def test_every_allocation_gets_a_line_with_its_finding(tmp_path: Path) -> None:
    names = ("train", "hoarder", "zombie", "spinner", "oversized", "leak")
    found = judged(tmp_path, [record(tmp_path, name) for name in names])
    labels = ["healthy", "hoarder", "zombie", "evasion", "oversized", "memory-leak"]
    assert [found[n]["labels"][0] for n in names] == labels  # type: ignore[index]
    assert set(found["train"]) == {
        "id",
        "labels",
        "idle",
        "wasted_device_seconds",
        "recommended_mib",
        "evidence",
    }
    assert found["train"]["idle"] == []
    assert found["oversized"]["recommended_mib"] > 0  # type: ignore[operator]


def test_a_file_that_is_missing_cut_or_no_csv_is_unknown_and_the_rest_is_judged(tmp_path: Path) -> None:
    good = record(tmp_path, "train")
    whole = (tmp_path / "train.csv.gz").read_bytes()
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 10])
    (tmp_path / "noise.csv.gz").write_bytes(b"\x00\xff no gzip")
    bad = [
        {**good, "id": i, "file": f}
        for i, f in (("cut", "cut.csv.gz"), ("noise", "noise.csv.gz"), ("none", "none.gz"))
    ]
    found = judged(tmp_path, [*bad, good])
    assert [found[i]["labels"] for i in ("cut", "noise", "none", "train")] == [["unknown"]] * 3 + [
        ["healthy"]
    ]


def test_meta_that_is_no_json_is_said(tmp_path: Path) -> None:
    (tmp_path / "meta.jsonl").write_text("{")
    with pytest.raises(CommandError, match=r"meta\.jsonl"):
        call_command("judge_traces", str(tmp_path))
