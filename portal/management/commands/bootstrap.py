"""`manage.py bootstrap`: the first start of an installation. The first platform engineer with a one-time
link, and, if asked for, the first cluster. Running it again makes nothing new and says what is there.
"""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from apps.accounts import first_engineer
from apps.accounts.first_engineer import Start
from apps.accounts.people import PersonWish
from apps.cluster.gateway.mounted import ACCOUNT
from apps.cluster.models import Cluster
from apps.cluster.registration.services.clusters import register_cluster
from apps.errors import DomainError
from apps.web import health
from apps.web.requests.perimeter import public
from apps.workloads.templates.services import shipping


class Command(BaseCommand):
    """Ends with status 1 and the reason when something stands in the way; then nothing was made."""

    help = "Make the first platform engineer, print a one-time link, and register the first cluster."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", default="", help="what pages call the person")
        parser.add_argument("--email", default="")
        parser.add_argument(
            "--username", default="", help="to sign in with; else what stands before the @ of --email"
        )
        parser.add_argument(
            "--new-link", action="store_true", help="another link, as long as nobody has used one"
        )
        parser.add_argument("--cluster", default="main", metavar="SLUG", help="of the cluster; default: main")
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--kubeconfig", default="", help="a file on the workers, to register a cluster by")
        where.add_argument(
            "--in-cluster", nargs="?", const=ACCOUNT, default="", metavar="FOLDER",
            help="register the cluster that this pod runs in, by the account mounted into it",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        checks, now = health.checks(), timezone.now()
        if not health.is_ready(checks):
            wrong = "; ".join(
                f"{need}: {checks[need]}" for need in health.NEEDED if checks[need] != health.OK
            )
            raise CommandError(f"{wrong}. Run `manage.py migrate` against the database first.")
        try:
            started = first_engineer.begin(wish=_wish(options), new_link=options["new_link"], now=now)
            self._tell(started)
            for each in shipping.add_shipped(actor=first_engineer.BOOTSTRAP, now=now):
                self.stdout.write(f"Template {each.slug} is in the catalogue.")
            if path := options["kubeconfig"] or options["in_cluster"]:
                self._register(options["cluster"], path, now)
        except DomainError as error:
            problems = [each.sentence for each in getattr(error, "problems", ())]
            raise CommandError(" ".join(problems or [error.detail, error.hint])) from error

    def _tell(self, started: Start) -> None:
        names = ", ".join(each.username for each in started.engineers)
        if started.linked is not None:
            what = "is the first platform engineer" if started.is_new else "has a new link"
            self.stdout.write(f"{started.linked.username} {what}. Open this once, within 7 days:")
            self.stdout.write(public(reverse("invite", args=[started.text])))
        elif started.is_taken_up:
            self.stdout.write(f"Platform engineers: {names}. Nothing was made.")
        else:
            until = started.link_until
            words = (
                f"its link works until {until:%Y-%m-%d %H:%M} UTC"
                if until
                else "no link of it works any more"
            )
            self.stdout.write(
                f"{names} was made before and has not come yet; {words}. --new-link makes another."
            )

    def _register(self, slug: str, path: str, now: datetime) -> None:
        before = Cluster.objects.filter(slug=slug).values_list("generation", flat=True).first()
        row = register_cluster(
            actor=first_engineer.BOOTSTRAP, slug=slug, name=slug.title() if before is None else _name(slug),
            kubeconfig_path=path, is_simulated=False, now=now,
        )  # fmt: skip
        done = "is registered" if before is None else "was registered before"
        done = f"{done}; it is reached by {path} now" if before not in (None, row.generation) else done
        self.stdout.write(f"Cluster {slug} {done}. The watcher takes it up within seconds.")


def _name(slug: str) -> str:
    return Cluster.objects.values_list("name", flat=True).get(slug=slug)


def _wish(options: dict[str, Any]) -> PersonWish:
    username = options["username"] or options["email"].partition("@")[0]
    return PersonWish(username, options["name"], options["email"])
