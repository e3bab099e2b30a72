"""Cilium's operator beside a plane: a real controller of Gateway API that knows the filter ExternalAuth.

Real: what it says of Gateways and routes, and the configuration that it writes for Envoy (CiliumEnvoyConfig).
Not run: Cilium's agent and Envoy, so nothing is led anywhere and no Gateway has an address.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane import binaries, process
from tests.controlplane.components import HOST
from tests.controlplane.plane import ControlPlane, PlaneError
from tests.patience import within
from tests.ports import free_port

CLASS = "cilium"
_PROGRAM, _SECRETS = "cilium-operator-generic", "cilium-secrets"
_SECONDS = 90.0


class GatewayController:
    """The controller of a running plane; a context manager that leaves no process behind. Its kinds stay."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._folder = Path(tempfile.mkdtemp(prefix="gateway-"))
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
        if self._record:
            process.stop(self._record, 5)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def log(self) -> Path:
        """What it wrote."""
        return self._plane.folder / "logs" / f"{_PROGRAM}.log"

    def envoy(self, namespace: str, gateway: str) -> list[dict[str, Any]]:
        """What it has Envoy do for a Gateway: listeners, routes, clusters; empty while there is nothing."""
        asked = ("get", "ciliumenvoyconfigs", f"cilium-gateway-{gateway}", f"-n={namespace}")
        text = self._plane.kubectl(*asked, "--ignore-not-found", "-o", "json")
        resources: list[dict[str, Any]] = json.loads(text)["spec"]["resources"] if text else []
        return resources

    def _start(self) -> None:
        built = binaries.ensure(binaries.GATEWAY_CONTROLLER)
        self._plane.kubectl("apply", "--server-side", "-f", str(built.asset("crds")))
        self._plane.apply(_objects())
        for name, value in _options(self._plane.admin_kubeconfig, self._folder).items():
            (self._folder / name).write_text(value)
        command = [str(built.path(_PROGRAM)), f"--config-dir={self._folder}"]
        self._record = process.spawn(command, self.log, {})
        self._wait(self._accepts, "does not accept its GatewayClass")

    def _accepts(self) -> bool:
        path = "jsonpath={.status.conditions[?(@.type=='Accepted')].status}"
        return self._plane.kubectl("get", "gatewayclass", CLASS, "-o", path) == "True"

    def _wait(self, reached: Callable[[], bool], failure: str) -> None:
        deadline = within(_SECONDS)
        while not reached():
            if self._record is None or not process.is_running(self._record):
                raise PlaneError(f"{_PROGRAM} died:\n{process.tail(self.log)}")
            if time.monotonic() > deadline:
                raise PlaneError(f"{_PROGRAM} {failure} within {_SECONDS:.0f} s:\n{process.tail(self.log)}")
            time.sleep(0.2)


def _objects() -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SECRETS}},
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": CLASS},
            "spec": {"controllerName": "io.cilium/gateway-controller"},
        },
    ]


def _options(kubeconfig: Path, folder: Path) -> dict[str, str]:
    """A file for each, as its chart's ConfigMap is mounted: some have no flag."""
    wanted = (
        "enable-k8s",
        "enable-gateway-api",
        "kube-proxy-replacement",
        "enable-envoy-config",
        "enable-ipv4",
    )
    unwanted = ("enable-ipv6", "enable-gops", "enable-lb-ipam", "enable-node-ipam", "enable-metrics")
    return {
        **dict.fromkeys(wanted, "true"),
        **dict.fromkeys(unwanted, "false"),
        "k8s-kubeconfig-path": str(kubeconfig),
        "gateway-api-secrets-namespace": _SECRETS,
        "cilium-pod-namespace": _SECRETS,
        "identity-allocation-mode": "crd",
        "ipam": "kubernetes",
        "operator-api-serve-addr": f"{HOST}:{free_port()}",
        "shell-sock-path": str(folder / "shell.sock"),
        # What it does to pods and nodes of a cluster without its agent.
        "unmanaged-pod-watcher-interval": "0",
        "nodes-gc-interval": "0",
    }
