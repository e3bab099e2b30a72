"""`manage.py watch_cluster`: keeps the mirror of every registered cluster (or of one) until it is told to
stop.
"""

import logging
import signal
import threading
from argparse import ArgumentParser
from functools import partial
from math import inf
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from apps.cluster.gateway.port import open_gateway
from apps.cluster.leading.services.leadership import Leader
from apps.cluster.models import Cluster
from apps.cluster.watching.services.watch import Watcher
from apps.prepared import Prepared
from apps.web import collector
from apps.web.stores import outage, telling

logger = logging.getLogger(__name__)

Key = tuple[UUID, int]
_LOOK_SECONDS = 2.0
_CUT_SECONDS, _GOODBYE = 1.0, 4.0
_REGISTERED = Prepared(lambda: Cluster.objects.only("slug", "generation"))


class Command(BaseCommand):
    """Starts one watcher per cluster that no other process watches; what is registered, changed or removed
    later is followed within seconds.
    """

    requires_system_checks = ()
    """They read every page and all of REST, which a watcher has no use for (`migrate` runs them)."""
    help = "List and watch the registered clusters and keep their mirror."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`--cluster` limits it to one."""
        parser.add_argument("--cluster", default="", help="slug; without it every registered cluster")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Run until SIGTERM or SIGINT; a watcher that dies ends the process, so that its supervisor starts
        it. A database that is away is waited for.
        """
        telling.start("watcher")
        collector.leave_out_what_stays()
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        running: dict[Key, tuple[Watcher, threading.Thread]] = {}
        leaders: dict[UUID, Leader] = {}
        while not stop.is_set():
            try:
                self._follow(running, leaders, options["cluster"])
            except outage.AWAY as error:
                outage.outlive(error, seconds=inf, stop=stop)
            if not all(thread.is_alive() for _, thread in running.values()):
                raise CommandError("a watcher ended by itself; see the log")
            stop.wait(_LOOK_SECONDS)
        for watcher, _ in running.values():
            watcher.shut_down()
        for _, thread in running.values():
            thread.join(_GOODBYE / len(running))
        for leader in leaders.values():
            leader.give_back()

    def _follow(
        self, running: dict[Key, tuple[Watcher, threading.Thread]], leaders: dict[UUID, Leader], slug: str
    ) -> None:
        """One watcher per cluster that this process leads and generation of its registration: other
        credentials, another watcher.
        """
        close_old_connections()
        rows = [row for row in _REGISTERED() if slug in ("", row.slug)]
        for cluster in rows:
            if cluster.pk not in leaders:
                leaders[cluster.pk] = Leader(f"watcher:{cluster.pk}")
        led = [cluster for cluster in rows if leaders[cluster.pk].keep()]
        wanted = {(cluster.pk, cluster.generation): cluster for cluster in led}
        for key in set(running) - set(wanted):
            watcher, thread = running.pop(key)
            watcher.shut_down()
            # Not for long: the leases of the other clusters are asked for by this thread.
            thread.join(_CUT_SECONDS)
        for key in set(wanted) - set(running):
            # Looks read of a cluster what they compare.
            whole = Cluster.objects.filter(pk=wanted[key].pk).first()
            if whole is None:
                continue
            watcher = Watcher(whole, partial(open_gateway, whole), leaders[whole.pk])
            thread = threading.Thread(target=watcher.run, name=f"watcher-{whole.slug}", daemon=True)
            running[key] = (watcher, thread)
            thread.start()
            logger.info("watching %s", whole.slug)
