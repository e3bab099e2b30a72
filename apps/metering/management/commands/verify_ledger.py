"""`manage.py verify_ledger`: does the ledger balance, and is it what the facts say? Names every breach."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.cluster.models import Cluster
from apps.metering.ledger.services import account_sums, verifying

MOST = 100
"""Breaches that are told one by one."""


class Command(BaseCommand):
    """Ends with status 1 when anything does not hold."""

    help = "Rebuild the ledger from its facts and compare: balance, rows, levels."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", default=None, help="its slug; all when omitted")
        parser.add_argument("--from", dest="begins", type=_day, default=None, help="a day, YYYY-MM-DD (UTC)")
        parser.add_argument("--to", dest="ends", type=_day, default=None, help="the last day, YYYY-MM-DD")
        parser.add_argument(
            "--remake-sums", action="store_true", help="first add the buckets of all days up anew by account"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        rows = Cluster.objects.order_by("slug")
        clusters = list(rows.filter(slug=options["cluster"]) if options["cluster"] else rows)
        if options["cluster"] and not clusters:
            raise CommandError(f"There is no cluster {options['cluster']}.")
        flaws = 0
        for cluster in clusters:
            if options["remake_sums"]:
                account_sums.remake_all(cluster)
            verdict = verifying.verify(cluster, begins=options["begins"], ends=options["ends"])
            for flaw in verdict.flaws[:MOST]:
                self.stderr.write(f"Breach in {cluster.slug}: {flaw}")
            flaws += len(verdict.flaws)
            waits = f", {verdict.waiting} wait to be rebuilt" if verdict.waiting else ""
            self.stdout.write(f"{cluster.slug}: {verdict.buckets} buckets of 300 s checked{waits}.")
        if flaws:
            raise CommandError(f"The ledger does not hold: {flaws} breaches.")
        self.stdout.write("The ledger balances.")


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
