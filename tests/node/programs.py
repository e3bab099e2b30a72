"""What a node runs: built from pinned Go modules like the control plane's programs, and cached beside them.

`runc`, the CNI plugins, `socat` and `nft` are Debian's: PACKAGES.
"""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.binaries import KUBERNETES, Build, Tool

MODULES = Path(__file__).parent / "tools"
CONTAINERD_MODULE = MODULES / "containerd"
DNS_MODULE = MODULES / "coredns"
CONTAINERD = "github.com/containerd/containerd/v2"
PACKAGES = ("runc", "containernetworking-plugins", "socat", "nftables", "iproute2")
_WITHOUT = "no_btrfs no_devmapper no_zfs"

NODE = Build(
    (MODULES, CONTAINERD_MODULE),
    (
        Tool("kubelet", f"{KUBERNETES}/cmd/kubelet", MODULES),
        Tool("kube-proxy", f"{KUBERNETES}/cmd/kube-proxy", MODULES),
        Tool("gpu-driver", "./driver", MODULES),
        Tool("pause", "./pause", MODULES),
        Tool("containerd", f"{CONTAINERD}/cmd/containerd", CONTAINERD_MODULE, _WITHOUT),
        Tool(
            "containerd-shim-runc-v2",
            f"{CONTAINERD}/cmd/containerd-shim-runc-v2",
            CONTAINERD_MODULE,
            _WITHOUT,
        ),
    ),
    (),
)

# One long suite needs it, so no cluster waits for it: see names.py.
DNS = Build((DNS_MODULE,), (Tool("coredns", "./serve", DNS_MODULE),), ())
