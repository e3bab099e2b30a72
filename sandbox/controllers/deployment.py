"""Deployments and ReplicaSets: one ReplicaSet per template, rolled by maxSurge and maxUnavailable.

Two controllers, as in Kubernetes: the Deployment scales ReplicaSets, the ReplicaSet makes pods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.errors import ApiError
from sandbox.api.meta.objects import Obj, copy_of, dig, timestamp
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.conditions import controller_reference, find, write_status

DEPLOYMENTS = "deployments.apps"
REPLICASETS = "replicasets.apps"
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


class ReplicaSetController:
    """Keeps `replicas` active pods of one template."""

    name = "replicaset"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Own objects and the pods they control."""
        return {REPLICASETS: own_key, pods.PODS: owner_key("ReplicaSet")}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Create what is missing, delete what is too much, then the status."""
        replica_set = self._client.get(REPLICASETS, key.name, key.namespace)
        if replica_set is None or replica_set["metadata"].get("deletionTimestamp"):
            return None
        self._scale(replica_set, self._active(replica_set))
        active = self._active(replica_set)
        counts = pods.replica_counts(active, int(dig(replica_set, "spec", "minReadySeconds", default=0)), now)
        status = {
            **{name: count for name, count in counts.items() if count or name == "replicas"},
            "observedGeneration": replica_set["metadata"].get("generation", 1),
            "terminatingReplicas": 0,
        }
        if active:
            status["fullyLabeledReplicas"] = len(active)
        write_status(self._client, REPLICASETS, replica_set, status)
        return None

    def _active(self, replica_set: Obj) -> list[Obj]:
        namespace, uid = replica_set["metadata"]["namespace"], replica_set["metadata"]["uid"]
        found = [p for p in self._client.list(pods.PODS, namespace, owner_uid=uid) if pods.is_active(p)]
        return sorted(
            found, key=lambda p: (pods.is_ready(p), bool(p["spec"].get("nodeName")), p["metadata"]["name"])
        )

    def _scale(self, replica_set: Obj, active: list[Obj]) -> None:
        meta = replica_set["metadata"]
        wanted = int(dig(replica_set, "spec", "replicas", default=1))
        for _ in range(wanted - len(active)):
            pod = pods.pod_from_template(replica_set["spec"]["template"], replica_set)
            pod["metadata"]["generateName"] = f"{meta['name']}-"
            try:
                made = self._client.create(pods.PODS, pod, meta["namespace"])
            except ApiError as error:
                # Quota and policy refusals are the owner's to see; the manager tries again.
                message = f"Error creating: {error.message}"
                self._event(replica_set, "FailedCreate", message, kind="Warning")
                raise
            message = f"Created pod: {made['metadata']['name']}"
            self._event(replica_set, "SuccessfulCreate", message)
        for pod in active[: max(0, len(active) - wanted)]:
            self._client.delete(
                pods.PODS, pod["metadata"]["name"], meta["namespace"], uid=pod["metadata"]["uid"]
            )
            message = f"Deleted pod: {pod['metadata']['name']}"
            self._event(replica_set, "SuccessfulDelete", message)

    def _event(self, replica_set: Obj, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._client.event(replica_set, reason, message, type=kind, component="replicaset-controller")


class DeploymentController:
    """Keeps one ReplicaSet per pod template and moves replicas to the newest."""

    name = "deployment"

    def __init__(self, client: Client) -> None:
        self._client = client

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """Own objects and the ReplicaSets they control."""
        return {DEPLOYMENTS: own_key, REPLICASETS: owner_key("Deployment")}

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Ensure the newest ReplicaSet, roll, clean up, then the status."""
        deployment = self._client.get(DEPLOYMENTS, key.name, key.namespace)
        if deployment is None or deployment["metadata"].get("deletionTimestamp"):
            return None
        newest, older = self._sets(deployment)
        if not dig(deployment, "spec", "paused"):
            newest = newest or self._create(deployment, older)
            self._roll(deployment, newest, older)
            newest, older = self._sets(deployment)
        self._status(deployment, newest, older, now)
        return None

    def _sets(self, deployment: Obj) -> tuple[Obj | None, list[Obj]]:
        namespace, uid = deployment["metadata"]["namespace"], deployment["metadata"]["uid"]
        wanted = pods.template_hash(deployment["spec"]["template"])
        owned = self._client.list(REPLICASETS, namespace, owner_uid=uid)
        newest = next((r for r in owned if r["metadata"]["labels"].get(HASH_LABEL) == wanted), None)
        return newest, [r for r in owned if r is not newest]

    def _create(self, deployment: Obj, older: list[Obj]) -> Obj:
        meta, template = deployment["metadata"], copy_of(deployment["spec"]["template"])
        digest = pods.template_hash(deployment["spec"]["template"])
        labels = {**(dig(template, "metadata", "labels", default={})), HASH_LABEL: digest}
        template.setdefault("metadata", {})["labels"] = labels
        revision = 1 + max(
            (int(dig(r, "metadata", "annotations", REVISION, default=0)) for r in older), default=0
        )
        selector = copy_of(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {})[HASH_LABEL] = digest
        desired = int(dig(deployment, "spec", "replicas", default=1))
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{digest}",
                "namespace": meta["namespace"],
                "labels": labels,
                "annotations": {
                    "deployment.kubernetes.io/desired-replicas": str(desired),
                    "deployment.kubernetes.io/max-replicas": str(
                        desired + self._limit(deployment, "maxSurge")
                    ),
                    REVISION: str(revision),
                },
                "ownerReferences": [controller_reference(deployment)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        return self._client.create(REPLICASETS, body, meta["namespace"])

    def _limit(self, deployment: Obj, field: str) -> int:
        value = dig(deployment, "spec", "strategy", "rollingUpdate", field, default="25%")
        if isinstance(value, int):
            return value
        share = int(str(value).rstrip("%")) / 100 * int(dig(deployment, "spec", "replicas", default=1))
        return math.ceil(share) if field == "maxSurge" else math.floor(share)

    def _roll(self, deployment: Obj, newest: Obj, older: list[Obj]) -> None:
        desired = int(dig(deployment, "spec", "replicas", default=1))
        recreate = dig(deployment, "spec", "strategy", "type") == "Recreate"
        old_total = sum(int(dig(r, "spec", "replicas", default=0)) for r in older)
        have = int(dig(newest, "spec", "replicas", default=0))
        if recreate and any(int(dig(r, "status", "replicas", default=0)) for r in older):
            self._shrink(deployment, older, old_total)
            return
        surge = 0 if recreate else self._limit(deployment, "maxSurge")
        # What has come already stays while the old ones go.
        wanted = max(have, min(desired, desired + surge - old_total)) if desired >= have else desired
        self._scale(deployment, newest, wanted)
        least = desired - max(self._limit(deployment, "maxUnavailable"), 0 if surge else 1)
        coming = wanted - min(wanted, _available(newest))
        # By what is asked for: what the status says may be of a moment ago, when nothing had gone yet.
        most = wanted + old_total - least - coming
        if most > 0:
            self._shrink(
                deployment, older, min(most, self._broken(older) + max(0, _ready(newest, older) - least))
            )

    def _broken(self, older: list[Obj]) -> int:
        return sum(max(0, int(dig(r, "spec", "replicas", default=0)) - _available(r)) for r in older)

    def _shrink(self, deployment: Obj, older: list[Obj], most: int) -> None:
        """What does not answer goes first."""
        there = [int(dig(r, "spec", "replicas", default=0)) for r in older]
        left = list(there)
        for only_broken in (True, False):
            for index, replica_set in enumerate(older):
                broken = max(0, left[index] - _available(replica_set))
                take = min(most, broken if only_broken else left[index])
                left[index], most = left[index] - take, most - take
        for replica_set, before, after in zip(older, there, left, strict=True):
            if before != after:
                self._scale(deployment, replica_set, after)

    def _scale(self, deployment: Obj, replica_set: Obj, replicas: int) -> None:
        meta = replica_set["metadata"]
        known = int(dig(replica_set, "spec", "replicas", default=0))
        if known == replicas:
            return
        self._client.patch(
            REPLICASETS, meta["name"], {"spec": {"replicas": replicas}}, namespace=meta["namespace"]
        )
        word = "up" if replicas > known else "down"
        message = f"Scaled {word} replica set {meta['name']} from {known} to {replicas}"
        self._client.event(deployment, "ScalingReplicaSet", message, component="deployment-controller")

    def _status(self, deployment: Obj, newest: Obj | None, older: list[Obj], now: datetime) -> None:
        sets = [newest, *older] if newest else older

        def total(field: str) -> int:
            return sum(int(dig(r, "status", field, default=0)) for r in sets)

        desired = int(dig(deployment, "spec", "replicas", default=1))
        updated = int(dig(newest, "status", "replicas", default=0))
        available = total("availableReplicas")
        counts = {
            "replicas": total("replicas"),
            "updatedReplicas": updated,
            "readyReplicas": total("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(0, total("replicas") - available),
        }
        conditions = copy_of(dig(deployment, "status", "conditions", default=[]))
        enough = available >= desired - self._limit(deployment, "maxUnavailable")
        _progress(conditions, "Available", now, (
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.") if enough
            else ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        ))  # fmt: skip
        done = updated == desired == available == counts["replicas"]
        paused = bool(dig(deployment, "spec", "paused"))
        _progress(conditions, "Progressing", now, _progressing(newest, done=done, paused=paused))
        status = {
            "observedGeneration": deployment["metadata"].get("generation", 1),
            **{name: count for name, count in counts.items() if count},
            "terminatingReplicas": 0,
            "conditions": conditions,
        }
        write_status(self._client, DEPLOYMENTS, deployment, status)
        self._note_revision(deployment, newest)

    def _note_revision(self, deployment: Obj, newest: Obj | None) -> None:
        revision = dig(newest, "metadata", "annotations", REVISION)
        if revision and dig(deployment, "metadata", "annotations", REVISION) != revision:
            meta = deployment["metadata"]
            patch = {"metadata": {"annotations": {REVISION: revision}}}
            self._client.patch(DEPLOYMENTS, meta["name"], patch, namespace=meta["namespace"])


def _available(replica_set: Obj) -> int:
    return int(dig(replica_set, "status", "availableReplicas", default=0))


def _ready(newest: Obj, older: list[Obj]) -> int:
    return sum(map(_available, (newest, *older)))


def _progressing(newest: Obj | None, *, done: bool, paused: bool) -> tuple[str, str, str]:
    if paused or newest is None:
        return "Unknown", "DeploymentPaused", "Deployment is paused"
    name = newest["metadata"]["name"]
    if done:
        return "True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
    return "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'


def _progress(conditions: list[Obj], kind: str, now: datetime, state: tuple[str, str, str]) -> None:
    status, reason, message = state
    known = find(conditions, kind)
    if known and (known["status"], known["reason"], known["message"]) == state:
        return
    stamp = timestamp(now)
    moved = known is None or known["status"] != status
    fresh = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp if moved or known is None else known["lastTransitionTime"],
    }
    if known is None:
        conditions.append(fresh)
    else:
        known.update(fresh)
