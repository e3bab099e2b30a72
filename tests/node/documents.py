"""Configuration of a node's processes, and what the cluster is told about nodes. Pure.

The machine of the tests may be a container itself: cgroup v1, no right to lower an OOM score, no AppArmor.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.documents import Document
from tests.node.images import recipes
from tests.node.network import Network
from tests.node.registry import PORT

NAMESPACE = "kube-system"
PROXY, DRIVER = "kube-proxy", "gpu-driver"
"""Service accounts of the processes on a node that are not the kubelet."""
DNS, DNS_ADDRESS, DOMAIN = "kube-dns", "10.96.0.10", "cluster.local"
"""The Service that pods ask for names. It refuses at once until `names.Names` answers for it."""
VOLUMES_PER_NODE = 24
_VOLUME_BYTES = "100Gi"


@dataclass(frozen=True)
class Place:
    """Where a node's files are and what it is called."""

    name: str
    number: int
    folder: Path
    network: Network
    authority: Path
    containerd_root: Path

    @property
    def address(self) -> str:
        """The node's address on the bridge."""
        return self.network.node(self.number)

    @property
    def cgroup(self) -> str:
        """Under this name in every hierarchy of the machine, so unique on it."""
        return f"allotment-{self.network.namespace(self.number)}"

    def file(self, name: str) -> Path:
        """A file of this node."""
        return self.folder / name


def kubelet(place: Place) -> Document:
    """The kubelet's configuration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(place.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(place.file("serving.crt")),
        "tlsPrivateKeyFile": str(place.file("serving.key")),
        "containerRuntimeEndpoint": f"unix://{place.file('containerd.sock')}",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}",
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "volumePluginDir": str(place.file("volume-plugins")),
        "resolvConf": str(place.file("resolv.conf")),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": DOMAIN,
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "5s",
        "nodeLeaseDurationSeconds": 20,
        "maxPods": 60,
    }


def proxy(place: Place) -> Document:
    """The configuration of kube-proxy."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": place.network.pods,
        "hostnameOverride": place.name,
        "clientConnection": {"kubeconfig": str(place.file("proxy.kubeconfig"))},
        "conntrack": {"maxPerCore": 0},
        "oomScoreAdj": 0,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }


def containerd(place: Place) -> str:
    """The container runtime's configuration (TOML)."""
    unused = ("nri.v1.nri", "snapshotter.v1.blockfile", "snapshotter.v1.devmapper", "snapshotter.v1.erofs")
    disabled = [f"io.containerd.{name}" for name in (*unused, "tracing.processor.v1.otlp")]
    return f"""version = 3
root = '{place.containerd_root}'
state = '{place.file("containerd-state")}'
disabled_plugins = {json.dumps(disabled)}
[grpc]
  address = '{place.file("containerd.sock")}'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = '{place.file("registries")}'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{recipes.reference(recipes.PAUSE)}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_cdi = true
  cdi_spec_dirs = ['{place.file("cdi")}']
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/usr/lib/cni']
    conf_dir = '{place.file("cni")}'
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def registries(network: Network) -> str:
    """Every registry is ours: the nodes reach no other, so that any image's name can be served."""
    return f'[host."http://{network.registry}:{PORT}"]\n  capabilities = ["pull", "resolve"]\n'


def cni(place: Place) -> Document:
    """The pods' network: a bridge on the node."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": place.network.pods_of(place.number)}]]}
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}


def accounts() -> list[Document]:
    """The accounts of kube-proxy and the GPU driver: neither has more than its process needs."""
    driver = [
        _rule("", ["nodes"], ["get"]),
        _rule("resource.k8s.io", ["resourceclaims"], ["get"]),
        _rule(
            "resource.k8s.io",
            ["resourceslices"],
            ["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
    ]
    role: Document = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": DRIVER},
        "rules": driver,
    }
    bindings = [_account(PROXY, "system:node-proxier"), _account(DRIVER, DRIVER)]
    return [role, *(each for pair in bindings for each in pair)]


def dns() -> list[Document]:
    """The Service of the cluster's DNS, and the account of whoever answers for it."""
    ports = [{"name": protocol.lower(), "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    watched = ["list", "watch"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": DNS, "namespace": NAMESPACE},
            "spec": {"clusterIP": DNS_ADDRESS, "ports": ports},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": DNS},
            "rules": [
                _rule("", ["services", "namespaces"], watched),
                _rule("discovery.k8s.io", ["endpointslices"], watched),
            ],
        },
        *_account(DNS, DNS),
    ]


def dns_endpoints(address: str, port: int) -> Document:
    """Where the Service of the cluster's DNS leads."""
    ports = [{"name": protocol.lower(), "port": port, "protocol": protocol} for protocol in ("UDP", "TCP")]
    labels = {"kubernetes.io/service-name": DNS}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": DNS, "namespace": NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }


def volumes(node: str, folder: Path) -> list[Document]:
    """Volumes of a node: nothing provisions here. They honour a pod's group, as network storage does."""
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{node}-{number}"},
            "spec": {
                "capacity": {"storage": _VOLUME_BYTES},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "standard",
                "local": {"path": str(folder / str(number))},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            },
        }
        for number in range(VOLUMES_PER_NODE)
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _account(name: str, role: str) -> tuple[Document, Document]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"allotment-test-{name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    )
