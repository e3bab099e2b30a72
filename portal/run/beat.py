"""`python -m portal.run.beat --schedule <file>`: the clock as a process.

It sends tasks by name and reads none of them. Celery's own command reads all, and a shell beside: 40 MB
(docs/decisions/0163).
"""

import argparse
from collections.abc import Sequence

import django
from celery.apps.beat import Beat

from portal.celery import app


class Clock(Beat):  # type: ignore[misc]
    """Celery's, but for what it reads at start."""

    def init_loader(self) -> None:
        """See Celery: it would import every task."""
        django.setup()


def main(argv: Sequence[str] | None = None) -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m portal.run.beat")
    parser.add_argument("--schedule", required=True, help="the file that keeps when each task was last sent")
    Clock(app=app, schedule=parser.parse_args(argv).schedule, loglevel="WARNING", quiet=True).run()


if __name__ == "__main__":
    main()
