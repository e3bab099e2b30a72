"""What stands between members and the control plane of a tenant's virtual cluster. Reads only."""

from apps.cluster.mirror.selectors import inventory
from apps.tenants.models import Tenant
from apps.tenants.specs import Isolation


def lacks(tenant: Tenant) -> str:
    """What a shell in the tenant's workloads needs and its cluster has not; empty where nothing.

    RULE: a virtual cluster's control plane stands beside the workloads, and admission policies alone keep
    members out of it (`allotment-shells`). Where they are not enforced nobody has an account there.
    """
    if tenant.isolation != Isolation.VCLUSTER or inventory.capability(tenant.cluster, "policies").available:
        return ""
    cluster = tenant.cluster.name
    return f"{cluster} does not enforce what keeps people out of the control plane of {tenant.name}."


def allows(tenant: Tenant) -> bool:
    """Whether members have an account beside the tenant's virtual cluster, for their shells alone."""
    return tenant.isolation == Isolation.VCLUSTER and tenant.has_shell and not lacks(tenant)
