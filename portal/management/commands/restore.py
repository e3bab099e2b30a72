"""`manage.py restore begin|review|finish`, after a backup was loaded into the database: docs/operating.md."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.workloads.models import Workload
from portal.operate import restoring, rotation
from portal.operate.restoring import Review

MOST_LINES = 50
ACTS = (
    ("stop_missing", "Stopped", restoring.stop_missing),
    ("resume_running", "Asked for again", restoring.resume_running),
    ("remove_unknown", "Objects removed", restoring.remove_unknown),
)


class Command(BaseCommand):
    """Ends with status 1 where somebody has to decide first."""

    help = "Hold the clusters after a backup was loaded, say what it does not know, and go on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        steps = parser.add_subparsers(dest="step", required=True)
        steps.add_parser("begin", help="hold every cluster and end every session; before anything is started")
        review = steps.add_parser("review", help="say what the clusters have and the backup has not")
        review.add_argument("--stop-missing", action="store_true", help="stop what would start anew")
        review.add_argument(
            "--resume-running", action="store_true", help="ask again for what would be stopped"
        )
        review.add_argument(
            "--remove-unknown",
            action="store_true",
            help="remove what belongs to no workload here; volumes stay",
        )
        finish = steps.add_parser("finish", help="let workers write to the clusters again")
        finish.add_argument("--as-listed", action="store_true", help="although the review lists something")

    def handle(self, *_args: Any, **options: Any) -> None:
        {"begin": self.begin, "review": self.review, "finish": self.finish}[options["step"]](options)

    def begin(self, _options: Any) -> None:
        """Hold everything."""
        lost = {each.words: each.unreadable for each in rotation.counts() if each.unreadable}
        if lost:
            raise CommandError(
                f"No secret key opens {rotation.in_words(lost)} of this backup. Set ALLOTMENT_SECRET_KEY, or "
                "ALLOTMENT_OLD_SECRET_KEYS, to the key that it was made under. Nothing was changed."
            )
        done = restoring.begin(timezone.now())
        self.stdout.write(f"{done.clusters} clusters are held, and {done.sessions} sessions ended.")
        self.stdout.write("Start the product, then run `manage.py restore review`.")

    def review(self, options: Any) -> None:
        """Say what differs, after what was asked for was done."""
        for option, words, act in ACTS:
            if options[option]:
                done = act(timezone.now())
                self.stdout.write(f"{words}: {done.count}.")
                for line in done.refused:
                    self.stderr.write(f"Refused: {line}")
        held = list(restoring.reviews())
        if not held:
            self.stdout.write("No cluster is held. After a backup was loaded: `manage.py restore begin`.")
        for each in held:
            self._tell(each)

    def finish(self, options: Any) -> None:
        """Go on, unless somebody has to decide first."""
        open_ones = [each for each in restoring.reviews() if not each.agrees]
        if open_ones and (not options["as_listed"] or any(each.unlisted for each in open_ones)):
            for each in open_ones:
                self._tell(each)
            raise CommandError("Nothing was changed: decide about these first (`restore review --help`).")
        count = restoring.finish(timezone.now())
        self.stdout.write(f"{count} clusters are written to again; every row there is looked at now.")

    def _tell(self, each: Review) -> None:
        slug = each.cluster.slug
        if each.unlisted:
            self.stdout.write(f"{slug}: not listed yet: {', '.join(each.unlisted)}. Does its watcher run?")
            return
        if each.agrees:
            self.stdout.write(f"{slug}: the database and the cluster know the same.")
        self._list(f"{slug}: in the cluster, and belongs to nothing here", [it.words for it in each.unknown])
        self._list(f"{slug}: not in the cluster, would start anew", _names(each.missing))
        self._list(f"{slug}: runs in the cluster, would be stopped", _names(each.running))

    def _list(self, title: str, lines: Sequence[str]) -> None:
        if lines:
            self.stdout.write(f"{title} ({len(lines)}):")
        for line in lines[:MOST_LINES]:
            self.stdout.write(f"  {line}")
        if len(lines) > MOST_LINES:
            self.stdout.write(f"  and {len(lines) - MOST_LINES} more")


def _names(rows: Sequence[Workload]) -> list[str]:
    return [f"{row.tenant.slug}/{row.slug}, {row.kind} of {row.owner}" for row in rows]
