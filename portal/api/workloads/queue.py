"""REST of the queue's order: move, hold and release what waits. Contract: docs/api.md."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.db import transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from apps.workloads.models import Workload
from apps.workloads.queue.rules.effects import Arrangement
from apps.workloads.queue.services import arranging
from apps.workloads.selectors import reading
from portal.api.base.views import idempotent
from portal.api.base.writing import DRY_RUN
from portal.api.declared.declaring import Handler, answers, refuses, rehearses, takes
from portal.api.workloads import workloads_bodies
from portal.api.workloads.shapes import ArrangementRehearsalBody, WorkloadBody
from portal.api.workloads.views import WorkloadView


def arranges(shape: type[workloads_bodies.WorkloadReason]) -> Callable[[Handler], Handler]:
    """What the three acts take, answer, rehearse and refuse."""

    def declared(handler: Handler) -> Handler:
        answering = answers(202, WorkloadBody, etag=True)(refuses("wrong_phase")(handler))
        return takes(shape)(rehearses(ArrangementRehearsalBody)(answering))

    return declared


class ArrangeWorkload(WorkloadView):
    """`POST workloads/{id}/<verb>`; a dry run answers the effect. `If-Match` is optional."""

    may_match = ("POST",)
    body: ClassVar[type[workloads_bodies.WorkloadReason]] = workloads_bodies.WorkloadReason
    arrangement: ClassVar[Arrangement]

    def is_done(self, row: Workload) -> bool:
        """Once the cluster has it; it goes on waiting."""
        return row.observed_generation == row.generation

    def done(self, request: Request, pk: str) -> Response:
        """Do it once per Idempotency-Key."""
        return self.waited(request, idempotent(request, lambda: self._arrange(request, pk)))

    @transaction.atomic
    def _arrange(self, request: Request, pk: str) -> Response:
        arranging.require_arrange(self.actor, reading.workload_for(self.actor, pk))
        row = self.matched(request, pk, required=False)
        asked = self.body.checked(request.data)
        wanted = self.wanted(asked)
        if DRY_RUN.of(request):
            found = arranging.effect_of(actor=self.actor, workload=row, arrangement=wanted)
            return Response(workloads_bodies.effect(found, self.shown(row)))
        changed = arranging.arrange_workload(
            actor=self.actor, workload=row, arrangement=wanted, reason=asked["reason"], now=timezone.now()
        )
        return self.answer(changed, 202)

    def wanted(self, _asked: dict[str, Any]) -> Arrangement:
        """What the body asks for."""
        return self.arrangement


class HoldWorkload(ArrangeWorkload):
    """`+hold`: it stops waiting and keeps its age."""

    arrangement = Arrangement.HOLD

    @arranges(workloads_bodies.WorkloadReason)
    def post(self, request: Request, pk: str) -> Response:
        """Take what waits out of its queue; it keeps its age."""
        return self.done(request, pk)


class ReleaseWorkload(ArrangeWorkload):
    """`+release`: it waits again, from its old place."""

    arrangement = Arrangement.RELEASE

    @arranges(workloads_bodies.WorkloadReason)
    def post(self, request: Request, pk: str) -> Response:
        """Let what was held wait again, from its old place."""
        return self.done(request, pk)


class MoveWorkload(ArrangeWorkload):
    """`+move`: to the front of its tenant's queue, or back to its usual place."""

    body = workloads_bodies.WorkloadMove

    @arranges(workloads_bodies.WorkloadMove)
    def post(self, request: Request, pk: str) -> Response:
        """Move what waits to the front of its tenant's queue, or back to its usual place."""
        return self.done(request, pk)

    def wanted(self, asked: dict[str, Any]) -> Arrangement:
        """`to`: front or usual."""
        return Arrangement(asked["to"])
