"""PersistentVolumeClaims: every claim is bound at once to a volume of the size it asks for.

There is no storage behind a claim; its status is what a dynamic provisioner leaves. Protection of claims
in use
is the API server's part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key
from sandbox.api.meta.objects import dig
from sandbox.api.storage.store import Change

CLAIMS = "persistentvolumeclaims"


class VolumeController:
    """Binds claims."""

    name = "volumes"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Claims."""
        return {CLAIMS: own_key}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Bind a pending claim."""
        del now
        claim = self._client.get(CLAIMS, key.name, key.namespace)
        if (
            claim is None
            or claim["metadata"].get("deletionTimestamp")
            or dig(claim, "status", "phase") == "Bound"
        ):
            return None
        volume = f"pvc-{claim['metadata']['uid']}"
        annotations = {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }
        patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
        self._client.patch(CLAIMS, key.name, patch, namespace=key.namespace)
        status = {
            "phase": "Bound",
            "accessModes": claim["spec"].get("accessModes", ["ReadWriteOnce"]),
            "capacity": {"storage": dig(claim, "spec", "resources", "requests", "storage", default="0")},
        }
        self._client.patch(
            CLAIMS, key.name, {"status": status}, namespace=key.namespace, subresource="status"
        )
        message = f"Successfully provisioned volume {volume}"
        self._client.event(
            claim, "ProvisioningSucceeded", message, component="sandbox.allotment.dev/provisioner"
        )
        return None
