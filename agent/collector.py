"""One collection after another: every GPU, every MIG device, who holds it, and what could not be read.

Runs in one thread. A GPU that is lost keeps its row (`ALLOTMENT_GPU_UP` 0) and loses its values; a driver
that goes is waited for and started anew; one of another version needs a new process, see `ReplacedError`.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from agent.holders import Holdings
from agent.nvml import DriverGone
from agent.podresources import Kubelet, PodsUnknownError
from agent.session import Session, Settings
from agent.snapshot import Gap, Snapshot

log = logging.getLogger("agent")


class ReplacedError(Exception):
    """The driver was replaced, and its old library is loaded here: only a new process can go on."""


class Collector:
    """Collects when told to; `clock` is monotonic seconds."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._kubelet = Kubelet(settings.socket) if settings.socket else None
        self._holdings, self._asked_pods = Holdings(), float("-inf")
        self._pods_gap: tuple[Gap, ...] = ()
        self._said: set[str] = set()
        self._running: Session | None = None

    def collect(self) -> Snapshot:
        """One snapshot; never raises for what hardware, driver or kubelet do, except ReplacedError."""
        try:
            if self._running is None:
                self._running = Session(self._settings)
            rows, gaps = self._running.collect(self._clock())
            driver = self._running.driver
        except DriverGone as gone:
            self._end()
            if gone.mismatched:
                raise ReplacedError(str(gone)) from gone
            nothing = Gap(("everything",), "", str(gone))
            return self._told(Snapshot(self._clock(), host=self._settings.host, gaps=(nothing,)))
        self._ask_kubelet()
        held = tuple(replace(row, holders=self._holdings.of(row.gpu, row.instance)) for row in rows)
        return self._told(
            Snapshot(self._clock(), driver, self._settings.host, held, (*gaps, *self._pods_gap))
        )

    def close(self) -> None:
        """Let driver and kubelet go."""
        self._end()
        if self._kubelet:
            self._kubelet.close()

    def _end(self) -> None:
        if self._running:
            self._running.close()
        self._running = None

    def _ask_kubelet(self) -> None:
        if self._kubelet is None or self._clock() - self._asked_pods < self._settings.pods_every:
            return
        self._asked_pods = self._clock()
        try:
            self._holdings, self._pods_gap = self._kubelet.holdings(), ()
        except PodsUnknownError as unknown:
            self._holdings, self._pods_gap = Holdings(), (Gap(("pod",), "", str(unknown)),)

    def _told(self, snapshot: Snapshot) -> Snapshot:
        """Log each gap once, when it opens."""
        now = {str(gap) for gap in snapshot.gaps}
        for line in sorted(now - self._said):
            log.warning("%s", line)
        self._said = now
        return snapshot
