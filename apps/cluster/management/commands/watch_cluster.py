"""`manage.py watch_cluster`: keeps the mirror of every registered cluster (or of one) until it is told to
stop.
"""

import signal
import threading
from argparse import ArgumentParser
from functools import partial
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import Cluster
from apps.cluster.watching.services.watch import Watcher

Key = tuple[UUID, int]
_LOOK_SECONDS = 1.0
_GOODBYE = 4.0


class Command(BaseCommand):
    """Starts one watcher per cluster; what is registered, changed or removed later is followed within
    seconds.
    """

    help = "List and watch the registered clusters and keep their mirror."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`--cluster` limits it to one."""
        parser.add_argument("--cluster", default="", help="slug; without it every registered cluster")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Run until SIGTERM or SIGINT; a watcher that dies ends the process, so that its supervisor starts
        it.
        """
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        running: dict[Key, tuple[Watcher, threading.Thread]] = {}
        while not stop.is_set():
            self._follow(running, options["cluster"])
            if not all(thread.is_alive() for _, thread in running.values()):
                raise CommandError("a watcher ended by itself; see the log")
            stop.wait(_LOOK_SECONDS)
        for watcher, _ in running.values():
            watcher.shut_down()
        for _, thread in running.values():
            thread.join(_GOODBYE / len(running))

    def _follow(self, running: dict[Key, tuple[Watcher, threading.Thread]], slug: str) -> None:
        """One watcher per cluster and generation of its registration: other credentials, another watcher."""
        close_old_connections()
        rows = Cluster.objects.filter(slug=slug) if slug else Cluster.objects.all()
        wanted = {(cluster.pk, cluster.generation): cluster for cluster in rows}
        for key in set(running) - set(wanted):
            watcher, thread = running.pop(key)
            watcher.shut_down()
            thread.join(_GOODBYE)
        for key in set(wanted) - set(running):
            cluster = wanted[key]
            watcher = Watcher(cluster, partial(open_gateway, cluster))
            thread = threading.Thread(target=watcher.run, name=f"watcher-{cluster.slug}", daemon=True)
            running[key] = (watcher, thread)
            thread.start()
            self.stdout.write(f"watching {cluster.slug}")
