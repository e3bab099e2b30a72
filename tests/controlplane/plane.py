"""One control plane: brings it up, takes it down, stops and starts single components for outage tests.

Applies what any cluster has before the product comes, and what the chart brings: the product's own account
with its ClusterRole, and the admission policies. Applies nothing else of the product.
"""

from __future__ import annotations

import enum
import logging
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane import binaries, components, documents, fleet, network, pki, process, state
from tests.patience import within

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "k8s" / "allotment" / "templates"
logger = logging.getLogger(__name__)

_WITH_APISERVER = ("kube-controller-manager", "kube-scheduler", "kwok")
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL = 0.1
_TOKEN_LIFETIME = "8760h"


def cluster_lines() -> list[list[str]]:
    """What the README has people run on their cluster: the arguments of each kubectl line of its code blocks.

    Every plane is set up by these, so that a newcomer's cluster is what the tests run on.
    """
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("kubectl ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


class PlaneError(RuntimeError):
    """A plane could not do what was asked; the message says which component and shows its last log lines."""


class Outage(enum.Enum):
    """How a component is taken away: PAUSE keeps its connections open and silent, as a hung host would."""

    TERMINATE = "terminate"
    KILL = "kill"
    PAUSE = "pause"


class ControlPlane:
    """A real control plane in one folder; a context manager. Attaches to the one that runs there."""

    def __init__(
        self,
        folder: Path,
        *,
        base_port: int = 0,
        fleet_name: str = "story",
        audit: bool = False,
        service_account_admission: bool = False,
        nodes_at: str = "",
    ) -> None:
        self.folder = folder.resolve()
        found = state.load(self.folder)
        self._started = found is not None
        self._state = found or state.State(
            base_port, fleet_name, audit, service_account_admission or bool(nodes_at), nodes_at
        )

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def kubeconfig(self) -> Path:
        """The product's: a token of its service account, bound to the chart's ClusterRole, no more."""
        return self.folder / "kubeconfig"

    @property
    def admin_kubeconfig(self) -> Path:
        """For setting up and looking: it passes every check, so the product never gets it."""
        return self.folder / "admin.kubeconfig"

    @property
    def kubectl_path(self) -> Path:
        """The kubectl that was built with this plane."""
        return self.layout.binaries.path("kubectl")

    @property
    def layout(self) -> components.Layout:
        """Paths and ports of this plane; its programs stay those it was started with."""
        if not self._state.binaries:
            self._state.binaries = str(binaries.ensure().folder)
        return components.Layout(
            self.folder,
            self._state.base_port,
            binaries.Binaries(Path(self._state.binaries)),
            pki.machine_pki(),
            audit=self._state.audit,
            service_account_admission=self._state.service_account_admission,
            nodes_at=self._state.nodes_at,
        )

    def up(self) -> None:
        """Starts everything and returns when pods can be admitted and run; on failure stops all."""
        if self._started:
            raise PlaneError(f"a plane was already started in {self.folder}; take it down first")
        try:
            self._prepare()
            self._start_all()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Stops every process, last of COMPONENTS first, and waits until each is gone; logs stay."""
        self._remove_volumes()
        for name in reversed(components.COMPONENTS):
            record = self._state.processes.pop(name, None)
            if record:
                process.stop(record, _STOP_SECONDS)
        state.forget(self.folder)
        self._started = False

    def status(self) -> dict[str, str]:
        """Each component that was started and not stopped on purpose: `running`, `paused` or `dead`."""
        return {name: _condition(record) for name, record in self._state.processes.items()}

    def log_tail(self, name: str) -> str:
        """The last lines that a component wrote."""
        return process.tail(self.layout.log(name))

    def kubectl(self, *arguments: str, input: str | None = None, as_admin: bool = True) -> str:  # noqa: A002 subprocess's own word
        """Runs kubectl with a time limit and returns its output; a failure raises with what it said."""
        config = self.admin_kubeconfig if as_admin else self.kubeconfig
        command = [
            str(self.kubectl_path),
            f"--kubeconfig={config}",
            # The user's own cache is keyed by port and would remember the kinds of an earlier plane.
            f"--cache-dir={self.folder / 'kubectl-cache'}",
            "--request-timeout=60s",
            *arguments,
        ]
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT
        )
        if done.returncode:
            raise PlaneError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def stop_component(self, name: str, outage: Outage = Outage.TERMINATE) -> None:
        """Takes one component away; returns when it is gone or, for PAUSE, stands still."""
        record = self._state.processes[name]
        if outage is Outage.PAUSE:
            process.send(record, signal.SIGSTOP)
            self._wait(lambda: process.is_paused(record), name, "did not pause")
            return
        # An API server with open watches would take a minute to go: it gets the grace of any service.
        process.stop(record, _STOP_SECONDS if outage is Outage.TERMINATE else 0)
        del self._state.processes[name]
        state.save(self.folder, self._state)

    def start_component(self, name: str) -> None:
        """Resumes a paused component or starts a stopped one again; returns when it answers ready."""
        record = self._state.processes.get(name)
        if record and process.is_paused(record):
            process.send(record, signal.SIGCONT)
        elif record is None or not process.is_running(record):
            self._spawn(name)
        self._wait_ready(name)

    def _prepare(self) -> None:
        self._state.base_port = network.checked_base(self._state.base_port)
        for leftover in ("etcd", "config", "identities", "kubectl-cache"):
            shutil.rmtree(self.folder / leftover, ignore_errors=True)
        for made in ("config", "identities", "logs"):
            (self.folder / made).mkdir(parents=True, exist_ok=True)
        layout = self.layout
        pki.publish_for_kueue(layout.pki)
        pki.write_service_account_key(layout.file("service-account.key"))
        tokens = pki.write_tokens(layout.file("tokens.csv"), components.IDENTITIES)
        for identity, token in tokens.items():
            pki.write_kubeconfig(layout.kubeconfig(identity), layout.server, token, layout.pki.cert("ca"))
        certificate, key = pki.client(layout.pki, "kube-apiserver", "system:masters")
        pki.write_private(layout.file("kubelet-client.crt"), certificate)
        pki.write_private(layout.file("kubelet-client.key"), key)
        for name, content in documents.configuration_files(layout, datetime.now(UTC)).items():
            layout.file(name).write_text(content)
        self._started = True

    def _start_all(self) -> None:
        for name in ("etcd", "kube-apiserver"):
            self._spawn(name)
            self._wait_ready(name)
        for name in _WITH_APISERVER:
            self._spawn(name)
        self._apply_objects()
        for name in _WITH_APISERVER:
            self._wait_ready(name)
        self._start_kueue()
        self._write_product_kubeconfig()
        if fleet.FLEETS[self._state.fleet]:
            self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
        # The controller manager answers healthy before its controllers run; one of them makes this account.
        self.kubectl("wait", "--for=create", "serviceaccount/default", "-nkueue-system", "--timeout=120s")

    def _apply_objects(self) -> None:
        nodes = fleet.FLEETS[self._state.fleet]
        gateway_api = binaries.ensure(binaries.GATEWAY_SCHEMAS)
        for schemas in (self.layout.binaries.asset("kueue-crds"), gateway_api.asset("crds")):
            self.kubectl("apply", "--server-side", "-f", str(schemas))
        self.apply([*documents.base_objects(real_nodes=bool(self._state.nodes_at)), *fleet.nodes(nodes)])
        path = "{range .items[*]}{.metadata.name}={.metadata.uid} {end}"
        pairs = self.kubectl("get", "nodes", "-o", f"jsonpath={path}").split()
        self.apply(fleet.resource_slices(nodes, dict(pair.split("=", 1) for pair in pairs)))

    def _start_kueue(self) -> None:
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        # Kueue reads the discovery document once and exits when its kinds are not in it yet.
        self._wait(self._lists_kueue_kinds, "kube-apiserver", "does not list Kueue's kinds")
        for line in cluster_lines():
            self.kubectl(*line)
        self._spawn("kueue")
        self._wait_ready("kueue")
        self.apply(documents.kueue_webhooks(self.layout))
        self.apply(documents.visibility_route(self.layout))
        name = "v1beta2.visibility.kueue.x-k8s.io"
        self.kubectl("wait", "--for=condition=Available", f"apiservice/{name}", "--timeout=120s")

    def _lists_kueue_kinds(self) -> bool:
        return "workloads" in self.kubectl("api-resources", "--api-group=kueue.x-k8s.io", "-o", "name")

    def _write_product_kubeconfig(self) -> None:
        account = ("allotment-controller", "allotment-system")
        authority = self.layout.pki.cert("ca")
        pki.write_kubeconfig(self.kubeconfig, self.layout.server, self.token_of(*account), authority)

    def token_of(self, account: str, namespace: str) -> str:
        """A token of a service account, for as long as any plane lives."""
        names = (account, f"--namespace={namespace}", f"--duration={_TOKEN_LIFETIME}")
        return self.kubectl("create", "token", *names).strip()

    def apply(self, objects: list[documents.Document]) -> None:
        """Applies objects as the administrator; none is fine."""
        if not objects:
            return
        self.kubectl("apply", "--server-side", "-f", "-", input=documents.dump(objects))

    def _remove_volumes(self) -> None:
        """The controller manager makes one empty folder per volume and removes it only with the volume."""
        if self.status().get("kube-apiserver") != "running":
            return
        try:
            paths = self.kubectl("get", "pv", "-o", "jsonpath={.items[*].spec.hostPath.path}").split()
        except PlaneError as error:
            # An API server in trouble must not keep the plane up: an empty folder stays behind.
            logger.warning("volume folders not removed: %s", error)
            return
        for path in map(Path, paths):
            if path.parent == components.VOLUMES and path.is_dir():
                path.rmdir()

    def _spawn(self, name: str) -> None:
        built = components.component(self.layout, name)
        log = self.layout.log(name)
        self._state.processes[name] = process.spawn(built.arguments, log, built.environment)
        state.save(self.folder, self._state)

    def _wait_ready(self, name: str) -> None:
        layout = self.layout
        address = components.component(layout, name).ready
        self._wait(lambda: network.answers(address, layout.pki.cert("ca")), name, "did not become ready")

    def _wait(self, reached: Callable[[], bool], name: str, failure: str) -> None:
        deadline = within(_START_SECONDS)
        while not reached():
            for each, condition in self.status().items():
                if condition == "dead":
                    raise PlaneError(f"{each} died:\n{self.log_tail(each)}")
            if time.monotonic() > deadline:
                raise PlaneError(f"{name} {failure} within {_START_SECONDS:.0f} s:\n{self.log_tail(name)}")
            time.sleep(_POLL)


def _condition(record: process.Record) -> str:
    if not process.is_running(record):
        return "dead"
    return "paused" if process.is_paused(record) else "running"
