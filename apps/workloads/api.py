"""REST of workloads: parse, call, present. Contract: docs/api.md."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor
from apps.cluster.selectors import one_look
from apps.errors import FieldProblem, Invalid, NotFound
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.web.api import (
    ApiView,
    etag,
    flag,
    idempotent,
    moment,
    paginate_whole,
    require_match,
    told_after,
    words,
)
from apps.web.refusals import BadParameter
from apps.web.writing import settled
from apps.workloads import selectors, serializers, services, waiting, writing
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase

FILTERS = frozenset({"tenant", "slug", "phase", "kind", "offer", "created_from", "created_to", "q"})
SETTLED = (Phase.RUNNING, Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED)


class WorkloadView(ApiView):
    """What all views of one workload share."""

    scope_group = "workloads"
    _made: Workload | None = None

    def shown(self, row: Workload) -> dict[str, Any]:
        """The object as this caller sees it."""
        return serializers.shown(row, self.actor, timezone.now())

    def fresh(self, row: Workload) -> Workload:
        """The row as it is now; raises NotFound once it is gone."""
        return selectors.workload_for(self.actor, row.pk)

    def answer(self, row: Workload, status: int) -> Response:
        """The object with its ETag."""
        return Response(self.shown(row), status=status, headers={"ETag": etag(row)})

    def dry(self, request: Request, row: Workload) -> Response | None:
        """The answer to a dry run, everything undone; None where it is meant."""
        if not flag(request, "dry_run"):
            return None
        result = self.shown(row)
        transaction.set_rollback(True)
        return Response({"dry_run": True, "result": result, "warnings": []})

    def is_done(self, row: Workload) -> bool:
        """A change is done when it was observed and nothing moves any more."""
        return row.observed_generation == row.generation and row.phase in SETTLED

    def made(self, request: Request, row: Workload) -> Response:
        """Where a new one is; a dry run says what it would be, and stores nothing of it."""
        if flag(request, "dry_run"):
            preview = services.preview_of(row, now=timezone.now())
            answer = Response(serializers.dry_run(preview, self.shown(row)))
            transaction.set_rollback(True)
            return answer
        self._made = row
        return Response(None, status=201, headers={"Location": f"/api/v1/workloads/{row.pk}"})

    def told(self, where: str) -> Response:
        """The answer to a new one, once it is stored: from the row in hand; to a repeat, from the stored."""
        row = self._made or selectors.workload_for(self.actor, where.rpartition("/")[2])
        # What was made a moment ago has no place in Kueue's queue yet.
        queues = waiting.queues_of([row.cluster_id], rows=()) if self._made else None
        shown = serializers.shown(row, self.actor, timezone.now(), queues)
        response = Response(shown, status=201, headers={"ETag": etag(row)})
        response["Location"] = where
        return response

    def waited(self, request: Request, response: Response) -> Response:
        """With `?wait=`, the object once its change is done or the time is over."""
        return settled(
            request,
            response,
            reload=lambda pk: selectors.workload_for(self.actor, pk),
            is_done=self.is_done,
            body=self.shown,
        )

    def require(self, row: Workload) -> None:
        """Raises NotAllowed unless the caller may do this."""
        writing.require_operate(self.actor, row)

    def matched(self, request: Request, pk: str, *, required: bool) -> Workload:
        """The row, locked, if the caller may operate it and `If-Match` fits."""
        row = selectors.workload_for(self.actor, pk)
        self.require(row)
        _ = request.data  # a body that cannot be read is refused before preconditions are
        locked = Workload.objects.select_for_update().filter(pk=row.pk, deleted_at=None).first()
        if locked is None:
            raise NotFound
        require_match(request, locked.generation, required=required)
        return row


class WorkloadList(WorkloadView):
    """`workloads`: list and create."""

    lists = True
    parameters: ClassVar[frozenset[str]] = FILTERS

    def get(self, request: Request) -> Response:
        """The workloads of the caller's tenants, newest first."""
        with one_look():
            rows = _filtered(self.actor, request, selectors.workloads_for(self.actor).select_related(None))
            return paginate_whole(request, rows, self._page)

    def _page(self, rows: list[Workload]) -> list[dict[str, Any]]:
        selectors.complete(rows)
        now, queues = timezone.now(), waiting.queues_of({row.cluster_id for row in rows}, rows)
        return [serializers.shown(row, self.actor, now, queues) for row in rows]

    def post(self, request: Request) -> Response:
        """Ask for one: 201 even while it waits; `dry_run=true` stores nothing."""
        with one_look():
            answer = told_after(request, lambda: self._create(request), self.told)
        return self.waited(request, answer)

    def _create(self, request: Request) -> Response:
        body = serializers.NewWorkload.checked(request.data)
        tenant = self._tenant(body["tenant"])
        writing.require_submit(self.actor, tenant)
        asked: dict[str, Any] = {
            "actor": self.actor,
            "tenant": tenant,
            "request": serializers.request_of(body),
            "now": timezone.now(),
        }
        return self.made(request, services.submit_workload(**asked))

    def _tenant(self, key: str) -> Tenant:
        try:
            return tenant_for(self.actor, key)
        except NotFound:
            problem = FieldProblem("/tenant", "reference_not_found", "There is no such tenant.")
            raise Invalid([problem]) from None


