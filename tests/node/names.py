"""The DNS of a cluster with real nodes: CoreDNS, on the machine, behind the Service that the kubelets name.

Real: the names of Services and of pods below a headless one, and a pod's way to them. No name is forwarded
elsewhere: pods do not reach beyond the bridge.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane import binaries, pki, process
from tests.controlplane.components import HOST
from tests.controlplane.documents import dump
from tests.controlplane.network import answers
from tests.controlplane.plane import PlaneError
from tests.node import documents, programs
from tests.node.cluster import NodeCluster
from tests.patience import within
from tests.ports import free_port

_SECONDS = 20.0


class Names:
    """Answers for the cluster's names while it is entered."""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster, self._plane = cluster, cluster.plane
        self._folder = Path(tempfile.mkdtemp(prefix="names-"))
        self._endpoints = documents.dns_endpoints(cluster.network.machine, free_port())
        self._record: process.Record | None = None

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
        gone = ("delete", "--ignore-not-found", "-f", "-")
        self._plane.kubectl(*gone, input=dump([self._endpoints]))
        if self._record:
            process.stop(self._record, 5)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        built = binaries.ensure(programs.DNS)
        token = self._plane.token_of(documents.DNS, documents.NAMESPACE)
        layout, ready = self._plane.layout, f"{HOST}:{free_port()}"
        config = pki.kubeconfig(layout.server, {"token": token}, layout.pki.cert("ca"))
        pki.write_private(self._folder / "kubeconfig", json.dumps(config).encode())
        (self._folder / "Corefile").write_text(self._corefile(ready))
        command = [str(built.path("coredns")), "-conf", str(self._folder / "Corefile")]
        log = self._plane.folder / "logs" / "coredns.log"
        self._record = process.spawn(command, log, {})
        deadline = within(_SECONDS)
        while not answers(f"http://{ready}/ready"):
            if time.monotonic() > deadline or not process.is_running(self._record):
                raise PlaneError(f"CoreDNS is not ready:\n{process.tail(log)}")
            time.sleep(0.05)
        self._plane.apply([self._endpoints])

    def _corefile(self, ready: str) -> str:
        (endpoint,), port = self._endpoints["endpoints"], self._endpoints["ports"][0]["port"]
        (address,) = endpoint["addresses"]
        return f"""{documents.DOMAIN}:{port} {{
    bind {address}
    ready {ready}
    errors
    kubernetes {documents.DOMAIN} {{
        kubeconfig {self._folder / "kubeconfig"}
    }}
}}
"""
