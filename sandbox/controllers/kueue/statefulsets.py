"""Kueue's StatefulSet integration: one workload for all replicas, its pods gated until admission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sandbox.api.cluster.client import Client
from sandbox.api.controllers.manager import Key, own_key, owner_key
from sandbox.api.meta.objects import Obj, copy_of, dig
from sandbox.api.storage.store import Change
from sandbox.controllers import pods
from sandbox.controllers.conditions import owner_reference
from sandbox.controllers.kueue import admission, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.framework import Framework
from sandbox.controllers.kueue.jobs import start_pod, stop_pod
from sandbox.controllers.statefulset import STATEFULSETS

SUSPENDED = "statefulset"
ON_HOLD = "StatefulSet scaled to zero; workload on hold"
OFF_HOLD = "Workload no longer on hold; waiting for quota reservation"


class StatefulSetIntegration:
    """Queues StatefulSets that carry a queue label."""

    name = "kueue-statefulset"

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sets = Framework(client, "statefulset-kueue-controller")
        self._kueue = Framework(client, "pod-kueue-controller")

    def watches(self) -> Mapping[str, Callable[[Change], Iterable[Key]]]:
        """StatefulSets, their pods and their workloads."""
        return {
            STATEFULSETS: own_key,
            pods.PODS: owner_key("StatefulSet"),
            names.WORKLOADS: _set_of_workload,
        }

    def reconcile(self, key: Key, now: datetime) -> float | None:
        """Create, hold or release the workload, then its pods."""
        stateful = self._client.get(STATEFULSETS, key.name, key.namespace)
        if (
            stateful is None
            or stateful["metadata"].get("deletionTimestamp")
            or not self._sets.manages(stateful)
        ):
            return None
        workload = self._sets.workload_of(stateful)
        replicas = int(dig(stateful, "spec", "replicas", default=1))
        if workload is None:
            if replicas:
                self._create(stateful, replicas)
            return None
        if workload["metadata"].get("deletionTimestamp"):
            return None
        if not self._hold(workload, replicas, now):
            self._sets.follow(stateful, workload)
        self._pods(stateful, workload, now)
        return None

    def _create(self, stateful: Obj, replicas: int) -> None:
        template = {"metadata": {}, "spec": copy_of(stateful["spec"]["template"]["spec"])}
        annotations = {
            f"{names.PREFIX}is-group-workload": "true",
            f"{names.PREFIX}job-owner-gvk": "apps/v1, Kind=StatefulSet",
            f"{names.PREFIX}job-owner-name": stateful["metadata"]["name"],
        }
        extra = {"annotations": annotations, "ownerReferences": [owner_reference(stateful)]}
        self._sets.create(stateful, template, replicas, extra)

    def _hold(self, workload: Obj, replicas: int, now: datetime) -> bool:
        """At 0 replicas the workload keeps out of the queue; back above 0 it may queue again."""
        if replicas == 0 and not state.is_on_hold(workload) and state.has_quota(workload):
            return self._sets.edit(workload, now, lambda edit: edit.release("OnHold", ON_HOLD))
        if replicas and state.is_on_hold(workload):
            return self._sets.edit(workload, now, lambda edit: edit.release("Pending", OFF_HOLD))
        return False

    def _pods(self, stateful: Obj, workload: Obj, now: datetime) -> None:
        meta = stateful["metadata"]
        owned = self._client.list(pods.PODS, meta["namespace"], owner_uid=meta["uid"])
        live = [p for p in owned if pods.is_active(p)]
        self._adopt(workload, live)
        for pod in live:
            self._label(stateful, workload, pod)
        replicas = int(dig(stateful, "spec", "replicas", default=1))
        ready = len(live) >= replicas and all(pods.is_ready(p) for p in live)
        self._kueue.edit(workload, now, lambda edit: edit.pods_ready(ready=ready))
        evicted = state.condition(workload, "Evicted")
        if evicted is not None and evicted["status"] == "True":
            self._evict(workload, owned, evicted, now)
        elif state.is_admitted(workload):
            self._start(workload, live)

    def _adopt(self, workload: Obj, live: list[Obj]) -> None:
        """Pods are owners too, so that the workload outlives the StatefulSet until they are gone."""
        owners = workload["metadata"].get("ownerReferences") or []
        known = {o["uid"] for o in owners}
        kept = [o for o in owners if o["kind"] != "Pod" or o["uid"] in {p["metadata"]["uid"] for p in live}]
        fresh = [owner_reference(p) for p in live if p["metadata"]["uid"] not in known]
        if not fresh and len(kept) == len(owners):
            return
        meta = workload["metadata"]
        patch = {"metadata": {"ownerReferences": [*kept, *fresh]}}
        self._client.patch(names.WORKLOADS, meta["name"], patch, namespace=meta["namespace"])
        if fresh:
            self._kueue.event(workload, "OwnerReferencesAdded", f"Added {len(fresh)} owner reference(s)")

    def _label(self, stateful: Obj, workload: Obj, pod: Obj) -> None:
        if dig(pod, "metadata", "annotations", names.GROUP_NAME):
            return
        labels = {names.MANAGED: "true", names.QUEUE_LABEL: names.queue_name(stateful)}
        priority = (stateful["metadata"].get("labels") or {}).get(names.PRIORITY_LABEL)
        if priority:
            labels[names.PRIORITY_LABEL] = priority
        annotations = {
            names.GROUP_NAME: workload["metadata"]["name"],
            f"{names.PREFIX}prebuilt-workload-name": workload["metadata"]["name"],
            f"{names.PREFIX}pod-group-total-count": str(dig(stateful, "spec", "replicas", default=1)),
            f"{names.PREFIX}pod-group-fast-admission": "true",
            f"{names.PREFIX}pod-group-serving": "true",
            f"{names.PREFIX}pod-group-pod-index-label": "apps.kubernetes.io/pod-index",
            names.ROLE_HASH: names.MAIN,
        }
        meta = pod["metadata"]
        patch = {"metadata": {"labels": labels, "annotations": annotations}}
        self._client.patch(pods.PODS, meta["name"], patch, namespace=meta["namespace"])

    def _start(self, workload: Obj, live: list[Obj]) -> None:
        for pod in live:
            current = self._client.get(pods.PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
            if current is not None and admission.is_held(current):
                start_pod(self._client, current, self._kueue.pod_info(workload))
                queue = workload["status"]["admission"]["clusterQueue"]
                self._kueue.event(current, "Started", f"Admitted by clusterQueue {queue}")

    def _evict(self, workload: Obj, owned: list[Obj], evicted: Obj, now: datetime) -> None:
        running = [p for p in owned if not admission.is_held(p) and not pods.is_terminal(p)]
        for pod in running:
            if not pods.is_deleting(pod):
                stop_pod(self._client, pod, evicted)
                self._kueue.event(pod, "Stopped", evicted["message"])
        left = [
            p
            for p in running
            if self._client.get(pods.PODS, p["metadata"]["name"], p["metadata"]["namespace"])
        ]
        gone = not any(p["metadata"]["uid"] == self._uid(p) for p in left)
        if gone and state.has_quota(workload):
            self._kueue.edit(workload, now, lambda edit: edit.stopped())

    def _uid(self, pod: Obj) -> str:
        current = self._client.get(pods.PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        return str(current["metadata"]["uid"]) if current else ""


def _set_of_workload(change: Change) -> Iterable[Key]:
    """A StatefulSet does not control its workload, it only owns it."""
    meta = change.obj["metadata"]
    for owner in meta.get("ownerReferences") or ():
        if owner["kind"] == "StatefulSet":
            yield Key(meta["namespace"], owner["name"])
