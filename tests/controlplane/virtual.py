"""The API of a virtual cluster, played by a second real kube-apiserver beside a plane.

As vCluster's: its own authority, accounts and signing key, and an administrator known by certificate. Not as
vCluster's: it shares the plane's etcd under another prefix, no syncer carries pods to the host, and of the
controllers only those run that access needs.
"""

from __future__ import annotations

import subprocess
import time
from base64 import b64encode
from dataclasses import replace
from types import TracebackType
from typing import Self

from tests.controlplane import components, network, pki, process
from tests.controlplane.plane import ControlPlane, PlaneError
from tests.patience import within

CONTROLLERS = "clusterrole-aggregation-controller,namespace-controller"
"""The rules of the role `edit` are put together by the first; the second takes namespaces away."""

_SECONDS = 90.0


class VirtualApi:
    """A context manager; `address` is host and port."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        folder = plane.folder / "virtual"
        self.layout = replace(
            plane.layout, folder=folder, base_port=network.checked_base(0), pki=pki.own_pki(folder / "pki"),
            audit=False,
        )  # fmt: skip
        self.certificate, self.private_key = pki.administrator(self.layout.pki)
        self._records: list[process.Record] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def address(self) -> str:
        """Where it answers: `127.0.0.1:1234`."""
        return self.layout.server.removeprefix("https://")

    def secret(self, name: str, namespace: str) -> dict[str, object]:
        """What vCluster's control plane writes on the host once it is up (pkg/util/kubeconfig)."""
        parts = {
            "certificate-authority": self.layout.pki.cert("ca").read_bytes(),
            "client-certificate": self.certificate,
            "client-key": self.private_key,
            "config": b"names localhost, which is nobody's here",
        }
        data = {key: b64encode(value).decode() for key, value in parts.items()}
        metadata = {"name": name, "namespace": namespace}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}

    def kubectl(self, *arguments: str) -> str:
        """As its administrator."""
        command = [str(self._plane.kubectl_path), f"--kubeconfig={self.layout.kubeconfig('admin')}"]
        cache = f"--cache-dir={self.layout.folder / 'kubectl-cache'}"
        done = subprocess.run(
            [*command, cache, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise PlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _start(self) -> None:
        layout = self.layout
        for made in ("config", "identities", "logs"):
            (layout.folder / made).mkdir(parents=True, exist_ok=True)
        pki.write_service_account_key(layout.file("service-account.key"))
        tokens = pki.write_tokens(layout.file("tokens.csv"), components.IDENTITIES)
        for identity in ("admin", "kube-controller-manager"):
            config = layout.kubeconfig(identity)
            pki.write_kubeconfig(config, layout.server, tokens["admin"], layout.pki.cert("ca"))
        etcd = f"--etcd-servers=http://{components.HOST}:{self._plane.layout.port('etcd')}"
        self._spawn("kube-apiserver", etcd, "--etcd-prefix=/virtual")
        self._spawn("kube-controller-manager", f"--controllers={CONTROLLERS}")
        self._wait_for_edit()

    def _spawn(self, name: str, *instead: str) -> None:
        """The component as the plane starts it, with these flags in place of its own."""
        built = components.component(self.layout, name)
        flags = {each.partition("=")[0] for each in instead}
        kept = [each for each in built.arguments if each.partition("=")[0] not in flags]
        record = process.spawn([*kept, *instead], self.layout.log(name), built.environment)
        self._records.append(record)
        deadline = within(_SECONDS)
        while not network.answers(built.ready, self.layout.pki.cert("ca")):
            if time.monotonic() > deadline or not process.is_running(record):
                tail = process.tail(self.layout.log(name))
                raise PlaneError(f"{name} of the virtual API is not ready:\n{tail}")
            time.sleep(0.2)

    def _wait_for_edit(self) -> None:
        deadline = within(_SECONDS)
        while "secrets" not in self.kubectl("get", "clusterrole", "edit", "-o", "jsonpath={.rules}"):
            if time.monotonic() > deadline:
                raise PlaneError("the role `edit` was not put together")
            time.sleep(0.2)

    def _stop(self) -> None:
        for record in reversed(self._records):
            process.stop(record, 5)
