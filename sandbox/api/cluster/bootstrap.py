"""What exists in a cluster from its first second: namespaces, bootstrap roles, Kueue's and JobSet's
definitions.

Adds only what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.api.auth.users import SYSTEM
from sandbox.api.meta.objects import Obj, copy_of, name_of
from sandbox.api.registry.generic import Options
from sandbox.api.storage.store import Place
from sandbox.kinds.jobset import DEFINITION as JOBSET
from sandbox.kinds.table import load

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "kueue-system", "jobset-system")


STORAGE: Obj = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "allotment.dev/simulated",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def prepare(cluster: Cluster) -> None:
    """Create the built-in objects that are not there yet."""
    from sandbox.api.registry import crds

    for name in NAMESPACES:
        _ensure(cluster, "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for body in load("access"):
        _ensure(cluster, f"{body['kind'].lower()}s.rbac.authorization.k8s.io", body)
    for definition in (*load("definitions"), JOBSET):
        if cluster.store.get(crds.RESOURCE, Place("", name_of(definition))) is None:
            created = _ensure(cluster, crds.RESOURCE, definition)
            cluster.system.update(crds.RESOURCE, crds.establish(cluster, created), subresource="status")
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
    _ensure(cluster, "services", service)
    _ensure(cluster, "storageclasses.storage.k8s.io", STORAGE)
    if not cluster.store.compacted:
        # Nobody watched the cluster being made; a version from before is "too old", as on the real server.
        cluster.store.compact(cluster.store.version)


def _ensure(cluster: Cluster, resource: str, body: Obj) -> Obj:
    space = body["metadata"].get("namespace", "")
    found = cluster.store.get(resource, Place(space, name_of(body)))
    if found is not None:
        return found.obj
    kind = cluster.kinds.named(resource)
    return cluster.registry.create(
        kind, space, copy_of(body), Options(SYSTEM, "kube-apiserver", trusted=True)
    )
