"""`manage.py register_cluster`: tell the installation of a cluster; the watcher takes it up within
seconds.
"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.accounts.specs import system_actor
from apps.cluster.registration.services import clusters
from apps.errors import DomainError


class Command(BaseCommand):
    """The operator's way in: only who can run commands on the workers can name a kubeconfig."""

    help = "Register a cluster by its kubeconfig, or bring its registration up to date."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Everything about a cluster that people decide."""
        parser.add_argument("--slug", required=True)
        parser.add_argument("--name", default="")
        parser.add_argument("--kubeconfig", required=True, help="a file on the workers")
        parser.add_argument(
            "--simulated", action="store_true", help="mark its GPUs as simulated on the pages"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Register, or end with the reason in words."""
        try:
            row = clusters.register_cluster(
                actor=system_actor("operator"), slug=options["slug"], name=options["name"] or options["slug"],
                kubeconfig_path=options["kubeconfig"], is_simulated=options["simulated"], now=timezone.now(),
            )  # fmt: skip
        except DomainError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{row.slug} is registered")
