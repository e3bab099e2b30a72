"""One look at all of Kueue's objects: which queue each workload is in, and what keeps it from being
considered.

Reads the store once per scheduling run. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sandbox.api.cluster.client import Client
from sandbox.api.meta.objects import Obj, dig
from sandbox.api.meta.selectors import matches_selector
from sandbox.controllers.kueue import convert, names
from sandbox.controllers.kueue import status as state
from sandbox.controllers.kueue.claims import Inadmissible, template_charges
from sandbox.controllers.kueue.model import CohortSpec, Flavor, QueueSpec, Work
from sandbox.controllers.kueue.stopping.checks import is_active

TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
Totals = dict[str, dict[str, int]]
Defaults = dict[str, dict[str, str]]
MISMATCH = "workload namespace doesn't match ClusterQueue selector"


@dataclass
class View:
    """Kueue's world at one moment."""

    queues: dict[str, Obj] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], Obj] = field(default_factory=dict)
    specs: dict[str, QueueSpec] = field(default_factory=dict)
    flavors: dict[str, Flavor] = field(default_factory=dict)
    checks: dict[str, bool] = field(default_factory=dict)
    cohorts: list[CohortSpec] = field(default_factory=list)
    workloads: dict[str, Obj] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)
    inadmissible: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def local_queue(self, workload: Obj) -> Obj | None:
        """The LocalQueue a workload names."""
        return self.local_queues.get(
            (workload["metadata"]["namespace"], workload["spec"].get("queueName", ""))
        )

    def queue_of(self, workload: Obj) -> str:
        """Its ClusterQueue: the admitted one, else its LocalQueue's; "" for none."""
        admitted = dig(workload, "status", "admission", "clusterQueue")
        local = self.local_queue(workload)
        return str(admitted or (local["spec"].get("clusterQueue", "") if local else ""))


def pending(workload: Obj) -> bool:
    """In the queue: not reserved, not over, active, and not put on hold."""
    return not (
        state.has_quota(workload)
        or state.is_finished(workload)
        or state.is_on_hold(workload)
        or workload["spec"].get("active") is False
        or workload["metadata"].get("deletionTimestamp")
    )


class Reader:
    """Builds views from the store."""

    def __init__(self, client: Client, class_mapping: Mapping[str, str]) -> None:
        self._client = client
        self._mapping = class_mapping
        # Most workloads did not change since the last look; theirs is kept by version.
        self._works: dict[str, tuple[tuple[str, ...], Work]] = {}
        self._totals: dict[tuple[str, int], Totals] = {}
        self._defaults: dict[str, Defaults] = {}

    def read(self) -> View:
        """Everything, with each live workload placed in its queue or marked with what blocks it."""
        view = View()
        self._read_defaults()
        view.flavors = {f["metadata"]["name"]: convert.flavor(f) for f in self._client.list(names.FLAVORS)}
        view.cohorts = [convert.cohort(c) for c in self._client.list(names.COHORTS)]
        view.queues = {q["metadata"]["name"]: q for q in self._client.list(names.CLUSTER_QUEUES)}
        view.checks = {
            each["metadata"]["name"]: is_active(each) for each in self._client.list(names.ADMISSION_CHECKS)
        }
        view.specs = {
            name: convert.cluster_queue(q, view.flavors, view.checks) for name, q in view.queues.items()
        }
        for local in self._client.list(names.LOCAL_QUEUES):
            view.local_queues[local["metadata"]["namespace"], local["metadata"]["name"]] = local
        for workload in self._client.list(names.WORKLOADS):
            key = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
            view.workloads[key] = workload
            if not state.is_finished(workload):
                self._place(view, key, workload)
        live = {w["metadata"]["uid"] for w in view.workloads.values()}
        self._works = {uid: known for uid, known in self._works.items() if uid in live}
        self._totals = {k: t for k, t in self._totals.items() if k[0] in live}
        return view

    def _read_defaults(self) -> None:
        """Container defaults per namespace, of all its LimitRanges; when they change nothing kept holds."""
        found: dict[str, Defaults] = {}
        for item in self._client.list("limitranges"):
            here = found.setdefault(item["metadata"]["namespace"], {"default": {}, "defaultRequest": {}})
            for limit in dig(item, "spec", "limits", default=[]):
                if limit.get("type") == "Container":
                    for key, known in here.items():
                        known.update(limit.get(key) or {})
        if found != self._defaults:
            self._defaults, self._works, self._totals = found, {}, {}

    def _work(
        self, workload: Obj, spec: QueueSpec, totals: Callable[[Obj], Totals], blocked: str = ""
    ) -> Work:
        meta = workload["metadata"]
        pods = "pods" if spec.group_of("pods") else ""
        key = (meta["resourceVersion"], spec.name, pods, blocked)
        known = self._works.get(meta["uid"])
        if known is None or known[0] != key:
            known = (key, convert.work(workload, spec, totals(workload), blocked))
            self._works[meta["uid"]] = known
        return known[1]

    def _place(self, view: View, key: str, workload: Obj) -> None:
        spec = view.specs.get(view.queue_of(workload))
        if state.has_quota(workload):
            if spec is not None:
                view.works[key] = self._work(workload, spec, convert.pod_set_requests)
            return
        if not pending(workload):
            return
        blocked = queue_blocker(view, workload)
        if blocked or spec is None:
            view.inadmissible[key] = blocked
            return
        mismatch = "" if self._namespace_matches(view.queues[spec.name], workload) else MISMATCH
        try:
            view.works[key] = self._work(workload, spec, self.requests, mismatch)
        except Inadmissible as error:
            view.refused[key] = str(error)

    def requests(self, workload: Obj) -> Totals:
        """Totals per pod set with the charges of claim templates. Raises Inadmissible."""
        meta = workload["metadata"]
        namespace, known = meta["namespace"], (meta["uid"], int(meta.get("generation", 1)))
        if known not in self._totals:
            self._totals[known] = convert.pod_set_requests(workload, self._defaults.get(namespace, {}))
        if not any(p["template"].get("spec", {}).get("resourceClaims") for p in workload["spec"]["podSets"]):
            return self._totals[known]
        found = {name: dict(totals) for name, totals in self._totals[known].items()}
        charges = template_charges(
            workload, lambda n: self._client.get(TEMPLATES, n, namespace), self._mapping
        )
        for pods, extra in charges.items():
            for name, value in extra.items():
                found[pods][name] = found[pods].get(name, 0) + value
        return found

    def _namespace_matches(self, queue: Obj, workload: Obj) -> bool:
        selector = queue["spec"].get("namespaceSelector")
        namespace = self._client.get("namespaces", workload["metadata"]["namespace"])
        if selector is None or namespace is None:
            return False
        return matches_selector(selector, namespace["metadata"].get("labels") or {})


def queue_blocker(view: View, workload: Obj) -> str:
    """Why the workload's queues cannot take it, in the words of its QuotaReserved condition."""
    name, local = workload["spec"].get("queueName", ""), view.local_queue(workload)
    if local is None:
        return f"LocalQueue {name} doesn't exist"
    if local["spec"].get("stopPolicy", "None") != "None":
        return f"LocalQueue {name} is inactive"
    cluster_queue = local["spec"].get("clusterQueue", "")
    if cluster_queue not in view.queues:
        return f"ClusterQueue {cluster_queue} doesn't exist"
    if not view.specs[cluster_queue].active:
        return f"ClusterQueue {cluster_queue} is inactive"
    return ""
