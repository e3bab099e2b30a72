"""A tenant with a virtual cluster in this process: an API server as the host, another as the inside.

Flux and the chart do not run here: the key and what the release says are written by hand.
"""

import base64
from dataclasses import dataclass
from typing import Any

from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.specs import ClientKey
from apps.cluster.watching.services.capabilities import Capability
from apps.tenants.isolation import vcluster
from apps.tenants.lifecycle.services import isolation_choice, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.models import Tenant
from apps.tenants.specs import Isolation, Role, TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import NOW, join
from tests.tenants.in_process import InProcess

SECRET_WORDS = "PRIVATE KEY that nobody may see"
_FLUX = (
    ("HelmRelease", "helm.toolkit.fluxcd.io", "v2"),
    ("HelmRepository", "source.toolkit.fluxcd.io", "v1"),
)


def with_flux(cluster: Cluster) -> None:
    """The cluster says that Flux is there."""
    cluster.capabilities = [Capability(name="flux", available=True, version=None, message="", missing=[])]
    cluster.save()


@dataclass
class Virtual:
    """The tenant lab with the lead Leon and the member Rosa; `opened` lists the keys that were used."""

    tenant: Tenant
    host: InProcess
    inner: InProcess
    opened: list[ClientKey]

    def open(self, key: ClientKey) -> InProcess:
        """What stands for `open_keyed`."""
        self.opened.append(key)
        return self.inner

    def bring(self) -> Tenant:
        """One reconcile; answers the row."""
        reconcile_tenant(self.tenant.pk, gateway=self.host)
        return self.fresh()

    def fresh(self) -> Tenant:
        """The row as it is now."""
        return Tenant.objects.select_related("cluster", "department").get(pk=self.tenant.pk)

    def says(self, status: str, reason: str = "InstallSucceeded", message: str = "") -> None:
        """What Flux says of the release from now on."""
        row = MirrorObject.objects.get(kind="HelmRelease", namespace=self.tenant.object_name)
        ready = {"type": "Ready", "status": status, "reason": reason, "message": message}
        row.body["status"] = {"conditions": [ready], "observedGeneration": row.body["metadata"]["generation"]}
        row.save()

    def accounts(self, kind: str, namespace: str | None = None) -> list[str]:
        """The names of objects of ours inside."""
        found = self.inner.list(kind, label_selector=f"allotment.dev/uid={self.tenant.pk}")[0]
        return sorted(
            each["metadata"]["name"]
            for each in found
            if namespace is None or each["metadata"].get("namespace") == namespace
        )


def made(cast: Cast, host: InProcess, virtual: dict[str, Any] | None = None) -> Virtual:
    """The tenant, brought to its host; its control plane is not ready yet and has written no key."""
    with_flux(cast.vision.cluster)
    for kind, group, version in _FLUX:
        host.client.create(
            "customresourcedefinitions.apiextensions.k8s.io", _definition(kind, group, version)
        )
    petra = as_actor(cast.petra)
    tenant = tenancy.create_tenant(
        actor=petra, slug="lab", name="", department=cast.vision.department,
        trust_level=TrustLevel.STANDARD, now=NOW,
    )  # fmt: skip
    tenant = isolation_choice.fence(
        actor=petra, tenant=tenant, isolation=Isolation.VCLUSTER, virtual=virtual or {}, now=NOW
    )
    join(tenant, cast.leon, Role.LEAD)
    join(tenant, cast.rosa)
    made = Virtual(tenant, host, InProcess(), [])
    made.bring()
    return made


def write_key(virtual: Virtual) -> None:
    """What the control plane does once it is up."""
    parts = {"certificate-authority": "authority", "client-certificate": "c", "client-key": SECRET_WORDS}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in parts.items()}
    metadata = {"name": vcluster.KEY_SECRET, "namespace": virtual.tenant.object_name}
    virtual.host.client.create(
        "secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    )


def _definition(kind: str, group: str, version: str) -> dict[str, Any]:
    plural = {"HelmRelease": "helmreleases", "HelmRepository": "helmrepositories"}[kind]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }
