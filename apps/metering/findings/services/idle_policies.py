"""Setting a tenant's idle policy."""

from datetime import datetime

from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import Invalid, NotAllowed
from apps.metering import policies
from apps.metering.findings.rules.idle_policy import Policy, problems_of
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.models import IdlePolicy
from apps.tenants.models import Tenant


def require_setter(actor: Actor, tenant: Tenant) -> None:
    """Raises NotAllowed unless the actor may set this tenant's idle policy."""
    if not policies.can_set_policy(actor, tenant):
        raise NotAllowed(f"Only a lead of {tenant.slug} or a platform engineer sets its idle policy.")


@transaction.atomic
def set_idle_policy(*, actor: Actor, tenant: Tenant, policy: Policy, now: datetime) -> IdlePolicy:
    """What happens to a tenant's idle work from now on; the same again changes nothing. A countdown that runs
    keeps its end, and is taken back at the next judgement where the policy stops nothing any more.

    Rule: leads, managers of the department, platform engineers.
    """
    require_setter(actor, tenant)
    problems = problems_of(policy)
    if problems:
        raise Invalid(problems)
    stored = selectors.policy_row(tenant)
    if selectors.as_policy(stored) == policy:
        # Also the defaults of a tenant that never set any: a row of them would date what nobody did.
        return stored
    row, _ = IdlePolicy.objects.get_or_create(tenant=tenant)
    row = IdlePolicy.objects.select_for_update().get(pk=row.pk)
    before = selectors.as_policy(row)
    if before == policy:
        return row
    for name in ("mode", "idle_seconds", "countdown_seconds", "extension_seconds", "most_extensions"):
        setattr(row, name, getattr(policy, name))
    row.quiet_from, row.quiet_to = policy.quiet or (None, None)
    row.office_from, row.office_to = policy.office or (None, None)
    row.time_zone, row.updated_by = policy.time_zone, actor.username
    row.save()
    old, new = (_plain(each) for each in (before, policy))
    changes = {name: [old[name], new[name]] for name in new if old[name] != new[name]}
    audit.record(actor, "idle_policy.set", row, now=now, changes=changes)
    return row


def _plain(policy: Policy) -> dict[str, str]:
    hours = {"quiet": policy.quiet, "office": policy.office}
    told = {name: "-".join(f"{at:%H:%M}" for at in each) if each else "" for name, each in hours.items()}
    return {
        "mode": str(policy.mode),
        **{
            name: str(getattr(policy, name))
            for name in ("idle_seconds", "countdown_seconds", "extension_seconds", "most_extensions")
        },
        **told,
        "time_zone": policy.time_zone,
    }
