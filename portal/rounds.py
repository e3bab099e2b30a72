"""What the clock starts every few seconds, in one message: as tasks of their own these would cost more to
send and to take than what they do, while nobody asks for anything.
"""

import logging

from celery import current_app, shared_task
from celery.states import FAILURE, SUCCESS

from apps.web import counters
from apps.web.stores import outage, telling
from portal.operate import logs

PARTS = (
    "workloads.sweep",
    "tenants.sweep",
    "quotas.sweep",
    "cluster.sweep",
    "workloads.expire",
    "workloads.keep_hours",
    "workloads.clear_nodes",
    "quotas.settle_pools",
)
"""Tasks by name, in their order."""

_log = logging.getLogger(__name__)


@shared_task(name="clock.round")  # type: ignore[untyped-decorator]
def do_round() -> None:
    """Run every part, and count each as the task that it is. One that fails holds up no other."""
    for name in PARTS:
        _run(name)


def _run(name: str) -> None:
    logs.begin(task=name)
    state = FAILURE
    try:
        current_app.tasks[name].run()
        state = SUCCESS
        telling.note_run(name)
    except outage.AWAY:
        raise  # the others would fail as well: the whole round waits
    except Exception:  # noqa: BLE001 - the other parts have nothing to do with it
        _log.exception("%s failed; the next round tries again", name)
    finally:
        counters.TASKS.labels(name, state).inc()
