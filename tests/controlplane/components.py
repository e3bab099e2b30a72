"""Which processes a plane consists of: their arguments, ports, files and the address that says "ready".

Pure: builds command lines from a layout, starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.controlplane.pki import MachinePki

HOST = "127.0.0.1"
PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kueue-webhook",
    "kueue-metrics",
    "kueue",
    "kueue-visibility",
    "kwok",
)
# Order of start; the reverse is the order of stop.
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kueue")

# Where the controller manager's host path provisioner makes volumes; compiled in.
VOLUMES = Path("/tmp/hostpath_pv")  # noqa: S108 the provisioner's choice, not ours

# The user and group behind each token. Only the admin, Kueue and kwok are outside RBAC.
IDENTITIES = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", "allotment:plane"),
    "kube-scheduler": ("system:kube-scheduler", "allotment:plane"),
    "kueue": ("kueue", "system:masters"),
    "kwok": ("kwok", "system:masters"),
}


@dataclass(frozen=True)
class Layout:
    """Every path and port of one plane, derived from its folder and one base port."""

    folder: Path
    base_port: int
    binaries: Binaries
    pki: MachinePki
    audit: bool = False
    service_account_admission: bool = False
    nodes_at: str = ""
    """The address at which real nodes reach the API server (tests/node); none without them."""

    def port(self, name: str) -> int:
        """Ports are the base and the nine after it."""
        return self.base_port + PORTS.index(name)

    def log(self, component: str) -> Path:
        """Standard output and error of a component, appended over restarts."""
        return self.folder / "logs" / f"{component}.log"

    def kubeconfig(self, identity: str) -> Path:
        """Kubeconfig of one of IDENTITIES; the admin's lies where a person looks for it."""
        if identity == "admin":
            return self.folder / "admin.kubeconfig"
        return self.folder / "identities" / f"{identity}.kubeconfig"

    @property
    def server(self) -> str:
        """Address of the API server."""
        return f"https://{HOST}:{self.port('kube-apiserver')}"

    def file(self, name: str) -> Path:
        """A configuration file that the launcher writes."""
        return self.folder / "config" / name


@dataclass(frozen=True)
class Component:
    """One process: what to run and which address answers 200 when it is ready."""

    arguments: list[str]
    ready: str
    environment: dict[str, str]


def component(layout: Layout, name: str) -> Component:
    """The process called `name`, one of COMPONENTS."""
    arguments, scheme, path, environment = _BUILDERS[name](layout)
    ready = f"{scheme}://{HOST}:{layout.port(name)}{path}"
    return Component([str(layout.binaries.path(name)), *arguments], ready, environment)


_Parts = tuple[list[str], str, str, dict[str, str]]


def _etcd(layout: Layout) -> _Parts:
    client, peer = (f"http://{HOST}:{layout.port(name)}" for name in ("etcd", "etcd-peer"))
    arguments = [
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # A test plane may lose its data in a power cut; it must not wait for the disk.
        "--unsafe-no-fsync",
    ]
    return arguments, "http", "/health", {}


def _apiserver(layout: Layout) -> _Parts:
    pki, key = layout.pki, layout.file("service-account.key")
    arguments = [
        f"--etcd-servers=http://{HOST}:{layout.port('etcd')}",
        f"--secure-port={layout.port('kube-apiserver')}",
        f"--bind-address={HOST}",
        f"--client-ca-file={pki.cert('ca')}",
        f"--token-auth-file={layout.file('tokens.csv')}",
        "--authorization-mode=Node,RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key.with_suffix('.pub')}",
        f"--service-account-signing-key-file={key}",
        "--enable-admission-plugins=NodeRestriction,PodSecurity",
        f"--proxy-client-cert-file={pki.cert('front-proxy')}",
        f"--proxy-client-key-file={pki.key('front-proxy')}",
        f"--requestheader-client-ca-file={pki.cert('ca')}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--runtime-config=resource.k8s.io/v1=true",
        "--allow-privileged",
        "--kubelet-preferred-address-types=InternalIP",
        *_serving(layout),
    ]
    if not layout.service_account_admission:
        arguments.append("--disable-admission-plugins=ServiceAccount")
    if layout.nodes_at:
        arguments += _to_nodes(layout)
    if layout.audit:
        arguments += [
            f"--audit-policy-file={layout.file('audit-policy.yaml')}",
            f"--audit-log-path={layout.log('audit')}",
        ]
    return arguments, "https", "/readyz", {}


def _to_nodes(layout: Layout) -> list[str]:
    """Real kubelets ask who calls them, and are called by TLS alone."""
    return [
        f"--advertise-address={layout.nodes_at}",
        f"--kubelet-client-certificate={layout.file('kubelet-client.crt')}",
        f"--kubelet-client-key={layout.file('kubelet-client.key')}",
        f"--kubelet-certificate-authority={layout.pki.cert('ca')}",
    ]


def _controller_manager(layout: Layout) -> _Parts:
    arguments = [
        *_kubeconfigs(layout, "kube-controller-manager"),
        f"--service-account-private-key-file={layout.file('service-account.key')}",
        f"--root-ca-file={layout.pki.cert('ca')}",
        "--use-service-account-credentials=true",
        f"--cluster-signing-cert-file={layout.pki.cert('ca')}",
        f"--cluster-signing-key-file={layout.pki.key('ca')}",
        # Dynamic volumes, so that a volume claim becomes Bound as it does on a cluster with storage.
        "--enable-hostpath-provisioner=true",
        # It makes some forty clients before its first controller runs: seconds at the default rate.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        # Paused planes and busy machines must not lose their nodes; a real node may lose its power.
        f"--node-monitor-grace-period={'20s' if layout.nodes_at else '1h'}",
    ]
    return arguments, "https", "/healthz", {}


def _scheduler(layout: Layout) -> _Parts:
    return _kubeconfigs(layout, "kube-scheduler"), "https", "/healthz", {}


def _kwok(layout: Layout) -> _Parts:
    address = f"{HOST}:{layout.port('kwok')}"
    arguments = [
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-ip={HOST}",
        f"--node-port={layout.port('kwok')}",
        f"--server-address={address}",
        *_serving(layout),
        "--node-lease-duration-seconds=40",
        f"--config={layout.file('stages.yaml')}",
        f"--config={layout.file('kubelet.yaml')}",
    ]
    return arguments, "https", "/healthz", {}


def _kueue(layout: Layout) -> _Parts:
    arguments = [f"--config={layout.file('kueue.yaml')}", f"--kubeconfig={layout.kubeconfig('kueue')}"]
    return arguments, "http", "/readyz", {"POD_NAMESPACE": "kueue-system"}


def _kubeconfigs(layout: Layout, name: str) -> list[str]:
    path = layout.kubeconfig(name)
    flags = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return [
        *(f"--{flag}={path}" for flag in flags),
        f"--bind-address={HOST}",
        f"--secure-port={layout.port(name)}",
        "--leader-elect=false",
        *_serving(layout),
    ]


def _serving(layout: Layout) -> list[str]:
    return [
        f"--tls-cert-file={layout.pki.cert('serving')}",
        f"--tls-private-key-file={layout.pki.key('serving')}",
    ]


_BUILDERS: dict[str, Callable[[Layout], _Parts]] = {
    "etcd": _etcd,
    "kube-apiserver": _apiserver,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
    "kwok": _kwok,
    "kueue": _kueue,
}


def exec_identity() -> dict[str, int]:
    """`kubectl exec` runs a local command: never as root."""
    return {"runAsUser": 65534, "runAsGroup": 65534} if os.getuid() == 0 else {}
