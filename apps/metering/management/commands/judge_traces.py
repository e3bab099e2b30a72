"""`manage.py judge_traces DIR > found.jsonl`: judge recorded allocations with the product's own detector.

DIR/meta.jsonl has a line per allocation, and names its gzip CSV; the answer has a line per allocation in the
same order. Uses no database. docs/detectors.md describes both formats.
"""

import csv
import gzip
import json
import math
import re
import zlib
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.metering.detector import gpu_models
from apps.metering.detector.judge import judge_rows
from apps.metering.detector.trace import MIG

_NOTHING = {"labels": ["unknown"], "idle": [], "wasted_device_seconds": 0.0, "recommended_mib": None}


class Command(BaseCommand):
    """What cannot be read is missing telemetry: that allocation is unknown, stderr says why, and the rest is
    judged.
    """

    help = "Judge recorded allocations: hoarder, zombie, evasion, oversized and so on, a JSON line each."
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dir", type=Path, help="a folder with meta.jsonl and the files it names")

    def handle(self, *_args: Any, **options: Any) -> None:
        folder: Path = options["dir"]
        try:
            lines = (folder / "meta.jsonl").read_text(encoding="utf-8-sig", errors="replace").split("\n")
        except OSError as problem:
            raise CommandError(f"{folder / 'meta.jsonl'}: {problem}") from problem
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self.stdout.write(json.dumps(self._answer(folder, number, line)))

    def _answer(self, folder: Path, number: int, line: str) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        try:
            meta = _object(line)
            verdict = judge_rows(_completed(meta), _rows(folder / str(meta.get("file") or "")))
        except Exception as problem:  # noqa: BLE001 - one allocation must not keep the others from being judged
            words = f"{type(problem).__name__}: {problem}"
            self.stderr.write(f"meta.jsonl, line {number}, {meta.get('id')}: unknown, for {words}")
            evidence = [_moment(meta.get("start")), _moment(meta.get("end"))]
            return {"id": meta.get("id"), **_NOTHING, "evidence": evidence}
        # An id is handed back as it came, be it a number.
        return {**verdict.as_dict(), "id": meta.get("id")}


def _object(line: str) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise TypeError("this is not an object")
    return found


def _rows(path: Path) -> list[dict[str, str | None]]:
    """All rows, or an error: what is cut short is no telemetry to act on. Columns may stand in any order."""
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            names = [name.strip().lower() for name in next(csv.reader(file), [])]
            rows = list(csv.DictReader(file, names))
    except (OSError, EOFError, zlib.error, csv.Error) as problem:
        raise ValueError(f"{path}: {problem}") from problem
    if "ts" not in names or not rows:
        raise ValueError(f"{path}: no column ts, or no row")
    return rows


def _completed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """With the multiprocessors of the instance and the watts of its board where nobody says them; the
    multiprocessors of a whole board are not those of a slice.
    """
    model = str(meta.get("model") or "")
    board, found = gpu_models.board_of(model), dict(meta)
    found["tdp_w"] = meta.get("tdp_w") or board.tdp_w
    share = float(meta.get("share") or 1.0)
    sharing = str(meta.get("sharing") or (MIG if meta.get("profile") else "")).lower()
    sliced = MIG in sharing and share < 0.99
    if not meta.get("sms") or (sliced and float(meta["sms"]) >= board.sms):
        cut = re.search(r"\dg\.\d+gb", str(meta.get("profile") or "").lower())
        size = gpu_models.size_of(model, cut.group(), float(meta.get("total_mib") or 0.0)) if cut else None
        found["sms"] = size.sms if size else max(1, round(board.sms * (share if sliced else 1.0)))
    return found


def _moment(value: object) -> float | None:
    """As evidence, where meta holds a number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return round(float(value), 3) if known else None  # type: ignore[arg-type]
