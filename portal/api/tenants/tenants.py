"""REST for tenants and their members."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.cluster.objects.conditions import is_true
from apps.errors import FieldProblem, Invalid
from apps.tenants import selectors
from apps.tenants.isolation import egress
from apps.tenants.isolation.content import POINTER, Content
from apps.tenants.isolation.manifests import render_tenant
from apps.tenants.lifecycle.services import adoption, deletion, isolation_choice, making, tenancy
from apps.tenants.lifecycle.services.making import TenantWish
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.live.services import cluster_reads
from apps.tenants.models import Department, Membership, Tenant
from apps.tenants.specs import Egress, EgressMode, Isolation, Role, Suspend, TrustLevel
from apps.web.requests.lookups import one
from apps.workloads.tenants.services import trusting
from portal.api.base import references
from portal.api.base.documents import DocumentView, documents
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import as_sent, made, settled, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.tenants.shapes import MemberBody, TenantBody, member_body, tenant_body
from portal.api.tenants.tenant_effects import TenantChangeRehearsal, effect_on_work
from portal.api.tenants.tenants_bodies import (
    MemberWishSerializer,
    NewTenantSerializer,
    TenantDocumentSerializer,
)


def _manifests(tenant: Tenant) -> list[dict[str, Any]]:
    return render_tenant(selectors.tenant_spec(tenant))


def _is_settled(tenant: Tenant) -> bool:
    is_observed = tenant.observed_generation == tenant.generation
    return is_observed and tenant.deleting_at is None and is_true(tenant.conditions, "Ready")


class TenantsView(ApiView):
    """The caller's tenants."""

    scope_group = ScopeGroup.TENANTS
    lists = True

    @pages(TenantBody)
    def get(self, request: Request) -> Response:
        """Newest first."""
        return paginate(request, selectors.tenants_for(self.actor), tenant_body)

    @takes(NewTenantSerializer)
    @answers(201, TenantBody, etag=True, location=True)
    @refuses("already_exists", "wrong_phase", "capability_missing", "cluster_unavailable")
    def post(self, request: Request) -> Response:
        """Make one; 201 at once, its namespace follows (`?wait=30` waits for it)."""
        response = idempotent(request, lambda: written(request, self._make, _created, manifests=_manifests))
        return settled(
            request,
            response,
            reload=lambda pk: selectors.tenant_for(self.actor, pk),
            is_done=_is_settled,
            body=tenant_body,
        )

    def _make(self) -> Tenant:
        tenancy.require_maker(self.actor)
        asked = NewTenantSerializer.checked(self.request.data)
        spec = asked["spec"]
        department = references.found(
            "/spec/department",
            lambda: selectors.department_for(self.actor, spec["department"]),
            f"There is no department {spec['department']}.",
        )
        named = asked["namespace"]
        wish = TenantWish(
            department,
            slug=asked["slug"],
            name=asked["name"],
            clusters=spec.get("clusters"),
            trust_level=TrustLevel(spec["trust_level"]),
            isolation=Isolation(spec["isolation"]),
            virtual=spec.get("vcluster"),
            suspend=Suspend(spec["suspend"]),
            egress=_egress(spec.get("egress")),
            has_shell=spec["shell"],
            content=self._content(department, named),
            seen=named["seen"] if named else "",
        )
        return making.create_tenant(actor=self.actor, wish=wish, now=timezone.now())

    def _content(self, department: Department, wish: Mapping[str, Any] | None) -> Content | None:
        """The namespace to be taken over, read before anything is written."""
        if wish is None:
            return None
        adoption.require_taker(self.actor)
        return references.found(
            POINTER,
            lambda: cluster_reads.content_of(department.cluster, wish["name"]),
            f"There is no namespace {wish['name']}.",
        )


