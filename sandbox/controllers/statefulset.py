"""StatefulSets: pods by ordinal, their volume claims, ordered start and stop, rolling update.

Does not know Kueue: gated pods are simply not ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.conditions import write_status

STATEFULSETS = "statefulsets.apps"
REVISION_LABEL = "controller-revision-hash"
ORDINAL_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController:
    """Keeps the pods of each StatefulSet as its spec says, one at a time unless the policy is Parallel."""

    name = "statefulset"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Own objects and the pods they control."""
        return {STATEFULSETS: own_key, pods.PODS: owner_key("StatefulSet")}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """One step towards the spec, then the status."""
        stateful = self._client.get(STATEFULSETS, key.name, key.namespace)
        if stateful is None or stateful["metadata"].get("deletionTimestamp"):
            return None
        revision = f"{key.name}-{pods.template_hash(stateful['spec']['template'])}"
        owned = self._owned(stateful)
        self._step(stateful, owned, revision)
        current = self._owned(stateful)
        self._status(stateful, list(current.values()), revision, now)
        return None

    def _owned(self, stateful: Obj) -> dict[int, Obj]:
        found = {}
        namespace, uid = stateful["metadata"]["namespace"], stateful["metadata"]["uid"]
        for pod in self._client.list(pods.PODS, namespace, owner_uid=uid):
            ordinal = pod["metadata"]["name"].rpartition("-")[2]
            if ordinal.isdigit():
                found[int(ordinal)] = pod
        return dict(sorted(found.items()))

    def _step(self, stateful: Obj, owned: dict[int, Obj], revision: str) -> None:
        replicas = int(dig(stateful, "spec", "replicas", default=1))
        parallel = dig(stateful, "spec", "podManagementPolicy") == "Parallel"
        for ordinal in range(replicas):
            pod = owned.get(ordinal)
            if pod is None:
                self._create(stateful, ordinal, revision)
            elif pods.is_terminal(pod) and not pods.is_deleting(pod):
                # A pod of a StatefulSet never ends for good: the real controller deletes and remakes it.
                self._delete(stateful, pod)
            if not parallel and (pod is None or not pods.is_ready(pod) or pods.is_deleting(pod)):
                return
        surplus = [pod for ordinal, pod in reversed(owned.items()) if ordinal >= replicas]
        for pod in surplus if parallel else surplus[:1]:
            if not pods.is_deleting(pod):
                self._delete(stateful, pod)
        if not surplus:
            self._roll(stateful, owned, revision)

    def _roll(self, stateful: Obj, owned: dict[int, Obj], revision: str) -> None:
        if dig(stateful, "spec", "updateStrategy", "type", default="RollingUpdate") != "RollingUpdate":
            return
        partition = int(dig(stateful, "spec", "updateStrategy", "rollingUpdate", "partition", default=0))
        for ordinal, pod in reversed(owned.items()):
            if ordinal < partition or pods.is_deleting(pod):
                return
            if pod["metadata"]["labels"].get(REVISION_LABEL) != revision:
                self._delete(stateful, pod)
                return
            if not pods.is_ready(pod):
                return

    def _create(self, stateful: Obj, ordinal: int, revision: str) -> None:
        name = stateful["metadata"]["name"]
        pod = pods.pod_from_template(stateful["spec"]["template"], stateful)
        pod["metadata"].update(name=f"{name}-{ordinal}", generateName=f"{name}-")
        pod["metadata"]["labels"].update(
            {
                REVISION_LABEL: revision,
                "statefulset.kubernetes.io/pod-name": f"{name}-{ordinal}",
                ORDINAL_LABEL: str(ordinal),
            }
        )
        pod["spec"].update(
            hostname=f"{name}-{ordinal}", subdomain=dig(stateful, "spec", "serviceName", default="")
        )
        self._volumes(stateful, pod, ordinal)
        try:
            self._client.create(pods.PODS, pod, stateful["metadata"]["namespace"])
        except ApiError as error:
            # Quota and policy refusals are the owner's to see; the manager tries again.
            message = f"create Pod {name}-{ordinal} in StatefulSet {name} failed error: {error.message}"
            self._client.event(
                stateful, "FailedCreate", message, type="Warning", component="statefulset-controller"
            )
            raise
        message = f"Create Pod {name}-{ordinal} in StatefulSet {name} successful"
        self._client.event(stateful, "SuccessfulCreate", message, component="statefulset-controller")

    def _volumes(self, stateful: Obj, pod: Obj, ordinal: int) -> None:
        templates = dig(stateful, "spec", "volumeClaimTemplates", default=[])
        volumes = {v["name"]: v for v in pod["spec"].get("volumes") or ()}
        for template in templates:
            claim = copy_of(template)
            short = claim["metadata"]["name"]
            name = f"{short}-{stateful['metadata']['name']}-{ordinal}"
            volumes[short] = {"name": short, "persistentVolumeClaim": {"claimName": name}}
            if self._client.get("persistentvolumeclaims", name, stateful["metadata"]["namespace"]) is None:
                labels = {**dig(stateful, "spec", "selector", "matchLabels", default={})}
                claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
                claim.pop("status", None)
                claim["metadata"].update(
                    name=name, labels={**labels, **(claim["metadata"].get("labels") or {})}
                )
                self._client.create("persistentvolumeclaims", claim, stateful["metadata"]["namespace"])
        if templates:
            pod["spec"]["volumes"] = list(volumes.values())

    def _delete(self, stateful: Obj, pod: Obj) -> None:
        meta = pod["metadata"]
        self._client.delete(pods.PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        message = f"Delete Pod {meta['name']} in StatefulSet {stateful['metadata']['name']} successful"
        self._client.event(stateful, "SuccessfulDelete", message, component="statefulset-controller")

    def _status(self, stateful: Obj, owned: list[Obj], revision: str, now: datetime) -> None:
        known = stateful.get("status") or {}
        counts = pods.replica_counts(owned, int(dig(stateful, "spec", "minReadySeconds", default=0)), now)
        updated = sum(p["metadata"]["labels"].get(REVISION_LABEL) == revision for p in owned)
        current = known.get("currentRevision") or revision
        if updated == len(owned) == int(dig(stateful, "spec", "replicas", default=1)):
            current = revision
        status = {
            "observedGeneration": stateful["metadata"].get("generation", 1),
            **counts,
            "updatedReplicas": updated,
            "currentReplicas": sum(p["metadata"]["labels"].get(REVISION_LABEL) == current for p in owned),
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        # The real controller leaves out counts of nothing, except the two it always writes.
        kept = {
            k: v for k, v in status.items() if v or k in ("replicas", "availableReplicas", "collisionCount")
        }
        write_status(self._client, STATEFULSETS, stateful, kept)
