"""`manage.py doctor`: is the installation well? A line per check; status 1 if anything is wrong."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.operate import bundle, doctor
from portal.operate.findings import NOTE, WRONG, Finding


class Command(BaseCommand):
    """Looks and changes nothing. It runs beside the processes, with their settings."""

    help = "Check every part of the installation and say what to do about what is wrong."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
        parser.add_argument(
            "--support-bundle", type=Path, default=None, metavar="FILE.tar.gz",
            help="write what somebody who helps needs to see, without secrets",
        )  # fmt: skip

    def handle(self, *_args: Any, **options: Any) -> None:
        now, found = timezone.now(), []
        for each in doctor.examine(now):
            found.append(each)
            if not options["json"]:
                self.stdout.write(each.line)
        if path := options["support_bundle"]:
            self._bundle(path, found)
        if options["json"]:
            body = {"well": doctor.is_well(found), "checks": [each.as_dict() for each in found]}
            self.stdout.write(json.dumps(body, indent=1))
        else:
            self.stdout.write(_summary(found))
        if not doctor.is_well(found):
            sys.exit(1)

    def _bundle(self, path: Path, found: list[Finding]) -> None:
        try:
            names = bundle.write(path, found, settings.CONFIG, timezone.now())
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        self.stderr.write(f"{path} holds {', '.join(names)}. Look through it before you hand it on.")


def _summary(found: list[Finding]) -> str:
    states = [each.state for each in found]
    wrong, notes = states.count(WRONG), states.count(NOTE)
    return f"{len(found)} checks: {wrong} wrong, {notes} worth knowing."