@documents(
    TenantDocumentSerializer,
    TenantBody,
    get="By slug or id.",
    put="Replace name and spec; what is omitted gets its default.",
    patch="Merge (RFC 7396); null sets a field back to its default.",
    refusals=("wrong_phase",),
    rehearsal=TenantChangeRehearsal,
)
class TenantView(DocumentView[Tenant]):
    """One tenant. A rehearsal of a lower trust level lists what would become illegal, and where it moves; the
    change itself keeps the moves for the next starts.
    """

    scope_group = ScopeGroup.TENANTS
    find = staticmethod(selectors.tenant_for)
    body = staticmethod(tenant_body)
    manifests = staticmethod(_manifests)
    is_done = staticmethod(_is_settled)

    @answers(202, TenantBody, etag=True)
    @answers(204)
    def delete(self, request: Request, key: str) -> Response:
        """Ask for its deletion.

        It begins once another platform engineer has approved it and the grace is over. 204 where it has gone
        while `wait` lasted.
        """

        def ask(row: Tenant) -> Tenant:
            return deletion.ask_deletion(actor=self.actor, tenant=row, now=timezone.now())

        return self.settled(request, self.remove(request, key, ask))

    def require(self, row: Tenant) -> None:
        """As the service."""
        tenancy.require_administrator(self.actor, row)

    def change(self, row: Tenant, asked: Mapping[str, Any]) -> Tenant:
        """The tenant with the moves of its work, and its virtual cluster."""
        now, virtual = timezone.now(), asked["spec"].get("vcluster") or {}
        changed = trusting.update_tenant(actor=self.actor, tenant=row, change=_wanted(asked, row), now=now)
        return isolation_choice.change_vcluster(actor=self.actor, tenant=changed, virtual=virtual, now=now)

    def told(self, before: Tenant, after: Tenant) -> Mapping[str, Any]:
        """What becomes illegal, and where it moves."""
        return effect_on_work(before, after)


class MembersView(ApiView):
    """The members of a tenant."""

    scope_group = ScopeGroup.TENANTS

    @named("members_list")
    @pages(MemberBody)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By username, all on one page."""
        members = selectors.people_of(selectors.tenant_for(self.actor, key)).select_related("tenant")
        return Response({"items": [member_body(member) for member in members], "next": None})


class MemberView(ApiView):
    """One member of a tenant."""

    scope_group = ScopeGroup.TENANTS
    write_group = ScopeGroup.PEOPLE

    @named("members_retrieve")
    @answers(200, MemberBody)
    def get(self, request: Request, key: str, username: str) -> Response:  # noqa: ARG002 - Django's signature
        """By username."""
        return Response(member_body(one(_member(selectors.tenant_for(self.actor, key), username))))

    @takes(MemberWishSerializer)
    @answers(200, MemberBody)
    @refuses("wrong_phase")
    def put(self, request: Request, key: str, username: str) -> Response:
        """Make somebody a member, or change the role. No If-Match."""

        def wish() -> Membership:
            tenant = selectors.tenant_for(self.actor, key)
            tenancy.require_lead(self.actor, tenant)
            member = _member(tenant, username).first()
            current = as_sent(member_body(member)) if member else {}
            role = Role(MemberWishSerializer.checked(request.data, context={"current": current})["role"])
            return tenancy.set_member(
                actor=self.actor, tenant=tenant, username=username, role=role, now=timezone.now()
            )

        return written(request, wish, lambda member: Response(member_body(member)))

    @answers(204)
    def delete(self, request: Request, key: str, username: str) -> Response:
        """End a membership; a member may leave."""

        def end() -> None:
            tenant = selectors.tenant_for(self.actor, key)
            tenancy.remove_member(actor=self.actor, tenant=tenant, username=username, now=timezone.now())

        return written(request, end, lambda _: Response(status=204))


def _member(tenant: Tenant, username: str) -> QuerySet[Membership]:
    return selectors.people_of(tenant).filter(user__username=username).select_related("tenant")


def _wanted(asked: Mapping[str, Any], row: Tenant) -> TenantChange:
    spec, was = asked["spec"], tenant_body(row)["spec"]
    fixed = {"department": was["department"], "clusters": was["clusters"], "isolation": str(was["isolation"])}
    moved = [field for field, value in fixed.items() if field in spec and spec[field] != value]
    if moved:
        words = "It is fixed once a tenant is made."
        raise Invalid([FieldProblem(f"/spec/{field}", "read_only_field", words) for field in moved])
    return TenantChange(
        name=asked["name"] or row.slug,
        trust_level=TrustLevel(spec["trust_level"]),
        suspend=Suspend(spec["suspend"]),
        egress=_egress(spec.get("egress")),
        has_shell=spec["shell"],
    )


def _egress(asked: Mapping[str, Any] | None) -> Egress:
    if asked is None:
        return Egress()
    return Egress(EgressMode(asked["mode"]), egress.parse(asked["allow"]))


def _created(tenant: Tenant) -> Response:
    return made(tenant_body(tenant), f"/api/v1/tenants/{tenant.pk}", tenant)