class WorkloadDetail(WorkloadView):
    """`workloads/{id}`."""

    matched_methods = ("PUT", "PATCH", "DELETE")
    write_parameters: ClassVar[frozenset[str]] = ApiView.write_parameters | {"keep_volumes"}

    def get(self, _request: Request, pk: str) -> Response:
        """One workload."""
        return self.answer(selectors.workload_for(self.actor, pk), 200)

    def put(self, request: Request, pk: str) -> Response:
        """Replace the writable fields."""
        return self.waited(request, self._change(request, pk, serializers.replacement_of))

    def patch(self, request: Request, pk: str) -> Response:
        """Merge into the writable fields (RFC 7396)."""
        return self.waited(request, self._change(request, pk, serializers.patch_of))

    @transaction.atomic
    def _change(
        self, request: Request, pk: str, read: Callable[[Mapping[str, Any], Workload], Any]
    ) -> Response:
        row = self.matched(request, pk, required=True)
        current = json.loads(JSONRenderer().render(self.shown(row)))
        body = serializers.ChangedWorkload.checked(request.data, context={"current": current})
        changed = services.update_workload(
            actor=self.actor, workload=row, change=read(body, row), now=timezone.now()
        )
        return self.dry(request, changed) or self.answer(changed, 200)

    def delete(self, request: Request, pk: str) -> Response:
        """Remove it; 202 while the cluster tears it down."""
        return self.waited(request, self._delete(request, pk))

    @transaction.atomic
    def _delete(self, request: Request, pk: str) -> Response:
        row = self.matched(request, pk, required=True)
        gone = services.delete_workload(
            actor=self.actor, workload=row, keep_volumes=flag(request, "keep_volumes"), now=timezone.now()
        )
        return self.dry(request, gone) or self.answer(gone, 202)


class WorkloadAction(WorkloadView):
    """`POST workloads/{id}/<verb>`: a subclass says which service; `If-Match` is optional."""

    body: ClassVar[type[serializers.Reason]] = serializers.Reason
    done_status: ClassVar[int] = 202

    def act(self, **asked: Any) -> Workload:
        """The service's verb."""
        raise NotImplementedError

    def post(self, request: Request, pk: str) -> Response:
        """Do it once per Idempotency-Key."""
        return self.waited(request, idempotent(request, lambda: self._act(request, pk)))

    @transaction.atomic
    def _act(self, request: Request, pk: str) -> Response:
        row = self.matched(request, pk, required=False)
        asked = self.body.checked(request.data)
        changed = self.act(actor=self.actor, workload=row, now=timezone.now(), **asked)
        return self.dry(request, changed) or self.answer(changed, self.done_status)


class StopWorkload(WorkloadAction):
    """`+stop`: also by managers of the department."""

    act = staticmethod(services.stop_workload)  # type: ignore[assignment]

    def require(self, row: Workload) -> None:
        """As the service that stops."""
        writing.require_stop(self.actor, row)


class ResumeWorkload(WorkloadAction):
    """`+resume`."""

    act = staticmethod(services.resume_workload)  # type: ignore[assignment]


class ExtendWorkload(WorkloadAction):
    """`+extend`: done at once."""

    body = serializers.Extension
    done_status = 200
    act = staticmethod(services.extend_workload)  # type: ignore[assignment]


class DuplicateWorkload(WorkloadView):
    """`+duplicate`: a new workload like this one."""

    def post(self, request: Request, pk: str) -> Response:
        """201 with the copy."""
        return self.waited(request, told_after(request, lambda: self._copy(request, pk), self.told))

    def _copy(self, request: Request, pk: str) -> Response:
        row = selectors.workload_for(self.actor, pk)
        writing.require_submit(self.actor, row.tenant)
        asked = serializers.copy_of(serializers.Duplicate.checked(request.data), row)
        copy = services.submit_workload(
            actor=self.actor, tenant=row.tenant, request=asked, now=timezone.now()
        )
        return self.made(request, copy)


def _filtered(actor: Actor, request: Request, rows: QuerySet[Workload]) -> QuerySet[Workload]:
    query = request.query_params
    if "tenant" in query:
        rows = rows.filter(tenant__in=[_known(actor, key) for key in query["tenant"].split(",")])
    for name, column in (("slug", "slug"), ("offer", "offer__slug")):
        if name in query:
            rows = rows.filter(**{f"{column}__in": query[name].split(",")})
    asked = {name: words(request, name, known) for name, known in (("phase", Phase), ("kind", Kind))}
    rows = rows.filter(**{f"{name}__in": found for name, found in asked.items() if found is not None})
    for name, lookup in (("created_from", "gte"), ("created_to", "lt")):
        if name in query:
            rows = rows.filter(**{f"created_at__{lookup}": moment(request, name)})
    text = query.get("q", "")
    return rows.filter(Q(name__icontains=text) | Q(slug__icontains=text)) if text else rows


def _known(actor: Actor, key: str) -> Tenant:
    try:
        return tenant_for(actor, key)
    except NotFound:
        raise BadParameter("tenant", "There is no such tenant.") from None
