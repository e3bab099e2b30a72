"""`manage.py judge_traces`: a folder of recorded allocations in, a line of JSON for each out, without a
database.
"""

import csv
import gzip
import json
import random
from collections.abc import Callable
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


def judged(
    folder: Path, metas: list[dict[str, object]], err: StringIO | None = None
) -> dict[str, dict[str, object]]:
    """The answers by id, in the order of meta."""
    (folder / "meta.jsonl").write_text("".join(json.dumps(m) + "\n" for m in metas))
    out = StringIO()
    call_command("judge_traces", str(folder), stdout=out, stderr=err or StringIO())
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


def rewritten(folder: Path, meta: dict[str, object], change: Callable[[str], str]) -> dict[str, object]:
    """The same allocation with another file, made of the text of the first."""
    file = f"{random.Random(str(meta)).random()}.csv.gz"
    text = gzip.decompress((folder / str(meta["file"])).read_bytes()).decode()
    (folder / file).write_bytes(gzip.compress(change(text).encode()))
    return {**meta, "file": file}


def facts(found: dict[str, object]) -> dict[str, object]:
    """Without the id: what two allocations with the same samples have in common."""
    return {name: value for name, value in found.items() if name != "id"}


def test_a_file_that_is_missing_cut_or_no_csv_is_unknown_and_the_rest_is_judged(tmp_path: Path) -> None:
    good = record(tmp_path, "hoarder")
    whole = (tmp_path / "hoarder.csv.gz").read_bytes()
    files = {
        "cut": whole[: 9 * len(whole) // 10],
        "bits": whole[:600] + b"\x00\x17" + whole[602:],
        "noise": b"\x00\xff no gzip",
        "nothing": b"",
        "empty": gzip.compress(b""),
        "head": gzip.compress(",".join(COLUMNS).encode()),
        "untold": gzip.compress(b"gpu_util,sm_active\n3,0.1\n"),
    }
    for name, content in files.items():
        (tmp_path / f"{name}.csv.gz").write_bytes(content)
    bad = [{**good, "id": name, "file": f"{name}.csv.gz"} for name in (*files, "none")]
    bad += [{**good, "id": "null", "file": None}, {**good, "id": "nul", "file": "a\0b"}]
    err = StringIO()
    found = judged(tmp_path, [*bad, good], err)
    unknown = {
        "labels": ["unknown"], "idle": [], "wasted_device_seconds": 0.0, "recommended_mib": None,
        "evidence": [round(float(str(good["start"])), 3), round(float(str(good["end"])), 3)],
    }  # fmt: skip
    assert {str(m["id"]): facts(found[str(m["id"])]) for m in bad} == {str(m["id"]): unknown for m in bad}
    assert found["hoarder"]["labels"] == ["hoarder"]
    said = [line.partition(": unknown, for ")[0] for line in err.getvalue().splitlines()]
    assert said == [f"meta.jsonl, line {number}, {m['id']}" for number, m in enumerate(bad, start=1)]


def test_a_line_of_meta_that_cannot_be_judged_by_is_unknown_in_its_place(tmp_path: Path) -> None:
    good = record(tmp_path, "train")
    odd: list[dict[str, object]] = [
        {"start": None}, {"end": "later"}, {"end": good["start"]}, {"end": float("nan")}, {"start": 0},
        {"office_hours": [9]}, {"office_hours": "9-18"}, {"share": "half"}, {"share": -1}, {"sms": "many"},
        {"idle_window_s": 0}, {"utc_offset_h": [2]}, {"total_mib": {}}, {"tdp_w": "hot"},
    ]  # fmt: skip
    lines = [json.dumps({**good, "id": index, **change}) for index, change in enumerate(odd)]
    lines += ["{", "[1, 2]", "null", "", json.dumps({**good, "id": 77})]
    (tmp_path / "meta.jsonl").write_text("\ufeff" + "\r\n".join(lines) + "\r\n")
    out, err = StringIO(), StringIO()
    call_command("judge_traces", str(tmp_path), stdout=out, stderr=err)
    found = [json.loads(line, parse_constant=pytest.fail) for line in out.getvalue().splitlines()]
    assert [f["id"] for f in found] == [*range(len(odd)), None, None, None, 77]
    assert [f["labels"] for f in found] == [["unknown"]] * (len(odd) + 3) + [["healthy"]]
    assert found[0]["evidence"] == [None, round(float(str(good["end"])), 3)]
    assert len(err.getvalue().splitlines()) == len(odd) + 3


def test_order_of_columns_more_of_them_line_ends_and_spaces_change_nothing(tmp_path: Path) -> None:
    meta = record(tmp_path, "zombie")

    def shuffled(text: str) -> str:
        lines = [line.split(",") for line in text.splitlines()]
        order = [4, 9, 0, 2, 10, 1, 3, 5, 8, 7, 6]
        return "\n".join(",".join([*(cells[i] for i in order), "x"]) for cells in lines)

    changes: list[Callable[[str], str]] = [
        shuffled,
        lambda text: text.replace("\r\n", "\n"),
        lambda text: "\ufeff" + text.replace("ts,gpu_util", " TS, gpu_util"),
        lambda text: text.replace("\r\n", ",7,seven,\r\n"),
        lambda text: text.replace("\r\n", "\r\n\r\n"),
        lambda text: text + "not,a,row\r\n,,,,\r\n1",
    ]
    metas = [meta, *(rewritten(tmp_path, {**meta, "id": f"{i}"}, c) for i, c in enumerate(changes))]
    found = list(judged(tmp_path, metas).values())
    assert found[0]["labels"] == ["zombie"]
    assert [facts(each) for each in found[1:]] == [facts(found[0])] * len(changes)


def test_meta_may_leave_out_what_the_model_tells(tmp_path: Path) -> None:
    """One spinning block on a slice is told by the multiprocessors of the slice, given or not."""
    seed = next(s for s in range(99) if scenarios.spinner(random.Random(s)).device.sharing == "mig")
    meta = record(tmp_path, "spinner", seed=seed)
    board = {"A100 40GB": 108, "A100 80GB": 108}.get(str(meta["model"]), 132)
    metas = [
        {**meta, "id": "given"},
        {k: v for k, v in meta.items() if k not in ("sms", "tdp_w", "office_hours", "utc_offset_h")}
        | {"id": "left"},
        {**meta, "id": "null", "sms": None, "tdp_w": None, "office_hours": None, "kind": None},
        {**meta, "id": "board", "sms": board},
        {**meta, "id": "untold", "sharing": None, "sms": None, "total_mib": None},
    ]
    found = judged(tmp_path, metas)
    assert {i: f["labels"] for i, f in found.items()} == {str(m["id"]): ["evasion"] for m in metas}


def test_a_share_wastes_its_share_and_rows_after_the_decision_say_nothing(tmp_path: Path) -> None:
    meta = record(tmp_path, "hoarder")
    end = float(str(meta["end"]))
    metas = [
        {**meta, "kind": "job", "sharing": "whole", "share": 1.0, "id": "whole"},
        {**meta, "kind": "job", "sharing": "fraction", "share": 0.25, "id": "quarter"},
        {**meta, "kind": "job", "sharing": "whatever", "share": 0.25, "id": "odd"},
        {**meta, "kind": "job", "sharing": "whole", "share": 1.0, "end": end - 1800, "id": "early"},
    ]
    found = judged(tmp_path, metas)
    whole, quarter, odd, early = (float(str(f["wasted_device_seconds"])) for f in found.values())
    assert quarter == odd == pytest.approx(whole / 4)
    assert early == pytest.approx(whole - 1800)


def test_a_folder_without_meta_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"meta\.jsonl"):
        call_command("judge_traces", str(tmp_path))
