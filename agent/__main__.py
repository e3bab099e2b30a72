"""`python -m agent`: serve this node's GPUs to Prometheus; `--once`: print them for a person."""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from agent.collector import Collector, ReplacedError
from agent.podresources import SOCKET
from agent.serving import Pages, Server
from agent.session import Settings
from agent.table import table

log = logging.getLogger("agent")
# The initial PID namespace's number is fixed in the kernel: elsewhere NVML's process lists have holes.
_HOST_PIDS = "pid:[4026531836]"
_STALE_COLLECTIONS, _STALE_SECONDS = 3, 15.0
_FAILED, _DRIVER_REPLACED = 1, 3


def main(argv: list[str] | None = None) -> int:
    """Run the agent; 0 after SIGTERM or SIGINT, 3 when the driver was replaced, 1 when collecting failed."""
    options = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    settings = Settings(
        host=options.host,
        window=options.window,
        socket=Path(options.socket) if options.socket else None,
        counts_processes=_sees_host_pids(),
    )
    return _once(settings, options.interval) if options.once else _Service(settings, options).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agent", description=__doc__)
    parser.add_argument("--once", action="store_true", help="print a table and end")
    parser.add_argument("--interval", type=_seconds, default=1.0, help="seconds between collections (1)")
    parser.add_argument(
        "--window", type=_seconds, default=30.0, help="seconds that ratios cover: the scrape interval (30)"
    )
    parser.add_argument("--bind", default="0.0.0.0", help="address to listen on (all)")  # noqa: S104 - a pod's own
    parser.add_argument("--port", type=int, default=9400)
    parser.add_argument(
        "--socket", default=str(SOCKET), help="the kubelet's pod-resources socket; empty for none"
    )
    parser.add_argument(
        "--host", default=os.environ.get("NODE_NAME") or socket.gethostname(), help="the node's name"
    )
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError("from 0.1 to 3600 seconds")
    return value


def _sees_host_pids() -> bool:
    try:
        return Path("/proc/self/ns/pid").readlink() == Path(_HOST_PIDS)
    except OSError:
        return False


def _once(settings: Settings, interval: float) -> int:
    """Ratios lie between two collections, so there are two."""
    collector = Collector(settings)
    try:
        collector.collect()
        time.sleep(interval)
        sys.stdout.write(table(collector.collect()))
    except ReplacedError as replaced:
        log.critical("%s", replaced)
        return _DRIVER_REPLACED
    finally:
        collector.close()
    return 0


class _Service:
    """The collecting thread and the serving loop. The thread's end ends the service."""

    def __init__(self, settings: Settings, options: argparse.Namespace) -> None:
        self._settings, self._options = settings, options
        self._pages = Pages(max(_STALE_COLLECTIONS * options.interval, _STALE_SECONDS))
        self._stop = threading.Event()
        self._code = 0

    def run(self) -> int:
        """Serve until a signal or the end of the collection; the process's exit code."""
        asyncio.run(self._serve())
        return self._code

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, over.set)
        server = await Server(self._pages).listen(self._options.bind, self._options.port)
        log.info("listening on %s", server.sockets[0].getsockname())
        # A daemon: a driver that hangs must not keep the process from ending.
        thread = threading.Thread(target=self._collect, args=(loop, over), daemon=True)
        thread.start()
        await over.wait()
        self._stop.set()
        server.close()
        await asyncio.to_thread(thread.join, 2.0)

    def _collect(self, loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
        collector = Collector(self._settings)
        self._code = _FAILED
        try:
            due = time.monotonic()
            while not self._stop.wait(max(0.0, due - time.monotonic())):
                self._pages.publish(collector.collect())
                due = max(due + self._options.interval, time.monotonic())
            self._code = 0
        except ReplacedError as replaced:
            log.critical("%s: ending, so that a new container loads the new library", replaced)
            self._code = _DRIVER_REPLACED
        finally:
            collector.close()
            loop.call_soon_threadsafe(over.set)


if __name__ == "__main__":
    sys.exit(main())
