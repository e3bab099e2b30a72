"""REST for departments."""

from collections.abc import Callable, Mapping
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor, ScopeGroup
from apps.cluster.models import Cluster
from apps.cluster.selectors import cluster_for, clusters_for
from apps.errors import FieldProblem, Invalid, NotFound
from apps.tenants import selectors, services
from apps.tenants.bodies import DepartmentBody, department_body
from apps.tenants.manifests import render_department
from apps.tenants.models import Department
from portal.api.base.views import ApiView, etag, idempotent, paginate, require_match
from portal.api.base.writing import as_sent, document, merged, written
from portal.api.declared.declaring import answers, pages, refuses, takes
from portal.api.tenants.tenants_bodies import DepartmentDocumentSerializer, NewDepartmentSerializer


class DepartmentsView(ApiView):
    """The departments in which the caller has a tenant."""

    scope_group = ScopeGroup.TENANTS
    lists = True

    @pages(DepartmentBody)
    def get(self, request: Request) -> Response:
        """With the tenants of each that the caller sees."""
        return paginate(request, selectors.departments_for(self.actor), self.shown())

    @takes(NewDepartmentSerializer)
    @answers(201, DepartmentBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """Make one; its Cohort follows."""

        def made(department: Department) -> Response:
            headers = {"ETag": etag(department), "Location": f"/api/v1/departments/{department.pk}"}
            return Response(self.shown()(department), status=201, headers=headers)

        return idempotent(request, lambda: written(request, self._make, made, manifests=_cohort))

    def _make(self) -> Department:
        services.require_department_keeper(self.actor)
        asked, now = NewDepartmentSerializer.checked(self.request.data), timezone.now()
        spec = asked.get("spec") or {}
        made = services.create_department(
            actor=self.actor,
            slug=asked["slug"],
            name=asked["name"],
            cluster=named_cluster(self.actor, spec.get("cluster", "")),
            now=now,
        )
        return self._managed(made, spec.get("managers", []))

    def _managed(self, department: Department, usernames: list[str]) -> Department:
        services.set_managers(
            actor=self.actor, department=department, usernames=usernames, now=timezone.now()
        )
        return selectors.department_for(self.actor, department.pk)

    def shown(self) -> Callable[[Department], DepartmentBody]:
        """How a department looks for this caller."""
        tenants: dict[Any, list[str]] = {}
        for department, slug in (
            selectors.tenants_for(self.actor).order_by("slug").values_list("department", "slug")
        ):
            tenants.setdefault(department, []).append(slug)
        return lambda department: department_body(department, tenants.get(department.pk, []))


class DepartmentView(DepartmentsView):
    """One department."""

    lists = False
    matched_methods = ("PUT", "PATCH", "DELETE")
    http_method_names = ("get", "head", "options", "put", "patch", "delete")

    @answers(200, DepartmentBody, etag=True)
    def get(self, request: Request, key: str) -> Response:  # type: ignore[override]  # noqa: ARG002 - Django's signature
        """By slug or id."""
        return self._answer(selectors.department_for(self.actor, key))

    @takes(DepartmentDocumentSerializer)
    @answers(200, DepartmentBody, etag=True)
    def put(self, request: Request, key: str) -> Response:
        """Replace name and managers."""
        return self._change(request, key, lambda _: document(request))

    @takes(DepartmentDocumentSerializer)
    @answers(200, DepartmentBody, etag=True)
    def patch(self, request: Request, key: str) -> Response:
        """Merge (RFC 7396)."""
        return self._change(request, key, lambda now: merged(now, document(request)))

    @answers(202, DepartmentBody, etag=True)
    @refuses("has_dependents")
    def delete(self, request: Request, key: str) -> Response:
        """Ask for its removal; 409 has_dependents while a tenant is left."""

        def ask() -> Department:
            department = self._matched(request, key)
            return services.delete_department(actor=self.actor, department=department, now=timezone.now())

        return written(request, ask, lambda row: self._answer(row, status=202))

    def _change(
        self, request: Request, key: str, asked_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> Response:
        def change() -> Department:
            department = self._matched(request, key)
            current = as_sent(self.shown()(department))
            now = {name: current[name] for name in ("name", "spec")}
            asked = DepartmentDocumentSerializer.checked(asked_of(now), context={"current": current})
            spec = asked.get("spec") or {}
            if spec.get("cluster", current["spec"]["cluster"]) != current["spec"]["cluster"]:
                words = "It is fixed once a department is made."
                raise Invalid([FieldProblem("/spec/cluster", "read_only_field", words)])
            renamed = services.rename_department(
                actor=self.actor, department=department, name=asked["name"], now=timezone.now()
            )
            return self._managed(renamed, spec.get("managers", []))

        return written(request, change, self._answer, manifests=_cohort)

    def _matched(self, request: Request, key: str) -> Department:
        department = selectors.department_for(self.actor, key, lock=True)
        services.require_department_keeper(self.actor)
        require_match(request, department.generation)
        return department

    def _answer(self, department: Department, status: int = 200) -> Response:
        return Response(self.shown()(department), status=status, headers={"ETag": etag(department)})


def named_cluster(actor: Actor, key: str) -> Cluster:
    """The cluster that is named, or the only one."""
    known = list(clusters_for(actor)[:2])
    if not key and len(known) == 1:
        return known[0]
    try:
        return cluster_for(actor, key)
    except NotFound:
        words = f"There is no cluster {key}." if key else "Name one: there is not exactly one cluster."
        raise Invalid([FieldProblem("/spec/cluster", "reference_not_found", words)]) from None


def _cohort(department: Department) -> list[dict[str, Any]]:
    return render_department(selectors.department_spec(department))
