"""The Secret with which a tenant's images are pulled. Pure.

Format: kubernetes.io/dockerconfigjson, as `kubectl create secret docker-registry` makes it. A kubelet knows
Docker Hub by an address of its own (k8s.io/kubernetes pkg/credentialprovider).
"""

import base64
import json
from collections.abc import Iterable

from apps.cluster.objects import names
from apps.cluster.specs import Manifest
from apps.tenants.specs import REGISTRIES, RegistryLogin, TenantSpec

SECRET_TYPE, KEY = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_HUB_ADDRESS = "https://index.docker.io/v1/"


def render(spec: TenantSpec, logins: Iterable[RegistryLogin]) -> list[Manifest]:
    """One Secret of all registries; nothing where there is none."""
    auths = {_address(login.registry): _login(login) for login in logins}
    if not auths:
        return []
    metadata = {
        "name": REGISTRIES,
        "namespace": spec.object_name,
        "labels": names.owner_labels(owner="tenant", uid=spec.id, tenant=spec.slug),
        "annotations": {names.ANNOTATION_GENERATION: str(spec.generation)},
    }
    document = json.dumps({"auths": auths}, sort_keys=True)
    data = {KEY: base64.b64encode(document.encode()).decode()}
    return [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": SECRET_TYPE, "data": data}]


def _address(registry: str) -> str:
    return _HUB_ADDRESS if registry in _DOCKER_HUB else registry


def _login(login: RegistryLogin) -> dict[str, str]:
    both = f"{login.username}:{login.password}"
    return {
        "username": login.username,
        "password": login.password,
        "auth": base64.b64encode(both.encode()).decode(),
    }
