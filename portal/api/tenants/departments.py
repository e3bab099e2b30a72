"""REST for departments."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor, ScopeGroup
from apps.cluster.mirror.selectors.inventory import cluster_for, clusters_for
from apps.cluster.models import Cluster
from apps.errors import FieldProblem, Invalid
from apps.tenants import selectors
from apps.tenants.isolation.manifests import render_department
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Department
from portal.api.base import references
from portal.api.base.documents import DocumentView, documents
from portal.api.base.views import ApiView, idempotent, paginate
from portal.api.base.writing import made, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.tenants.shapes import DepartmentBody, department_body
from portal.api.tenants.tenants_bodies import DepartmentDocumentSerializer, NewDepartmentSerializer


def _cohort(department: Department) -> list[dict[str, Any]]:
    return render_department(selectors.department_spec(department))


class DepartmentsView(ApiView):
    """The departments in which the caller has a tenant."""

    scope_group = ScopeGroup.TENANTS
    lists = True

    @pages(DepartmentBody)
    def get(self, request: Request) -> Response:
        """With the tenants of each that the caller sees."""
        return paginate(request, selectors.departments_for(self.actor), _shown(self.actor))

    @takes(NewDepartmentSerializer)
    @answers(201, DepartmentBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """Make one; its Cohort follows."""

        def answer(row: Department) -> Response:
            return made(_shown(self.actor)(row), f"/api/v1/departments/{row.pk}", row)

        return idempotent(request, lambda: written(request, self._make, answer, manifests=_cohort))

    def _make(self) -> Department:
        tenancy.require_department_keeper(self.actor)
        asked, now = NewDepartmentSerializer.checked(self.request.data), timezone.now()
        spec = asked.get("spec") or {}
        made = tenancy.create_department(
            actor=self.actor,
            slug=asked["slug"],
            name=asked["name"],
            cluster=named_cluster(self.actor, spec.get("cluster", "")),
            managers=spec.get("managers", []),
            now=now,
        )
        return selectors.department_for(self.actor, made.pk)


@documents(
    DepartmentDocumentSerializer,
    DepartmentBody,
    get="By slug or id.",
    put="Replace name and managers.",
    patch="Merge (RFC 7396).",
)
class DepartmentView(DocumentView[Department]):
    """One department."""

    scope_group = ScopeGroup.TENANTS
    find = staticmethod(selectors.department_for)
    manifests = staticmethod(_cohort)

    @answers(202, DepartmentBody, etag=True)
    @refuses("has_dependents")
    def delete(self, request: Request, key: str) -> Response:
        """Ask for its removal; 409 has_dependents while a tenant, or a department below it, is left."""

        def ask(row: Department) -> Department:
            return tenancy.delete_department(actor=self.actor, department=row, now=timezone.now())

        return self.remove(request, key, ask)

    def require(self, row: Department) -> None:  # noqa: ARG002 - the same for every department
        """As the service."""
        tenancy.require_department_keeper(self.actor)

    def shown(self, row: Department) -> DepartmentBody:
        """With the tenants that the caller sees."""
        return _shown(self.actor)(row)

    def change(self, row: Department, asked: Mapping[str, Any]) -> Department:
        """Name and managers; the cluster is fixed."""
        spec = asked.get("spec") or {}
        if spec.get("cluster", row.cluster.slug) != row.cluster.slug:
            words = "It is fixed once a department is made."
            raise Invalid([FieldProblem("/spec/cluster", "read_only_field", words)])
        name, people = asked["name"], spec.get("managers", [])
        tenancy.update_department(
            actor=self.actor, department=row, name=name, managers=people, now=timezone.now()
        )
        return selectors.department_for(self.actor, row.pk)


def _shown(actor: Actor) -> Callable[[Department], DepartmentBody]:
    """How departments look for this caller; the tenants are read once."""
    tenants: dict[Any, list[str]] = {}
    for department, slug in selectors.tenants_for(actor).order_by("slug").values_list("department", "slug"):
        tenants.setdefault(department, []).append(slug)
    return lambda department: department_body(department, tenants.get(department.pk, []))


def named_cluster(actor: Actor, key: str) -> Cluster:
    """The cluster that is named, or the only one."""
    known = list(clusters_for(actor)[:2])
    if not key and len(known) == 1:
        return known[0]
    words = f"There is no cluster {key}." if key else "Name one: there is not exactly one cluster."
    return references.found("/spec/cluster", lambda: cluster_for(actor, key), words)
