"""`manage.py import_history DIR --cluster SLUG`: a past of `python -m sandbox history`, brought in."""

import time
from argparse import ArgumentParser
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
from apps.metering.models import DirtySpan

_READ, _JUDGED, _SUMMED = 35, 50, 90
"""Percent of the import after which the samples are in, the work is judged, and the ledger made; the rest is
prices.
"""
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
                connection.settings_dict["OPTIONS"]["timeout"] = _PATIENT_SECONDS
                stack.enter_context(connection.execute_wrapper(_others_first()))
            cluster = Cluster.objects.filter(slug=options["cluster"]).first()
            if cluster is None:
                raise CommandError(f"There is no cluster {options['cluster']}.")
            self._bring_in(cluster, folder, helpers, roll=not options["no_roll"])

    def _bring_in(self, cluster: Cluster, folder: Path, helpers: Helpers, *, roll: bool) -> None:
        coming = _Progress(self.stdout.write)
        found = importer.import_history(cluster, folder, now=timezone.now(), tell=coming.part(0, _READ))
        judged, tell = 0, coming.part(_READ, _JUDGED)
        verdicts = helpers.map(lifecycle.verdict_at_end, found.workloads)
        for done, (pk, verdict) in enumerate(zip(found.workloads, verdicts, strict=True), 1):
            judged += lifecycle.record_ended(pk, verdict)
            tell(done / len(found.workloads))
        self.stdout.write(
            f"{found.span.begins:%Y-%m-%d %H:%M} to {found.span.ends:%Y-%m-%d %H:%M} UTC:"
            f" {len(found.workloads)} workloads, {found.allocations} allocations,"
            f" {found.samples.stored} samples ({found.samples.duplicates} were there);"
            f" {found.homeless} could not be attributed; {judged} findings."
        )
        importer.open_books(cluster, found.span, now=timezone.now())
        if roll:
            _roll(cluster, found.span, helpers, coming.part(_JUDGED, _SUMMED))
        tell, known = coming.part(_SUMMED, 100), list(found.workloads)
        parts = [known[first : first + _PRICED] for first in range(0, len(known), _PRICED)]
        for done, _ in enumerate(helpers.map(_price, parts, chunk=1), 1):
            tell(done / len(parts))
        coming.note(100)


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
