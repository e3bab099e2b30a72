"""`python -m portal.run.worker`: Celery's worker as the product runs it.

Celery's own command reads a shell for people beside, 12 MB that no worker needs (docs/decisions/0163).
"""

import argparse
import sys
from collections.abc import Sequence

from portal.celery import app

QUIET = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}
"""What workers would say to each other: nobody listens."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; answers the exit status."""
    parser = argparse.ArgumentParser(prog="python -m portal.run.worker")
    parser.add_argument("--concurrency", type=int, default=2, help="processes that run tasks")
    parser.add_argument("--queues", default="celery", help="those it takes tasks from, with commas between")
    options = parser.parse_args(argv)
    worker = app.Worker(
        concurrency=options.concurrency, queues=options.queues, loglevel="WARNING", quiet=True, **QUIET
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
