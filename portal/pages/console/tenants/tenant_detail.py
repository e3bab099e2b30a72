"""What the console shows of one tenant, and what a change to it would do before it is made. Reads only."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import yaml
from django.forms import Form
from django.http import QueryDict
from django.template.defaultfilters import pluralize
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.tenants import policies, selectors, shell_fence
from apps.tenants.attestation.services import attestation_requests
from apps.tenants.isolation import egress
from apps.tenants.isolation.manifests import render_tenant
from apps.tenants.lifecycle.services import isolation_choice
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Tenant
from apps.tenants.specs import Suspend, TrustLevel
from apps.workloads.selectors.reading import workloads_for
from apps.workloads.tenants.selectors.trust_moves import moves_for
from portal.pages.console.tenants import tenancy_forms as tenancy
from portal.pages.console.tenants.tenancy import require_console
from portal.pages.parts import figures
from portal.pages.parts.quota_bars import bars

PARTS = frozenset({"quota"})
FORMS: dict[str, type[Form]] = {
    "suspend": tenancy.SuspendForm,
    "trust": tenancy.TrustForm,
    "egress": tenancy.EgressForm,
    "shell": tenancy.ShellForm,
}

_SHELL_ON = (
    "Members reach their own running workloads by SSH or a terminal in the page, "
    "as their own account in the cluster."
)
_SHELL_OFF = "Nobody has a shell in a workload of the team. Open connections are cut within a second."


@dataclass(frozen=True)
class Change:
    """A change that was typed: its form, what it asks for, and what it would do."""

    what: str
    form: Form
    wanted: TenantChange | None
    effects: dict[str, Any]


def tenant_of(actor: Actor, slug: str) -> Tenant:
    """The tenant, for those who look after it: platform, auditors, managers; raises NotFound."""
    require_console(actor)
    tenant = selectors.tenant_for(actor, slug)
    if not actor.sees_everything and not policies.can_administer(actor, tenant):
        raise NotFound
    return tenant


def page(actor: Actor, tenant: Tenant) -> dict[str, Any]:
    """Quota, people, isolation, and what may be done with it."""
    can_manage = policies.can_manage_tenant(actor, tenant) and tenant.deleting_at is None
    return {
        "tenant": tenant,
        "fence": selectors.fence_of(tenant),
        "may_rest": isolation_choice.may_rest(actor, tenant),
        "count": figures.counts(workloads_for(actor).filter(tenant=tenant)),
        "bars": bars(actor, tenant, now=timezone.now()),
        "members": selectors.people_of(tenant),
        "troubles": figures.conditions_wrong(tenant.conditions),
        **attestation_requests.shown(actor, tenant),
        "can_administer": policies.can_administer(actor, tenant) and tenant.deleting_at is None,
        "can_manage": can_manage,
        "can_approve": can_manage and actor.username != tenant.deletion_asked_by,
        "forms": {what: form(initial=_current(tenant)) for what, form in FORMS.items()},
        "name_form": tenancy.NameForm(initial={"name": tenant.name}),
        "live_topics": [f"tenant:{tenant.slug}"],
    }


def change(actor: Actor, tenant: Tenant, what: str, typed: QueryDict, *, now: datetime) -> Change:
    """What was typed, and its effect; raises NotFound for an unknown form."""
    if what not in FORMS:
        raise NotFound
    form = FORMS[what](typed)
    if not form.is_valid():
        return Change(what, form, None, {})
    wanted = _wanted(form)
    return Change(what, form, wanted, _effects(actor, tenant, wanted, now))


def removal(tenant: Tenant) -> dict[str, Any]:
    """The page before a deletion is asked for."""
    return {"tenant": tenant, "removal": cluster_reads.removal_now(tenant)}


def _wanted(form: Form) -> TenantChange:
    data = form.cleaned_data
    if isinstance(form, tenancy.EgressForm):
        return TenantChange(egress=form.egress())
    if "shell" in data:
        return TenantChange(has_shell=data["shell"] == "on")
    if "trust_level" in data:
        return TenantChange(trust_level=TrustLevel(data["trust_level"]))
    return TenantChange(suspend=Suspend(data["suspend"]))


def _effects(actor: Actor, tenant: Tenant, wanted: TenantChange, now: datetime) -> dict[str, Any]:
    if wanted.trust_level is not None:
        return {"moves": moves_for(tenant, wanted.trust_level, now=now)}
    if wanted.egress is not None:
        spec = selectors.tenant_spec(tenant)
        return {"before": _policy(spec), "after": _policy(replace(spec, egress=wanted.egress))}
    if wanted.has_shell is not None:
        on = shell_fence.lacks(tenant) or _SHELL_ON
        return {"told": on if wanted.has_shell else _SHELL_OFF}
    counted = figures.counts(workloads_for(actor).filter(tenant=tenant))
    return {"told": _suspension(wanted.suspend or Suspend.NONE, counted.running, counted.waiting)}


def _suspension(wanted: Suspend, running: int, waiting: int) -> str:
    """What a change of suspension does to the work that is there."""
    if wanted is Suspend.NONE:
        is_admitted = pluralize(waiting, "workload is,workloads are")
        return f"New work starts again; {waiting} waiting {is_admitted} admitted as quota allows."
    waits = "New work waits"
    if waiting:
        waits = f"{waiting} waiting {pluralize(waiting, 'workload,workloads')} and all new work wait"
    waits = f"{waits} until you resume the tenant."
    if not running:
        return f"Nothing is running. {waits}"
    if wanted is Suspend.HOLD:
        return f"{running} running {pluralize(running, 'workload goes,workloads go')} on. {waits}"
    are_stopped = pluralize(running, "workload is,workloads are")
    start = pluralize(running, "starts,start")
    return (
        f"{running} running {are_stopped} stopped now and {start} again once you resume; disks stay. {waits}"
    )


def _policy(spec: Any) -> str:
    """The outgoing rules as the cluster gets them."""
    rules = next(
        manifest["spec"]["egress"]
        for manifest in render_tenant(spec)
        if manifest["kind"] == "NetworkPolicy" and manifest["metadata"]["name"] == "base-allow"
    )
    return yaml.safe_dump(rules, sort_keys=False)


def _current(tenant: Tenant) -> dict[str, str]:
    return {
        "suspend": tenant.suspend,
        "shell": "on" if tenant.has_shell else "off",
        "trust_level": tenant.trust_level,
        "mode": tenant.egress,
        "allow": egress.as_lines(selectors.egress_of(tenant).allow),
    }
