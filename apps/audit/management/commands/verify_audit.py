"""`manage.py verify_audit`: is the record whole? Prints the counts, or where each broken chain breaks."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.audit import services


class Command(BaseCommand):
    """Ends with status 1 when a chain is broken."""

    help = "Check the hash chains of the audit record."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """One chain only, by name."""
        parser.add_argument("--chain", default=None, help="platform, or tenant:<slug>; all when omitted")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Check, print, and fail with every breach."""
        verdict = services.verify(options["chain"])
        if verdict.breaches:
            raise CommandError("\n".join(f"Broken: {breach}" for breach in verdict.breaches))
        self.stdout.write(f"Whole: {verdict.links} events in {verdict.chains} chains.")
