"""Every kind that we apply, read or watch, with where the API serves it and what the mirror keeps. Pure.

Group versions: Kubernetes 1.36, Flux 2, JobSet 0.12 and Kueue 0.19 (v1beta2 only: an older client would go
through a conversion).
"""

from dataclasses import dataclass
from urllib.parse import quote

from apps.cluster.objects import trim
from apps.cluster.objects.names import MANAGED_SELECTOR

CORE, APPS, BATCH = "v1", "apps/v1", "batch/v1"
JOBSET = "jobset.x-k8s.io/v1alpha2"
KUEUE, DRA = "kueue.x-k8s.io/v1beta2", "resource.k8s.io/v1"
NETWORK, RBAC = "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"
HELM, SOURCE = "helm.toolkit.fluxcd.io/v2", "source.toolkit.fluxcd.io/v1"
GATEWAY, GRANTS = "gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"
STORAGE, VISIBILITY = "storage.k8s.io/v1", "visibility.kueue.x-k8s.io/v1beta2"
ACCESS_REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}


@dataclass(frozen=True)
class KindInfo:
    """One kind. `level` orders applies (0 first) and, reversed, deletes; None: never applied, never pruned.

    `optional`: clusters without it are normal; whoever needs it asks the capabilities first.

    `selector` narrows the watch, for kinds of which a cluster holds many that are not ours.
    `leaves_tombstone`: its row outlives it for a day, so that metering can still read it.

    `watched`: whether the watcher follows it. What is not is read or applied where it is needed, and never
    reaches the mirror.

    `moves`: of what the mirror keeps, the part that a reconcile judges by. That the object is there, leaves
    or has drifted always wakes its row; of its content only a change of this part does. Counts of a queue or
    of a quota move with every pod. None: the object wakes nobody at all.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    keep: trim.Trim
    level: int | None = None
    selector: str = ""
    leaves_tombstone: bool = True
    optional: bool = False
    watched: bool = True
    moves: trim.Trim | None = trim.nothing

    def path(self, namespace: str = "", name: str = "") -> str:
        """The REST path of the collection, or of one object of it; every part is escaped."""
        root = "/api" if "/" not in self.api_version else "/apis"
        inside = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        leaf = f"/{quote(name, safe='')}" if name else ""
        return f"{root}/{self.api_version}{inside}/{self.plural}{leaf}"


_OURS = MANAGED_SELECTOR
_QUEUE_STATUS = (
    "conditions", "flavorsReservation", "flavorsUsage", "pendingWorkloads", "reservingWorkloads",
    "admittedWorkloads", "fairSharing",
)  # fmt: skip
_JOB_STATUS = (
    "conditions", "startTime", "completionTime", "active", "ready", "succeeded", "failed",
    "completedIndexes", "failedIndexes",
)  # fmt: skip
_SLICE = ("driver", "nodeName", "allNodes", "pool", "devices", "sharedCounters")
_EVENT = (
    "involvedObject", "reason", "message", "type", "firstTimestamp", "lastTimestamp", "eventTime", "count",
    "series", "reportingComponent", "source",
)  # fmt: skip

_QUEUE_SPEC = (
    "cohortName", "resourceGroups", "stopPolicy", "preemption", "queueingStrategy", "fairSharing",
)  # fmt: skip
_queue = trim.pick(spec=_QUEUE_SPEC, status=_QUEUE_STATUS)
_stateful_set = trim.pick(spec=("replicas", "serviceName"))
_hard = trim.pick(spec=("hard",))
"""What is used of a quota moves with every pod, and is read live."""
_deployment = trim.pick(
    spec=("replicas",), status=("replicas", "readyReplicas", "updatedReplicas", "conditions")
)
_job = trim.pick(spec=("suspend", "parallelism", "completions", "backoffLimit"), status=_JOB_STATUS)
_job_set = trim.pick(
    spec=("suspend",), status=("conditions", "restarts", "terminalState", "replicatedJobsStatus")
)
_claim = trim.pick(status=("allocation", "reservedFor"))

_BASICS = (
    KindInfo(CORE, "Namespace", "namespaces", False, trim.whole, level=0, selector=_OURS, moves=trim.content),
    KindInfo(KUEUE, "Cohort", "cohorts", False, trim.whole, level=0),
    KindInfo(KUEUE, "ResourceFlavor", "resourceflavors", False, trim.whole, level=0),
    KindInfo(KUEUE, "WorkloadPriorityClass", "workloadpriorityclasses", False, trim.whole, level=0),
    KindInfo(DRA, "DeviceClass", "deviceclasses", False, trim.whole, level=0),
)
_FENCES = (
    KindInfo(CORE, "ServiceAccount", "serviceaccounts", True, trim.head, level=1, selector=_OURS),
    KindInfo(CORE, "ResourceQuota", "resourcequotas", True, _hard, level=1, selector=_OURS),
    KindInfo(CORE, "LimitRange", "limitranges", True, trim.whole, level=1, selector=_OURS),
    KindInfo(NETWORK, "NetworkPolicy", "networkpolicies", True, trim.whole, level=1, selector=_OURS),
    KindInfo(KUEUE, "ClusterQueue", "clusterqueues", False, _queue, level=1, moves=trim.outcome),
)
_REST = (
    KindInfo(KUEUE, "LocalQueue", "localqueues", True, trim.whole, level=2),
    KindInfo(RBAC, "RoleBinding", "rolebindings", True, trim.whole, level=2, selector=_OURS),
    KindInfo(CORE, "ConfigMap", "configmaps", True, trim.head, level=2, selector=_OURS),
    KindInfo(CORE, "Service", "services", True, trim.whole, level=2, selector=_OURS),
    KindInfo(
        CORE, "PersistentVolumeClaim", "persistentvolumeclaims", True, trim.whole, level=2, selector=_OURS
    ),
    KindInfo(APPS, "StatefulSet", "statefulsets", True, _stateful_set, level=2),
    KindInfo(
        APPS, "Deployment", "deployments", True, _deployment, level=2, selector=_OURS, moves=trim.content
    ),
    KindInfo(BATCH, "Job", "jobs", True, _job, level=2, moves=trim.job_outcome),
)
_SETS = (KindInfo(JOBSET, "JobSet", "jobsets", True, _job_set, level=2, optional=True, moves=trim.outcome),)
_FLUX = (
    KindInfo(
        SOURCE, "HelmRepository", "helmrepositories", True, trim.head, level=2, selector=_OURS, optional=True
    ),
    # Above the source it needs to uninstall, so that it goes first.
    KindInfo(
        HELM,
        "HelmRelease",
        "helmreleases",
        True,
        trim.release,
        level=3,
        selector=_OURS,
        optional=True,
        moves=trim.content,
    ),
)
_FACTS = (
    KindInfo(CORE, "Pod", "pods", True, trim.pod, level=2, moves=trim.pod_judged),
    KindInfo(CORE, "Node", "nodes", False, trim.node),
    KindInfo(KUEUE, "Workload", "workloads", True, trim.kueue_workload, moves=trim.workload_judged),
    KindInfo(DRA, "ResourceSlice", "resourceslices", False, trim.pick(spec=_SLICE)),
    KindInfo(DRA, "ResourceClaim", "resourceclaims", True, _claim, moves=trim.content),
    KindInfo(CORE, "Event", "events", True, trim.pick(top=_EVENT), leaves_tombstone=False, moves=None),
)
_ROUTES = (
    # Applied where a Gateway leads to what people open, and never read. They go before what they lead to.
    KindInfo(GATEWAY, "HTTPRoute", "httproutes", True, trim.head, level=3, watched=False),
    KindInfo(GRANTS, "ReferenceGrant", "referencegrants", True, trim.head, level=2, watched=False),
)
_INSIDE = (
    # Only looked at, to see whether disks can be had.
    KindInfo(STORAGE, "StorageClass", "storageclasses", False, trim.whole, watched=False),
    # Read one by name: the key of a tenant's virtual cluster. Applied and never read: the tokens of IDEs.
    # Applied inside a virtual cluster alone: the rest.
    KindInfo(CORE, "Secret", "secrets", True, trim.head, level=1, watched=False),
    KindInfo(RBAC, "ClusterRole", "clusterroles", False, trim.head, level=0, watched=False),
    KindInfo(RBAC, "ClusterRoleBinding", "clusterrolebindings", False, trim.head, level=2, watched=False),
)

KINDS: dict[str, KindInfo] = {
    info.kind: info for info in (*_BASICS, *_FENCES, *_REST, *_SETS, *_FLUX, *_FACTS, *_ROUTES, *_INSIDE)
}

WATCHED: tuple[str, ...] = tuple(kind for kind, info in KINDS.items() if info.watched and not info.optional)
"""What every cluster serves and the watcher follows."""

OPTIONAL: tuple[str, ...] = tuple(kind for kind, info in KINDS.items() if info.optional)
"""What the watcher follows where it is served, and looks for now and then where it is not."""

APPLIED: tuple[str, ...] = tuple(k for k, info in KINDS.items() if info.watched and info.level is not None)
"""What we apply and the watcher follows: where a change by hand shows."""
