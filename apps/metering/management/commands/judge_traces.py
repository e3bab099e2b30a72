"""`manage.py judge_traces DIR > found.jsonl`: judge recorded allocations with the product's own detector.

DIR/meta.jsonl has a line per allocation, and names its gzip CSV; the answer has a line per allocation in the
same order. Uses no database. docs/detectors.md describes both formats.
"""

import csv
import gzip
import json
import zlib
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.metering.detector.judge import Verdict, judge_rows


class Command(BaseCommand):
    """A file that cannot be read is missing telemetry: that allocation is unknown, and stderr says why."""

    help = "Judge recorded allocations: hoarder, zombie, evasion, oversized and so on, a JSON line each."
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dir", type=Path, help="a folder with meta.jsonl and the files it names")

    def handle(self, *_args: Any, **options: Any) -> None:
        folder: Path = options["dir"]
        try:
            lines = (folder / "meta.jsonl").read_text(encoding="utf-8").splitlines()
            metas = [json.loads(line) for line in lines if line.strip()]
        except (OSError, ValueError) as problem:
            raise CommandError(f"{folder / 'meta.jsonl'}: {problem}") from problem
        for meta in metas:
            self.stdout.write(json.dumps(self._judge(folder, meta).as_dict()))

    def _judge(self, folder: Path, meta: Mapping[str, Any]) -> Verdict:
        path = folder / str(meta.get("file", ""))
        rows: list[dict[str, str | None]] = []
        try:
            with gzip.open(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
                rows.extend(csv.DictReader(file))
        except (OSError, EOFError, zlib.error, csv.Error) as problem:
            self.stderr.write(f"{path}: {problem}; judged by the {len(rows)} rows before")
        return judge_rows(meta, rows)
