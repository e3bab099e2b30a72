"""Flux beside a plane: the real helm-controller and source-controller, and a chart server on loopback.

The chart is the one that the vCluster module ships, packaged as its release pipeline does. Not real: the
containers that the chart would start; kwok says that they run.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.controlplane import binaries, network, process
from tests.controlplane.components import HOST
from tests.controlplane.plane import ControlPlane, PlaneError
from tests.patience import within

NAMESPACE = "flux-system"
CHART = "vcluster"
CHART_VERSION = binaries.pinned_version(binaries.VCLUSTER).removeprefix("v")
_PORTS = ("source", "source-metrics", "source-health", "helm-metrics", "helm-health")
_SECONDS = 60.0


class Flux:
    """Both controllers of a running plane; a context manager that leaves nothing running."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._folder = Path(tempfile.mkdtemp(prefix="flux-"))
        self._records: list[process.Record] = []
        self._server: ThreadingHTTPServer | None = None

    @property
    def chart_url(self) -> str:
        """The Helm repository that serves the pinned chart."""
        if self._server is None:
            raise PlaneError("the chart server does not run")
        return f"http://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for record in reversed(self._records):
            process.stop(record, 5)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self, name: str) -> Path:
        """What one of the controllers wrote."""
        return self._plane.folder / "logs" / f"{name}.log"

    def _start(self) -> None:
        built = binaries.ensure(binaries.FLUX)
        for crds in ("source-crds", "helm-crds"):
            self._plane.kubectl("apply", "--server-side", "-f", str(built.asset(crds)))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._plane.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump(namespace))
        self._plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        self._serve_chart(built.asset("vcluster-chart"))
        first = network.checked_base(0)
        ports = {name: first + index for index, name in enumerate(_PORTS)}
        self._spawn(built, "source-controller", _source_arguments(ports, self._folder / "storage"))
        self._spawn(built, "helm-controller", _helm_arguments(ports))
        for name in ("source-health", "helm-health"):
            self._wait(partial(_is_ready, ports[name]), name)

    def _spawn(self, built: binaries.Binaries, name: str, arguments: list[str]) -> None:
        environment = {
            "KUBECONFIG": str(self._plane.admin_kubeconfig),
            "RUNTIME_NAMESPACE": NAMESPACE,
            "HELM_CACHE_HOME": str(self._folder / "helm"),
        }
        command = [
            str(built.path(name)),
            "--watch-all-namespaces",
            "--enable-leader-election=false",
            *arguments,
        ]
        self._records.append(process.spawn(command, self.log(name), environment))

    def _serve_chart(self, source: Path) -> None:
        folder = self._folder / "charts"
        folder.mkdir(parents=True)
        package(source, folder)
        handler = partial(_Quiet, directory=str(folder))
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        threading.Thread(target=self._server.serve_forever, name="charts", daemon=True).start()

    def _wait(self, reached: Callable[[], bool], name: str) -> None:
        deadline = within(_SECONDS)
        while not reached():
            if not all(process.is_running(record) for record in self._records):
                tails = "\n".join(process.tail(self.log(n)) for n in ("source-controller", "helm-controller"))
                raise PlaneError(f"a controller of Flux died:\n{tails}")
            if time.monotonic() > deadline:
                raise PlaneError(f"{name} is not ready within {_SECONDS:.0f} s")
            time.sleep(0.1)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's word
        """Say nothing: tests read their own output."""


def package(source: Path, folder: Path) -> Path:
    """`helm package` and `helm repo index` of a chart folder: an archive and an index beside it."""
    about = yaml.safe_load((source / "Chart.yaml").read_text()) | {
        "version": CHART_VERSION,
        "appVersion": CHART_VERSION,
    }
    archive = folder / f"{CHART}-{CHART_VERSION}.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(each for each in source.rglob("*") if each.is_file()):
            name = path.relative_to(source)
            if name.parts[0] == "tests":
                continue
            content = yaml.safe_dump(about).encode() if str(name) == "Chart.yaml" else path.read_bytes()
            entry = tarfile.TarInfo(f"{CHART}/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    row = about | {"urls": [archive.name], "digest": digest, "created": "2026-01-01T00:00:00Z"}
    index = {"apiVersion": "v1", "entries": {CHART: [row]}, "generated": "2026-01-01T00:00:00Z"}
    (folder / "index.yaml").write_text(yaml.safe_dump(index))
    return archive


def _source_arguments(ports: dict[str, int], storage: Path) -> list[str]:
    storage.mkdir()
    address = f"{HOST}:{ports['source']}"
    return [
        "--events-addr=",
        f"--storage-path={storage}",
        f"--storage-addr={address}",
        f"--storage-adv-addr={address}",
        f"--metrics-addr={HOST}:{ports['source-metrics']}",
        f"--health-addr={HOST}:{ports['source-health']}",
    ]


def _helm_arguments(ports: dict[str, int]) -> list[str]:
    return [
        "--events-addr=",
        f"--metrics-addr={HOST}:{ports['helm-metrics']}",
        f"--health-addr={HOST}:{ports['helm-health']}",
    ]


def _is_ready(port: int) -> bool:
    return network.answers(f"http://{HOST}:{port}/readyz")
