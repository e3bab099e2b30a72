"""Who may do what with findings and idle policies. Answers only; services refuse."""

from apps.accounts.specs import Actor
from apps.metering.models import Finding
from apps.tenants import policies as tenancy
from apps.tenants.models import Tenant
from apps.workloads import policies as workloads


def can_answer(actor: Actor, finding: Finding) -> bool:
    """The workload's owner, leads, managers of the department, platform engineers. Who made something with
    kubectl is not known.
    """
    owns = finding.workload is not None and workloads.can_operate(actor, finding.workload)
    return owns or can_set_policy(actor, finding.tenant)


def answers_freely(actor: Actor, finding: Finding) -> bool:
    """Whether the answer needs no end: leads, managers, platform engineers; an owner's is bounded."""
    return can_set_policy(actor, finding.tenant)


def can_warn(actor: Actor, finding: Finding) -> bool:
    """Leads, managers and platform engineers begin a countdown."""
    return can_set_policy(actor, finding.tenant)


def can_set_policy(actor: Actor, tenant: Tenant) -> bool:
    """Its leads, managers of its department and platform engineers."""
    return tenancy.can_lead(actor, tenant) or tenancy.can_administer(actor, tenant)


def can_correct(actor: Actor, tenant: Tenant) -> bool:
    """Platform engineers say when an allocation really began and ended."""
    return tenancy.can_manage_tenant(actor, tenant)
