"""`manage.py import_history DIR --cluster SLUG`: a past of `python -m sandbox history`, brought in."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.metering.billing.services import pricing_run
from apps.metering.findings.services import lifecycle
from apps.metering.history.services.importer import import_history
from apps.metering.ledger.services import rollup


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
        cluster = Cluster.objects.filter(slug=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {options['cluster']}.")
        found = import_history(cluster, folder, now=timezone.now())
        pricing_run.price_workloads(found.workloads, now=timezone.now())
        judged = sum(lifecycle.judge_ended(pk) for pk in found.workloads)
        self.stdout.write(
            f"{found.span.begins:%Y-%m-%d %H:%M} to {found.span.ends:%Y-%m-%d %H:%M} UTC:"
            f" {len(found.workloads)} workloads, {found.allocations} allocations,"
            f" {found.samples.stored} samples ({found.samples.duplicates} were there);"
            f" {found.homeless} could not be attributed; {judged} findings."
        )
        if not options["no_roll"]:
            rolled = rollup.roll(cluster, now=timezone.now())
            pricing_run.price_workloads(found.workloads, now=timezone.now())
            self.stdout.write(f"{rolled.buckets} buckets rolled up.")
