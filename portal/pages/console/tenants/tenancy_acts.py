"""What happens after a valid tenant, department or people form: services, then the next address."""

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors.inventory import clusters_for
from apps.errors import FieldProblem, Invalid, NotFound
from apps.tenants import selectors
from apps.tenants.isolation.content import Content
from apps.tenants.lifecycle.services import adoption, making, tenancy
from apps.tenants.lifecycle.services.making import TenantWish
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Department
from apps.tenants.specs import Isolation, TrustLevel
from portal.pages.console.tenants.tenancy import require_console
from portal.pages.console.tenants.tenancy_forms import DepartmentForm, TenantForm


def tenant_form(actor: Actor, request: HttpRequest) -> TenantForm:
    """The form of a new tenant; whoever may make none is refused before it is read."""
    require_console(actor)
    if request.method == "POST":
        tenancy.require_maker(actor)
    return TenantForm(actor, request.POST or None)


def content_of(actor: Actor, form: TenantForm) -> Content | None:
    """What lies in the namespace that was named."""
    if not form.is_bound or not form.is_valid() or not form.cleaned_data["namespace"]:
        return None
    adoption.require_taker(actor)
    department = selectors.department_for(actor, form.cleaned_data["department"])
    try:
        return cluster_reads.content_of(department.cluster, form.cleaned_data["namespace"])
    except NotFound:
        form.add_error("namespace", f"{department.cluster.name} has no such namespace.")
        return None


def make_tenant(actor: Actor, form: TenantForm, content: Content | None) -> str:
    """A tenant, in the namespace whose content was shown if one was named."""
    typed = form.cleaned_data
    wish = TenantWish(
        selectors.department_for(actor, typed["department"]),
        slug=typed["slug"],
        name=typed["name"],
        trust_level=TrustLevel(typed["trust_level"]),
        isolation=Isolation(typed["isolation"] or Isolation.NAMESPACE),
        content=content,
        seen=typed["seen"],
    )
    tenant = making.create_tenant(actor=actor, wish=wish, now=timezone.now())
    return f"/console/tenants/{tenant.slug}/"


def make_department(actor: Actor, form: DepartmentForm, now: datetime) -> str:
    """A department on the first cluster, with its managers."""
    tenancy.require_department_keeper(actor)
    cluster = clusters_for(actor).first()
    if cluster is None:
        raise Invalid([FieldProblem("/name", "invalid_value", "Register a cluster first.")])
    name, people = form.cleaned_data["name"], form.usernames()
    tenancy.create_department(actor=actor, slug="", name=name, cluster=cluster, managers=people, now=now)
    return "/console/departments/"


def change_department(actor: Actor, row: Department, form: DepartmentForm, now: datetime) -> str:
    """Its name and its managers."""
    name, people = form.cleaned_data["name"], form.usernames()
    tenancy.update_department(actor=actor, department=row, name=name, managers=people, now=now)
    return "/console/departments/"
