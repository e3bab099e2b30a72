"""The resource claim controller: claims from templates, reservations of ended pods, deallocation, clean-up.

Allocating is the scheduler's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.dra import extended
from sandbox.controllers.dra.binding import CLAIMS, PROTECTION, claim_names

TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
_POD, _CLAIM = "pod:", "claim:"


class ClaimController:
    """Makes and releases the claims of pods."""

    name = "resourceclaim"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Pods with claims, and claims."""
        return {pods.PODS: _from_pod, CLAIMS: _from_claim, TEMPLATES: self._from_template}

    def _from_template(self, change: Change) -> Iterable[Key]:
        namespace = change.obj["metadata"]["namespace"]
        for pod in self._client.list(pods.PODS, namespace):
            if any(not name for name in claim_names(pod).values()):
                yield Key(namespace, _POD + pod["metadata"]["name"])

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """One pod's missing claims, or one claim's reservations."""
        del now
        if key.name.startswith(_POD):
            self._pod(key.namespace, key.name.removeprefix(_POD))
        else:
            self._claim(key.namespace, key.name.removeprefix(_CLAIM))
        return None

    def _pod(self, namespace: str, name: str) -> None:
        pod = self._client.get(pods.PODS, name, namespace)
        if pod is None or not pods.is_active(pod):
            return
        known = {s["name"]: s for s in dig(pod, "status", "resourceClaimStatuses", default=[])}
        for item in pod["spec"].get("resourceClaims") or ():
            template = item.get("resourceClaimTemplateName")
            if template and item["name"] not in known:
                made = self._from_template_name(pod, item["name"], template)
                if made:
                    known[item["name"]] = {"name": item["name"], "resourceClaimName": made}
        statuses = [known[n] for n in sorted(known)]
        if statuses != dig(pod, "status", "resourceClaimStatuses", default=[]):
            patch = {"status": {"resourceClaimStatuses": statuses}}
            self._client.patch(pods.PODS, name, patch, namespace=namespace, subresource="status")

    def _from_template_name(self, pod: Obj, short: str, template_name: str) -> str:
        meta = pod["metadata"]
        template = self._client.get(TEMPLATES, template_name, meta["namespace"])
        if template is None:
            message = f'PodResourceClaim {short}: resource claim template "{template_name}": not found'
            self._client.event(
                pod, "FailedResourceClaimCreation", message, type="Warning", component="resource_claim"
            )
            return ""
        extra = dig(template, "spec", "metadata", default={})
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{meta['name']}-{short}-",
                "namespace": meta["namespace"],
                "labels": dict(extra.get("labels") or {}),
                "annotations": {
                    **(extra.get("annotations") or {}),
                    "resource.kubernetes.io/pod-claim-name": short,
                },
                "ownerReferences": [extended.pod_owner(pod)],
            },
            "spec": copy_of(template["spec"]["spec"]),
        }
        try:
            return str(self._client.create(CLAIMS, claim, meta["namespace"])["metadata"]["name"])
        except ApiError as error:
            # A quota breach is the tenant's to see: the pod stays pending with this event, as in Kubernetes.
            message = f"PodResourceClaim {short}: failed to create ResourceClaim: {error.message}"
            self._client.event(
                pod, "FailedResourceClaimCreation", message, type="Warning", component="resource_claim"
            )
            return ""

    def _claim(self, namespace: str, name: str) -> None:
        claim = self._client.get(CLAIMS, name, namespace)
        if claim is None:
            return
        users = [r for r in dig(claim, "status", "reservedFor", default=[]) if self._consumes(namespace, r)]
        owner = self._owner(claim)
        is_orphan = owner is not None and not self._lives(namespace, owner)
        is_deleting = bool(claim["metadata"].get("deletionTimestamp"))
        claim = self._with_users(claim, users, is_ending=is_orphan or is_deleting)
        self._unprotect(claim)
        if is_orphan and not users and not is_deleting:
            self._client.delete(CLAIMS, name, namespace, uid=claim["metadata"]["uid"])

    def _with_users(self, claim: Obj, users: list[Obj], *, is_ending: bool) -> Obj:
        """The claim reserved for these alone. Where nobody is left who uses it, its devices are free again,
        whoever made it.
        """
        reserved = dig(claim, "status", "reservedFor", default=[])
        is_left = is_ending and not users and dig(claim, "status", "allocation")
        if len(users) == len(reserved) and not is_left:
            return claim
        status = copy_of(claim["status"])
        status["reservedFor"] = users
        if not users:
            status.pop("reservedFor")
            status.pop("allocation", None)
        return self._client.update(CLAIMS, {**claim, "status": status}, subresource="status")

    def _unprotect(self, claim: Obj) -> None:
        """Take our finalizer off a claim that has no devices."""
        meta = claim["metadata"]
        finalizers = meta.get("finalizers") or ()
        if PROTECTION in finalizers and not dig(claim, "status", "allocation"):
            left = [f for f in finalizers if f != PROTECTION]
            patch = {"metadata": {"finalizers": left or None}}
            self._client.patch(CLAIMS, meta["name"], patch, namespace=meta["namespace"])

    def _owner(self, claim: Obj) -> Obj | None:
        owners = claim["metadata"].get("ownerReferences") or ()
        return next((o for o in owners if o["kind"] == "Pod" and o.get("controller")), None)

    def _consumes(self, namespace: str, consumer: Obj) -> bool:
        return consumer.get("resource") != "pods" or self._lives(namespace, consumer)

    def _lives(self, namespace: str, reference: Obj) -> bool:
        pod = self._client.get(pods.PODS, reference["name"], namespace)
        return pod is not None and pod["metadata"]["uid"] == reference["uid"] and not pods.is_terminal(pod)


def _from_claim(change: Change) -> Iterable[Key]:
    meta = change.obj["metadata"]
    return () if change.type == "DELETED" else (Key(meta["namespace"], _CLAIM + meta["name"]),)


def _from_pod(change: Change) -> Iterable[Key]:
    pod, meta = change.obj, change.obj["metadata"]
    if pod["spec"].get("resourceClaims") and change.type != "DELETED":
        yield Key(meta["namespace"], _POD + meta["name"])
    if change.type == "DELETED" or pods.is_terminal(pod):
        special = dig(pod, "status", "extendedResourceClaimStatus", "resourceClaimName", default="")
        for name in filter(None, (special, *claim_names(pod).values())):
            yield Key(meta["namespace"], _CLAIM + name)
