"""What workers and the clock tell of themselves, through Celery's signals, and how a task takes an outage of
the database; `portal.celery` connects them.

Each task carries when it was sent, so that what it waited for a worker can be measured. Only the names and
states of tasks are counted, never what they are about.
"""

import logging.config
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from billiard.util import get_pdeathsig
from celery import Task, signals
from celery.exceptions import Ignore
from django.conf import settings

from apps.cluster.reconciling.services import wake
from apps.web import collector, counters
from apps.web.stores import outage, telling
from portal.operate import logs
from portal.operate.tracing import starting

SENT_AT = "allotment_sent_at"
"""The header of a task: seconds since 1970, by the clock of whoever sent it."""

_give_back = collector.GivingBack()
_ROWS = {task: owner for owner, task in wake.TASKS.items()}


class PatientTask(Task):  # type: ignore[misc]
    """A task that begins anew once the database answers again: a hint is not lost with a restart of
    PostgreSQL. Each task finds its work in the rows, so a second time changes nothing.

    RULE: where the database stays away the task is let go of without a word more, and counts as no run: the
    sweep finds what is due.
    """

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See Celery."""
        try:
            return self.run(*args, **kwargs)
        except outage.AWAY as error:
            if not outage.outlive(error):
                raise Ignore from error
            return self.run(*args, **kwargs)


def connect() -> None:
    """Once per process; forked workers inherit it."""
    signals.before_task_publish.connect(_stamp, dispatch_uid="operate.stamp")
    signals.task_prerun.connect(_began, dispatch_uid="operate.began")
    signals.task_postrun.connect(_ended, dispatch_uid="operate.ended")
    signals.worker_ready.connect(_worker, dispatch_uid="operate.worker")
    signals.worker_before_create_process.connect(_before_fork, dispatch_uid="operate.before-fork")
    signals.worker_process_init.connect(_forked, dispatch_uid="operate.forked")
    signals.worker_process_shutdown.connect(_ends, dispatch_uid="operate.ends")
    signals.beat_init.connect(_beat, dispatch_uid="operate.beat")
    if os.environ.get("ALLOTMENT_LOG_FORMAT") == "json":
        # Who receives this sets logging up instead of Celery, which has a form of its own.
        signals.setup_logging.connect(_set_up_logging, dispatch_uid="operate.logging")


def _stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None:
        headers[SENT_AT] = time.time()


def _began(task: Any = None, args: Sequence[Any] = (), **_: Any) -> None:
    known = {"task": task.name}
    if owner := _ROWS.get(task.name):
        known[f"{owner}_id"] = str(next(iter(args), ""))
    logs.begin(**known)
    sent_at = getattr(task.request, SENT_AT, None)
    if isinstance(sent_at, float):
        counters.TASK_WAIT_SECONDS.observe(max(0.0, time.time() - sent_at))


def _ended(task: Any = None, state: str | None = None, **_: Any) -> None:
    counters.TASKS.labels(task.name, state or "UNKNOWN").inc()
    if state == "SUCCESS":
        telling.note_run(task.name)
    _give_back()


def _set_up_logging(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)


def _worker(**_: Any) -> None:
    telling.start("worker")


def _before_fork(**_: Any) -> None:
    # Here, not in the child, which would have its own of it: what its first task reads, and what a collector
    # touches there.
    import anyio._backends._asyncio  # noqa: F401
    import django.db.models.sql.compiler  # noqa: F401

    import apps.cluster.gateway.client
    import apps.web.stores.pool  # noqa: F401

    # As the child does at once: by cffi, where it is installed, which parses C for it and keeps the parser.
    with suppress(OSError):  # elsewhere than on Linux
        get_pdeathsig()
    starting.read_ahead()
    collector.leave_out_what_stays()


def _forked(**_: Any) -> None:
    telling.start("", has_parent=True)
    starting.start("worker")


def _ends(**_: Any) -> None:
    starting.stop()


def _beat(**_: Any) -> None:
    telling.start("beat")
    collector.leave_out_what_stays()
