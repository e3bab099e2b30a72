"""The kinds that checks speak of: kubectl's plural to group version, Kind and scope."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One served kind."""

    api_version: str
    kind: str
    namespaced: bool = True

    @property
    def prefix(self) -> str:
        """Where the kind's group version is served."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


_KUEUE = "kueue.x-k8s.io/v1beta2"
_RBAC = "rbac.authorization.k8s.io/v1"
_DEVICES = "resource.k8s.io/v1"

KINDS: dict[str, Kind] = {
    "namespaces": Kind("v1", "Namespace", namespaced=False),
    "nodes": Kind("v1", "Node", namespaced=False),
    "pods": Kind("v1", "Pod"),
    "services": Kind("v1", "Service"),
    "configmaps": Kind("v1", "ConfigMap"),
    "secrets": Kind("v1", "Secret"),
    "serviceaccounts": Kind("v1", "ServiceAccount"),
    "persistentvolumeclaims": Kind("v1", "PersistentVolumeClaim"),
    "events": Kind("v1", "Event"),
    "resourcequotas": Kind("v1", "ResourceQuota"),
    "limitranges": Kind("v1", "LimitRange"),
    "statefulsets": Kind("apps/v1", "StatefulSet"),
    "deployments": Kind("apps/v1", "Deployment"),
    "replicasets": Kind("apps/v1", "ReplicaSet"),
    "jobs": Kind("batch/v1", "Job"),
    "networkpolicies": Kind("networking.k8s.io/v1", "NetworkPolicy"),
    "roles": Kind(_RBAC, "Role"),
    "rolebindings": Kind(_RBAC, "RoleBinding"),
    "clusterroles": Kind(_RBAC, "ClusterRole", namespaced=False),
    "clusterrolebindings": Kind(_RBAC, "ClusterRoleBinding", namespaced=False),
    "deviceclasses": Kind(_DEVICES, "DeviceClass", namespaced=False),
    "resourceslices": Kind(_DEVICES, "ResourceSlice", namespaced=False),
    "resourceclaims": Kind(_DEVICES, "ResourceClaim"),
    "resourceclaimtemplates": Kind(_DEVICES, "ResourceClaimTemplate"),
    "resourceflavors": Kind(_KUEUE, "ResourceFlavor", namespaced=False),
    "clusterqueues": Kind(_KUEUE, "ClusterQueue", namespaced=False),
    "localqueues": Kind(_KUEUE, "LocalQueue"),
    "cohorts": Kind(_KUEUE, "Cohort", namespaced=False),
    "workloads": Kind(_KUEUE, "Workload"),
    "workloadpriorityclasses": Kind(_KUEUE, "WorkloadPriorityClass", namespaced=False),
    "customresourcedefinitions": Kind(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False
    ),
    "tokenreviews": Kind("authentication.k8s.io/v1", "TokenReview", namespaced=False),
    "selfsubjectreviews": Kind("authentication.k8s.io/v1", "SelfSubjectReview", namespaced=False),
    "subjectaccessreviews": Kind("authorization.k8s.io/v1", "SubjectAccessReview", namespaced=False),
    "selfsubjectaccessreviews": Kind("authorization.k8s.io/v1", "SelfSubjectAccessReview", namespaced=False),
    "selfsubjectrulesreviews": Kind("authorization.k8s.io/v1", "SelfSubjectRulesReview", namespaced=False),
}
