"""`manage.py import_history DIR --cluster SLUG`: a past of `python -m sandbox history`, brought in."""

import time
from argparse import ArgumentParser
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering.billing.services import pricing_run
from apps.metering.findings.services import lifecycle, measuring
from apps.metering.history.selectors import progress
from apps.metering.history.services import importer
from apps.metering.history.services.helpers import Helpers
from apps.metering.ledger.rules.buckets import LEVELS, floor
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.services import rollup
from apps.metering.models import DirtySpan, Finding

_READ, _JUDGED, _SUMMED = 45, 50, 90
"""Percent of the import after which the samples are in, the work is judged, and the ledger made; the rest is
prices.
"""
_JUDGED_AT_ONCE = 32
"""Workloads whose findings are recorded together; as many more are judged meanwhile."""
_CACHE = "PRAGMA cache_size=-65536;"
"""KiB of SQLite's pages in memory: the samples and buckets of a week are written all over their indexes."""
_PRICED = 50
"""Workloads that are priced together."""
_A_WHILE = 2.0
"""Seconds between two looks at how much is left to sum up."""
_PATIENT_SECONDS = 600
"""How long an import waits for its turn to write on SQLite: nobody waits for it, so it need not give up."""
_AT_WORK, _OTHERS_FIRST = 1.0, 0.11
"""Seconds of work on SQLite, and of the pause before the next transaction then: one writes at a time there
and nobody queues, but who waits looks again every tenth of a second."""


class Command(BaseCommand):
    """See the module."""

    help = "Import a past (events, samples) of one cluster, and sum it up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)
        parser.add_argument("--cluster", required=True, help="the cluster's slug")
        parser.add_argument("--helpers", type=int, default=0, help="processes that compute beside this one")
        parser.add_argument("--no-roll", action="store_true", help="leave summing up to the worker")

    def handle(self, *_args: Any, **options: Any) -> None:
        folder: Path = options["folder"]
        for name in ("manifest.json", "events.jsonl", "samples.jsonl"):
            if not (folder / name).is_file():
                raise CommandError(f"{folder} has no {name}: write it with `python -m sandbox history`.")
        with ExitStack() as stack:
            helpers = stack.enter_context(Helpers(options["helpers"]))
            if connection.vendor == "sqlite":
                given = connection.settings_dict["OPTIONS"]
                given["timeout"] = _PATIENT_SECONDS
                given["init_command"] = f"{given.get('init_command', '')} {_CACHE}"
                stack.enter_context(connection.execute_wrapper(_others_first()))
            cluster = Cluster.objects.filter(slug=options["cluster"]).first()
            if cluster is None:
                raise CommandError(f"There is no cluster {options['cluster']}.")
            self._bring_in(cluster, folder, helpers, roll=not options["no_roll"])

    def _bring_in(self, cluster: Cluster, folder: Path, helpers: Helpers, *, roll: bool) -> None:
        coming = _Progress(self.stdout.write)
        judging = _Judging(helpers)
        found = importer.import_history(
            cluster, folder, now=timezone.now(), helpers=helpers,
            tell=coming.part(0, _READ), seen=judging.begin,
        )  # fmt: skip
        judging.end(coming.part(_READ, _JUDGED))
        self.stdout.write(
            f"{found.span.begins:%Y-%m-%d %H:%M} to {found.span.ends:%Y-%m-%d %H:%M} UTC:"
            f" {len(found.workloads)} workloads, {found.allocations} allocations,"
            f" {found.samples.stored} samples ({found.samples.duplicates} were there);"
            f" {found.homeless} could not be attributed; {judging.findings} findings."
        )
        importer.open_books(cluster, found.span, now=timezone.now())
        if roll:
            _roll(cluster, found.span, helpers, coming.part(_JUDGED, _SUMMED))
        tell, known = coming.part(_SUMMED, 100), list(found.workloads)
        parts = [known[first : first + _PRICED] for first in range(0, len(known), _PRICED)]
        for done, _ in enumerate(helpers.map(_price, parts, chunk=1), 1):
            tell(done / len(parts))
        coming.note(100)


class _Judging:
    """Findings of what has ended: computed beside the samples that still come in, kept many at once."""

    def __init__(self, helpers: Helpers) -> None:
        self.findings = 0
        self._helpers = helpers
        self._begun = deque[tuple[UUID, Callable[[], list[Finding]]]]()

    def begin(self, pk: UUID) -> None:
        """All samples of a workload are in."""
        self._begun.append((pk, self._helpers.start(lifecycle.findings_at_end, pk)))
        if len(self._begun) >= 2 * _JUDGED_AT_ONCE:
            self._record()

    def end(self, tell: Callable[[float], None]) -> None:
        """Records what is left."""
        total = len(self._begun)
        while self._begun:
            self._record()
            tell(1 - len(self._begun) / total)

    def _record(self) -> None:
        first = [self._begun.popleft() for _ in range(min(_JUDGED_AT_ONCE, len(self._begun)))]
        self.findings += lifecycle.keep_ended({pk: found() for pk, found in first})


def _price(ids: Sequence[UUID]) -> None:
    pricing_run.price_workloads(ids, now=timezone.now())
    measuring.price_workloads(ids, now=timezone.now())


def _roll(cluster: Cluster, span: importer.Span, helpers: Helpers, tell: Callable[[float], None]) -> None:
    """Until nothing of the past is left to be summed up, whoever does it: the worker rolls meanwhile, too."""
    over = floor(min(span.ends, timezone.now() - rollup.LATE), LEVELS[0])
    marks = DirtySpan.objects.filter(cluster=cluster, starts_at__lt=over)
    total = marks.count()

    def start(*asked: Any) -> Callable[[], facts.Computed]:
        return helpers.start(facts.compute, *asked)

    while left := marks.count():
        tell(1 - left / total)
        if not rollup.roll(cluster, now=timezone.now(), seconds=_A_WHILE, start=start).buckets:
            time.sleep(_OTHERS_FIRST)


class _Progress:
    """How far it is: for the pages at every percent, in the terminal at every ten."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._percent = -1
        self.note(0)

    def note(self, percent: int) -> None:
        """So much of the whole is done."""
        if percent <= self._percent:
            return
        if percent // 10 > self._percent // 10:
            self._write(f"The history is coming in, {percent - percent % 10} %.")
        self._percent = percent
        progress.note(percent)

    def part(self, begins: int, ends: int) -> Callable[[float], None]:
        """Takes the share of a part of the whole that is done."""
        return lambda share: self.note(begins + round(share * (ends - begins)))


def _others_first() -> Callable[..., Any]:
    """Wraps each statement: after so much work, a pause before the next that begins a transaction."""
    rested = time.monotonic()

    def wrap(send: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal rested
        if sql.startswith("BEGIN") and time.monotonic() - rested >= _AT_WORK:
            time.sleep(_OTHERS_FIRST)
            rested = time.monotonic()
        return send(sql, *rest)

    return wrap
