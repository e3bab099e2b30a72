"""`manage.py import_history DIR --cluster SLUG`: a past of `python -m sandbox history`, brought in."""

import time
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering.billing.services import pricing_run
from apps.metering.findings.services import lifecycle, measuring
from apps.metering.history.selectors import progress
from apps.metering.history.services.importer import import_history
from apps.metering.ledger.services import rollup

_READ, _JUDGED = 45, 65
"""Percent of the import after which the samples are in, and the work is judged; the rest sums up."""
_PATIENT_SECONDS = 600
"""How long an import waits for its turn to write on SQLite: nobody waits for it, so it need not give up."""
_AT_WORK, _OTHERS_FIRST = 0.5, 0.15
"""Seconds of work on SQLite, and of the pause before the next transaction then: one writes at a time there
and nobody queues, but who waits looks again every tenth of a second."""


class Command(BaseCommand):
    """See the module."""

    help = "Import a past (events, samples) of one cluster, and sum it up."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path)
        parser.add_argument("--cluster", required=True, help="the cluster's slug")
        parser.add_argument("--no-roll", action="store_true", help="leave summing up to the worker")

    def handle(self, *_args: Any, **options: Any) -> None:
        folder: Path = options["folder"]
        for name in ("manifest.json", "events.jsonl", "samples.jsonl"):
            if not (folder / name).is_file():
                raise CommandError(f"{folder} has no {name}: write it with `python -m sandbox history`.")
        with ExitStack() as stack:
            if connection.vendor == "sqlite":
                connection.settings_dict["OPTIONS"]["timeout"] = _PATIENT_SECONDS
                stack.enter_context(connection.execute_wrapper(_others_first()))
            cluster = Cluster.objects.filter(slug=options["cluster"]).first()
            if cluster is None:
                raise CommandError(f"There is no cluster {options['cluster']}.")
            self._bring_in(cluster, folder, roll=not options["no_roll"])

    def _bring_in(self, cluster: Cluster, folder: Path, *, roll: bool) -> None:
        found = import_history(cluster, folder, now=timezone.now(), tell=_tell(0, _READ))
        pricing_run.price_workloads(found.workloads, now=timezone.now())
        judged, tell = 0, _tell(_READ, _JUDGED)
        for done, pk in enumerate(found.workloads, 1):
            judged += lifecycle.judge_ended(pk)
            tell(done / len(found.workloads))
        self.stdout.write(
            f"{found.span.begins:%Y-%m-%d %H:%M} to {found.span.ends:%Y-%m-%d %H:%M} UTC:"
            f" {len(found.workloads)} workloads, {found.allocations} allocations,"
            f" {found.samples.stored} samples ({found.samples.duplicates} were there);"
            f" {found.homeless} could not be attributed; {judged} findings."
        )
        if roll:
            rolled = rollup.roll(cluster, now=timezone.now())
            pricing_run.price_workloads(found.workloads, now=timezone.now())
            measuring.price_workloads(found.workloads, now=timezone.now())
            self.stdout.write(f"{rolled.buckets} buckets rolled up.")
        progress.note(100)


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


def _tell(begins: int, ends: int) -> Callable[[float], None]:
    """Notes the share of one part of the work, whenever its percent changes."""
    said = -1

    def tell(share: float) -> None:
        nonlocal said
        percent = begins + round(share * (ends - begins))
        if percent != said:
            said = percent
            progress.note(percent)

    return tell
