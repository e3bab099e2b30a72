"""REST for tenants and their members."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import ScopeGroup
from apps.cluster.conditions import is_true
from apps.errors import FieldProblem, Invalid, NotFound
from apps.tenants import adoption, egress, fencing, lifecycle, live, selectors, services
from apps.tenants.bodies import MemberBody, TenantBody, member_body, tenant_body
from apps.tenants.content import POINTER, Content
from apps.tenants.manifests import render_tenant
from apps.tenants.models import Department, Membership, Tenant
from apps.tenants.services import TenantChange
from apps.tenants.specs import Egress, EgressMode, Isolation, Role, Suspend, TrustLevel
from portal.api.base.views import ApiView, etag, idempotent, paginate, require_match
from portal.api.base.writing import as_sent, document, merged, settled, written
from portal.api.declared.declaring import answers, named, pages, refuses, takes
from portal.api.tenants.tenants_bodies import (
    MemberWishSerializer,
    NewTenantSerializer,
    TenantDocumentSerializer,
)

FIXED = ("department", "clusters", "isolation")


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
        return _settled(self, request, response)

    def _make(self) -> Tenant:
        services.require_maker(self.actor)
        asked = NewTenantSerializer.checked(self.request.data)
        spec = asked["spec"]
        try:
            department = selectors.department_for(self.actor, spec["department"])
        except NotFound:
            words = f"There is no department {spec['department']}."
            raise Invalid([FieldProblem("/spec/department", "reference_not_found", words)]) from None
        if spec.get("clusters", [department.cluster.slug]) != [department.cluster.slug]:
            words = f"A tenant of {department.slug} is on the cluster {department.cluster.slug}."
            raise Invalid([FieldProblem("/spec/clusters", "invalid_value", words)])
        content = self._content(department, asked["namespace"])
        tenant = services.create_tenant(
            actor=self.actor,
            slug=asked["slug"],
            name=asked["name"],
            department=department,
            trust_level=TrustLevel(spec["trust_level"]),
            now=timezone.now(),
        )
        tenant = fencing.fence(
            actor=self.actor,
            tenant=tenant,
            isolation=Isolation(spec["isolation"]),
            virtual=spec.get("vcluster"),
            now=timezone.now(),
        )
        if content is not None:
            seen = asked["namespace"]["seen"]
            tenant = adoption.take_over(
                actor=self.actor, tenant=tenant, content=content, seen=seen, now=timezone.now()
            )
        return self._completed(tenant, Suspend(spec["suspend"]), _egress(spec.get("egress")))

    def _content(self, department: Department, wish: Mapping[str, Any] | None) -> Content | None:
        """The namespace to be taken over, read before anything is written."""
        if wish is None:
            return None
        adoption.require_taker(self.actor)
        try:
            return live.content_of(department.cluster, wish["name"])
        except NotFound:
            words = f"There is no namespace {wish['name']}."
            raise Invalid([FieldProblem(POINTER, "reference_not_found", words)]) from None

    def _completed(self, tenant: Tenant, suspend: Suspend, reach: Egress) -> Tenant:
        if suspend is Suspend.NONE and reach == Egress():
            return tenant
        change = TenantChange(suspend=suspend, egress=reach)
        return services.update_tenant(actor=self.actor, tenant=tenant, change=change, now=timezone.now())


class TenantView(ApiView):
    """One tenant. What lies above adds its PUT and PATCH: a change of it moves work."""

    scope_group = ScopeGroup.TENANTS
    matched_methods = ("PUT", "PATCH", "DELETE")

    @answers(200, TenantBody, etag=True)
    def get(self, request: Request, key: str) -> Response:  # noqa: ARG002 - Django's signature
        """By slug or id."""
        return _shown(selectors.tenant_for(self.actor, key))

    @answers(202, TenantBody, etag=True)
    @answers(204)
    def delete(self, request: Request, key: str) -> Response:
        """Ask for its deletion.

        It begins once another platform engineer has approved it and the grace is over. 204 where it has gone
        while `wait` lasted.
        """

        def ask() -> Tenant:
            tenant = self._locked(request, key)
            return lifecycle.ask_deletion(actor=self.actor, tenant=tenant, now=timezone.now())

        response = written(request, ask, lambda tenant: _shown(tenant, status=202))
        return _settled(self, request, response)

    def change(self, request: Request, key: str, *, is_patch: bool) -> Response:
        """PUT or PATCH."""
        before: list[Tenant] = []

        def change() -> Tenant:
            tenant = self._locked(request, key)
            before.append(tenant)
            current = as_sent(tenant_body(tenant))
            now = {name: current[name] for name in ("name", "spec")}
            asked = TenantDocumentSerializer.checked(
                merged(now, document(request)) if is_patch else document(request),
                context={"current": current},
            )
            wanted = _wanted(asked, current)
            changed = self.update(tenant, wanted)
            virtual = asked["spec"].get("vcluster") or {}
            return fencing.change_vcluster(
                actor=self.actor, tenant=changed, virtual=virtual, now=timezone.now()
            )

        response = written(
            request, change, _shown, manifests=_manifests, told=lambda after: self.told(before[0], after)
        )
        return _settled(self, request, response)

    def update(self, tenant: Tenant, change: TenantChange) -> Tenant:
        """The change itself; what lies above adds what follows from it."""
        return services.update_tenant(actor=self.actor, tenant=tenant, change=change, now=timezone.now())

    def told(self, before: Tenant, after: Tenant) -> Mapping[str, Any]:  # noqa: ARG002 - what lies above tells
        """What else a rehearsal of a change tells."""
        return {}

    def _locked(self, request: Request, key: str) -> Tenant:
        tenant = selectors.tenant_for(self.actor, key, lock=True)
        services.require_administrator(self.actor, tenant)
        require_match(request, tenant.generation)
        return tenant


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
        return Response(member_body(_only(_member(selectors.tenant_for(self.actor, key), username))))

    @takes(MemberWishSerializer)
    @answers(200, MemberBody)
    @refuses("wrong_phase")
    def put(self, request: Request, key: str, username: str) -> Response:
        """Make somebody a member, or change the role. No If-Match."""

        def wish() -> Membership:
            tenant = selectors.tenant_for(self.actor, key)
            services.require_lead(self.actor, tenant)
            member = _member(tenant, username)
            current = as_sent(member_body(member)) if member else {}
            role = Role(MemberWishSerializer.checked(request.data, context={"current": current})["role"])
            return services.set_member(
                actor=self.actor, tenant=tenant, username=username, role=role, now=timezone.now()
            )

        return written(request, wish, lambda member: Response(member_body(member)))

    @answers(204)
    def delete(self, request: Request, key: str, username: str) -> Response:
        """End a membership; a member may leave."""

        def end() -> None:
            tenant = selectors.tenant_for(self.actor, key)
            services.remove_member(actor=self.actor, tenant=tenant, username=username, now=timezone.now())

        return written(request, end, lambda _: Response(status=204))


def _member(tenant: Tenant, username: str) -> Membership | None:
    found = selectors.people_of(tenant).filter(user__username=username)
    return found.select_related("tenant").first()


def _wanted(asked: Mapping[str, Any], current: Mapping[str, Any]) -> TenantChange:
    spec, was = asked["spec"], current["spec"]
    moved = [field for field in FIXED if field in spec and spec[field] != was[field]]
    if moved:
        words = "It is fixed once a tenant is made."
        raise Invalid([FieldProblem(f"/spec/{field}", "read_only_field", words) for field in moved])
    return TenantChange(
        name=asked["name"] or current["slug"],
        trust_level=TrustLevel(spec["trust_level"]),
        suspend=Suspend(spec["suspend"]),
        egress=_egress(spec.get("egress")),
    )


def _egress(asked: Mapping[str, Any] | None) -> Egress:
    if asked is None:
        return Egress()
    return Egress(EgressMode(asked["mode"]), egress.parse(asked["allow"]))


def _is_settled(tenant: Tenant) -> bool:
    is_observed = tenant.observed_generation == tenant.generation
    return is_observed and tenant.deleting_at is None and is_true(tenant.conditions, "Ready")


def _settled(view: ApiView, request: Request, response: Response) -> Response:
    return settled(
        request,
        response,
        reload=lambda pk: selectors.tenant_for(view.actor, pk),
        is_done=_is_settled,
        body=tenant_body,
    )


def _manifests(tenant: Tenant) -> list[dict[str, Any]]:
    return render_tenant(selectors.tenant_spec(tenant))


def _shown(tenant: Tenant, status: int = 200) -> Response:
    return Response(tenant_body(tenant), status=status, headers={"ETag": etag(tenant)})


def _created(tenant: Tenant) -> Response:
    response = _shown(tenant, status=201)
    response["Location"] = f"/api/v1/tenants/{tenant.pk}"
    return response


def _only(member: Membership | None) -> Membership:
    if member is None:
        raise NotFound
    return member
