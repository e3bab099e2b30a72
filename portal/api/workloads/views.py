"""What the views of one workload share: how it is found, matched, shown and waited for."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.errors import NotFound
from apps.tenants.models import Tenant
from apps.web.requests.rehearsals import rehearsal
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadRequest
from apps.workloads.waiting.selectors import waiting
from portal.api.base.views import ApiView, etag, require_match
from portal.api.base.writing import DRY_RUN, settled
from portal.api.declared.queries import Text
from portal.api.workloads import workloads_bodies
from portal.api.workloads.shapes import WorkloadBody

BY_SLUG = Text("tenant", "The tenant, by slug or id, where the address has the slug of a workload.")
SETTLED = (Phase.RUNNING, Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED)


class WorkloadView(ApiView):
    """What all views of one workload share."""

    scope_group = "workloads"
    _made: Workload | None = None

    @cached_property
    def now(self) -> datetime:
        """The moment at which this request is judged, from its first question to its answer."""
        return timezone.now()

    def shown(self, row: Workload, *, now: datetime | None = None) -> WorkloadBody:
        """The object as this caller sees it; without `now` as it is by the time of asking, after a wait."""
        return workloads_bodies.shown(row, self.actor, now or timezone.now())

    def answer(self, row: Workload, status: int = 200) -> Response:
        """The object with its ETag."""
        return Response(self.shown(row), status=status, headers={"ETag": etag(row)})

    def is_done(self, row: Workload) -> bool:
        """A change is done when it was observed and nothing moves any more."""
        return row.observed_generation == row.generation and row.phase in SETTLED

    def submit(self, tenant: Tenant, request: WorkloadRequest, *, is_locked: bool = False) -> Workload:
        """Ask for a new one; `is_locked` as `verbs.submit_workload` says it."""
        return verbs.submit_workload(
            actor=self.actor, tenant=tenant, request=request, now=self.now, is_locked=is_locked
        )

    def submitted(self, request: Request, submit: Callable[[], Workload]) -> Response:
        """Where a new one is; a dry run says what it would be, and stores nothing of it. In a transaction."""
        if DRY_RUN.of(request):
            with rehearsal():
                row = submit()
                preview = verbs.preview_of(row, now=self.now)
                return Response(workloads_bodies.dry_run(preview, self.shown(row, now=self.now)))
        self._made = submit()
        return Response(None, status=201, headers={"Location": f"/api/v1/workloads/{self._made.pk}"})

    def told(self, where: str) -> Response:
        """The answer to a new one, once it is stored: from the row in hand; to a repeat, from the stored."""
        row = self._made or reading.workload_for(self.actor, where.rpartition("/")[2])
        # What was made a moment ago has no place in Kueue's queue yet.
        queues = waiting.queues_of([row.cluster_id], rows=()) if self._made else None
        shown = workloads_bodies.shown(row, self.actor, self.now, queues)
        response = Response(shown, status=201, headers={"ETag": etag(row)})
        response["Location"] = where
        return response

    def waited(self, request: Request, response: Response) -> Response:
        """With `?wait=`, the object once its change is done or the time is over."""
        return settled(
            request,
            response,
            reload=lambda pk: reading.workload_for(self.actor, pk),
            is_done=self.is_done,
            body=self.shown,
        )

    def require(self, row: Workload) -> None:
        """Raises NotAllowed unless the caller may do this."""
        writing.require_operate(self.actor, row)

    def found(self, key: str) -> Workload:
        """The workload of an address: by id, with `?tenant=` by its slug in that tenant; raises NotFound."""
        tenant = BY_SLUG.of(self.request)
        if tenant is None:
            return reading.workload_for(self.actor, key)
        return reading.workload_named(self.actor, key, tenant)

    def matched(self, request: Request, pk: str, *, required: bool) -> Workload:
        """The row, locked, if the caller may operate it and `If-Match` fits."""
        row = self.found(pk)
        self.require(row)
        _ = request.data  # a body that cannot be read is refused before preconditions are
        generation = writing.locked_generation(row.pk)
        if generation is None:
            raise NotFound
        require_match(request, generation, required=required)
        return row if row.generation == generation else self.found(pk)
