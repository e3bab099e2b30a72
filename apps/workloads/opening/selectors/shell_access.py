"""Whether somebody has a shell in a workload now, by SSH or in a page, and what it hangs on. Reads only."""

from collections.abc import Collection, Hashable, Mapping
from uuid import UUID

from django.conf import settings

from apps.accounts.models import SshKey
from apps.accounts.specs import Actor
from apps.errors import Conflict, DomainError, NotAllowed
from apps.tenants import shell_fence
from apps.tenants.selectors import role_of
from apps.tenants.specs import Isolation
from apps.workloads.models import Workload
from apps.workloads.opening.selectors import access
from apps.workloads.selectors.reading import workload_for

NO_FENCE = "Ask a platform engineer to apply k8s/allotment there. A notebook's own page has a terminal too."
Place = tuple[UUID, UUID | None]
"""A workload, and the key of whoever is inside; None: a terminal, ending with sign-in or API token."""


def refusal(actor: Actor, row: Workload) -> DomainError | None:
    """Why the actor has no shell in it now; None where they do."""
    return never(actor, row) or access.not_on(row)


def never(actor: Actor, row: Workload) -> DomainError | None:
    """Why the actor has no shell in it, however it stands.

    RULE: who opens it (`policies.can_open`), in a tenant whose policy allows it. The commands run as the
    member's own account in the cluster, which nobody else has. Beside a virtual cluster that is an account
    for this alone, where its cluster can keep it out of the control plane.
    """
    try:
        access.require_open(actor, row)
    except NotAllowed as refused:
        return refused
    tenant = row.tenant
    if settings.CONFIG.apps is None:
        return Conflict(access.NO_DOOR, hint=access.SET_A_DOOR)
    if not tenant.has_shell:
        return Conflict(
            f"Shell access is off in {tenant.name}.", hint="Ask a platform engineer to turn it on."
        )
    if words := shell_fence.lacks(tenant):
        return Conflict(words, hint=NO_FENCE)
    return None


def right(actor: Actor, workload: UUID, key: UUID | None) -> Hashable:
    """What a connection hangs on; raises as `refusal` says, once it would be refused now."""
    row = workload_for(actor, workload)
    if refused := refusal(actor, row):
        raise refused
    if key is not None and not SshKey.objects.filter(pk=key, user=actor.user_id).exists():
        raise Conflict("This key was removed.")
    return access.run_of(row), role_of(actor, row.tenant)


def standings(places: Collection[Place]) -> Mapping[Place, Hashable]:
    """Everything of these workloads, their tenants and these keys that `right` can depend on."""
    workloads = access.standings({workload for workload, _ in places})
    rows = Workload.objects.filter(pk__in={workload for workload, _ in places})
    policies = dict(rows.values_list("pk", "tenant__has_shell"))
    fenced = rows.filter(tenant__isolation=Isolation.VCLUSTER).select_related("tenant__cluster")
    lacking = {row.pk: shell_fence.lacks(row.tenant) for row in fenced}
    keys = set(SshKey.objects.filter(pk__in={key for _, key in places}).values_list("pk", flat=True))
    return {
        (workload, key): (
            workloads.get(workload),
            policies.get(workload),
            lacking.get(workload),
            key is None or key in keys,
        )
        for workload, key in places
    }
