"""What a cluster answers that lacks nothing."""

from apps.cluster.watching.services.capabilities import KUEUE_KINDS, Facts
from apps.quotas.specs import Priority

FULL = Facts(
    kubernetes="v1.36.3",
    has_dra=True,
    has_extended_resources=True,
    kueue_kinds=KUEUE_KINDS,
    kueue_version="0.19.2",
    has_visibility=True,
    has_flux=True,
    has_job_sets=True,
    has_routes=True,
    queues_deployments=True,
    evaluates_policies=True,
    drivers=frozenset({"gpu.nvidia.com"}),
    namespaces=frozenset({"allotment-system", "allotment-access"}),
    priority_classes=frozenset(Priority),
    has_default_storage=True,
    kubelets=frozenset({"v1.35.0", "v1.36.3"}),
)
