"""REST of workloads: parse, call, present. Contract: docs/api.md."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actors import credential_of
from apps.accounts.specs import Actor
from apps.cluster import request_cache
from apps.errors import NotFound
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.transactions import whole
from apps.web.problems.refusals import BadParameter
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import UNLISTED, Workload
from apps.workloads.opening.selectors import access
from apps.workloads.opening.services import openings
from apps.workloads.selectors import label_conditions, reading, rerun
from apps.workloads.spec import label_selectors
from apps.workloads.specs import Kind, Phase, WorkloadChange
from apps.workloads.waiting.selectors import waiting
from portal.api.base import references
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import (
    ApiView,
    idempotent,
    paginate_whole,
    require_absent,
    require_match,
    told_after,
)
from portal.api.base.writing import as_sent, written
from portal.api.declared.declaring import answers, pages, reads, refuses, rehearses, takes
from portal.api.declared.queries import Flag, Moment, Text, Texts, Words
from portal.api.workloads import workloads_bodies
from portal.api.workloads.shapes import (
    NewWorkloadRehearsalBody,
    OneTimeAddressBody,
    WorkloadBody,
    WorkloadChangeRehearsalBody,
)
from portal.api.workloads.views import BY_SLUG, WorkloadView

TENANT = Texts("tenant", "Only of these tenants, by slug or id.")
SLUG = Texts("slug", "Only with these slugs.")
OFFER = Texts("offer", "Only on these offers, by slug.")
PHASE = Words("phase", "Only in these phases.", tuple(Phase))
KIND = Words("kind", "Only of these kinds.", tuple(Kind))
CREATED_FROM = Moment("created_from", "Only those made at this time or later.")
CREATED_TO = Moment("created_to", "Only those made before this time.")
SEARCH = Text("q", "Only with this text in name or slug.")
KEEP_VOLUMES = Flag("keep_volumes", "DELETE leaves the volumes as they are.")
RESTART = Flag(
    "restart", "PUT and PATCH may restart a notebook that runs, where the change needs it: it queues anew."
)
LABELS = Text(
    "label_selector",
    "Only with these labels, as kubectl selects them: `a=b,c in (d,e),!f`.",
    longest=label_selectors.LONGEST,
)
FIT = ("offer_not_allowed", "quota_exceeded", "does_not_fit_now", "wrong_phase")
"""The refusals of a request that its tenant, offer or quota does not allow."""


class WorkloadList(WorkloadView):
    """`workloads`: list and create."""

    lists = True
    parameters = (TENANT, SLUG, PHASE, KIND, OFFER, CREATED_FROM, CREATED_TO, SEARCH, LABELS)

    @pages(WorkloadBody)
    def get(self, request: Request) -> Response:
        """The workloads of the caller's tenants, newest first."""
        with request_cache.scope():
            seen = reading.workloads_for(self.actor).select_related(None).defer(*UNLISTED)
            return paginate_whole(request, _filtered(self.actor, request, seen), self._page)

    def _page(self, rows: list[Workload]) -> list[WorkloadBody]:
        reading.complete(rows)
        queues = waiting.queues_of({row.cluster_id for row in rows}, rows)
        return [workloads_bodies.shown(row, self.actor, self.now, queues) for row in rows]

    @takes(workloads_bodies.NewWorkload)
    @answers(201, WorkloadBody, etag=True, location=True)
    @rehearses(NewWorkloadRehearsalBody)
    @refuses("already_exists", *FIT)
    def post(self, request: Request) -> Response:
        """Ask for one: 201 even while it waits.

        With `dry_run=true`: its price, whether it would start now, and its manifests.
        """
        with request_cache.scope():
            answer = told_after(request, lambda: self._create(request), self.told)
        return self.waited(request, answer)

    def _create(self, request: Request) -> Response:
        body = workloads_bodies.NewWorkload.checked(request.data)
        tenant = self._tenant(body["tenant"])
        writing.require_submit(self.actor, tenant)
        asked = workloads_bodies.request_of(body)
        return self.submitted(request, lambda: self.submit(tenant, asked, is_locked=True))

    def _tenant(self, key: str) -> Tenant:
        words = "There is no such tenant."
        return references.found("/tenant", lambda: tenant_for(self.actor, key, lock=True), words)


Read = Callable[[Mapping[str, Any], Workload], WorkloadChange]
"""What a body asks for of a workload."""


class WorkloadDetail(WorkloadView):
    """`workloads/{id}`, and `workloads/{slug}?tenant=`."""

    matched_methods = ("PATCH", "DELETE")
    may_match = ("PUT",)
    parameters = (BY_SLUG,)
    write_parameters = (*ApiView.write_parameters, KEEP_VOLUMES, RESTART, BY_SLUG)

    @answers(200, WorkloadBody, etag=True)
    def get(self, _request: Request, pk: str) -> Response:
        """One workload, by id; with `?tenant=` by its slug."""
        return self.answer(self.found(pk), 200)

    @takes(workloads_bodies.ChangedWorkload)
    @answers(200, WorkloadBody, etag=True)
    @answers(201, WorkloadBody, etag=True, location=True)
    @rehearses(NewWorkloadRehearsalBody | WorkloadChangeRehearsalBody)
    @reads("If-None-Match", "`*`: make it, or refuse with 412 if it exists.")
    @refuses("already_exists", "precondition_required", *FIT)
    def put(self, request: Request, pk: str) -> Response:
        """Replace the writable fields; by a slug that is new, make it: 201.

        By id `If-Match` is needed, by slug only where it would change something.
        """
        if BY_SLUG.of(request) is not None:
            return self.waited(request, self._put_named(request, pk))
        return self.waited(request, self._change(request, pk, workloads_bodies.replacement_of))

    @takes(workloads_bodies.PatchedWorkload)
    @answers(200, WorkloadBody, etag=True)
    @refuses(*FIT)
    def patch(self, request: Request, pk: str) -> Response:
        """Merge into the writable fields (RFC 7396)."""
        return self.waited(request, self._change(request, pk, workloads_bodies.patch_of))

    def _put_named(self, request: Request, slug: str) -> Response:
        with request_cache.scope():
            with whole():
                # Its row is what every new workload of a tenant locks: of two that make this one, one does.
                tenant = tenant_for(self.actor, BY_SLUG.of(request) or "", lock=True)
                try:
                    self.found(slug)
                except NotFound:
                    answer = self._make_named(request, tenant, slug)
                else:
                    answer = self._change(request, slug, workloads_bodies.replacement_of, is_named=True)
            return answer if answer.data is not None else self.told(answer["Location"])

    def _make_named(self, request: Request, tenant: Tenant, slug: str) -> Response:
        writing.require_submit(self.actor, tenant)
        data = request.data  # a body that cannot be read is refused before preconditions are
        require_absent(request)
        place = {"tenant": tenant.slug, "slug": slug}
        asked = workloads_bodies.named_request_of(
            workloads_bodies.ChangedWorkload.checked(data, context={"current": place}), slug
        )
        return self.submitted(request, lambda: self.submit(tenant, asked, is_locked=True))

    def _change(self, request: Request, pk: str, read: Read, *, is_named: bool = False) -> Response:
        def change() -> Workload:
            row = self.matched(request, pk, required=not is_named)
            is_patch = request.method == "PATCH"
            fields = workloads_bodies.PatchedWorkload if is_patch else workloads_bodies.ChangedWorkload
            wanted = read(fields.checked(request.data, context={"current": as_sent(self.shown(row))}), row)
            if is_named and not workloads_bodies.is_same(wanted, row):
                # What was made by name may be sent again without an ETag; only another body needs one.
                require_match(request, row.generation)
            asked = replace(wanted, restart=RESTART.of(request))
            return verbs.update_workload(actor=self.actor, workload=row, change=asked, now=self.now)

        return written(request, change, self.answer)

    @answers(202, WorkloadBody, etag=True)
    @answers(204)
    def delete(self, request: Request, pk: str) -> Response:
        """Remove it; 202 while the cluster tears it down, 204 where `wait` saw it gone."""

        def delete() -> Workload:
            row, keeps = self.matched(request, pk, required=True), KEEP_VOLUMES.of(request)
            return verbs.delete_workload(actor=self.actor, workload=row, keep_volumes=keeps, now=self.now)

        return self.waited(request, written(request, delete, lambda row: self.answer(row, 202)))


class WorkloadAction(WorkloadView):
    """`POST workloads/{id}/<verb>`: a subclass says which service; `If-Match` is optional."""

    may_match = ("POST",)
    body: ClassVar[type[workloads_bodies.WorkloadReason]] = workloads_bodies.WorkloadReason
    done_status: ClassVar[int] = 202

    def act(self, **asked: Any) -> Workload:
        """The service's verb."""
        raise NotImplementedError

    def done(self, request: Request, pk: str) -> Response:
        """Do it once per Idempotency-Key."""

        def act() -> Workload:
            row = self.matched(request, pk, required=False)
            asked = self.body.checked(request.data)
            return self.act(actor=self.actor, workload=row, now=self.now, **asked)

        def answer(row: Workload) -> Response:
            return self.answer(row, self.done_status)

        return self.waited(request, idempotent(request, lambda: written(request, act, answer)))


class StopWorkload(WorkloadAction):
    """`+stop`: also by managers of the department."""

    act = staticmethod(verbs.stop_workload)  # type: ignore[assignment]

    @takes(workloads_bodies.WorkloadReason)
    @answers(202, WorkloadBody, etag=True)
    @refuses("wrong_phase")
    def post(self, request: Request, pk: str) -> Response:
        """Stop it; its volumes stay. Stopping what is stopped changes nothing."""
        return self.done(request, pk)

    def require(self, row: Workload) -> None:
        """As the service that stops."""
        writing.require_stop(self.actor, row)


class ResumeWorkload(WorkloadAction):
    """`+resume`."""

    act = staticmethod(verbs.resume_workload)  # type: ignore[assignment]

    @takes(workloads_bodies.WorkloadReason)
    @answers(202, WorkloadBody, etag=True)
    @refuses(*FIT)
    def post(self, request: Request, pk: str) -> Response:
        """Let what is stopped run again; it queues like a new one, with a fresh lease."""
        return self.done(request, pk)


class ExtendWorkload(WorkloadAction):
    """`+extend`: done at once."""

    body = workloads_bodies.WorkloadExtension
    done_status = 200
    act = staticmethod(verbs.extend_workload)  # type: ignore[assignment]

    @takes(workloads_bodies.WorkloadExtension)
    @answers(200, WorkloadBody, etag=True)
    @refuses("wrong_phase", "extension_limit")
    def post(self, request: Request, pk: str) -> Response:
        """Move the end of its lease later, at most to `extendable_until`."""
        return self.done(request, pk)


class OpenWorkload(WorkloadView):
    """`+open`: its page in a browser. A secret is answered, so nothing of it is kept for a repeat."""

    write_parameters = (BY_SLUG,)
    keyed = False

    @answers(200, OneTimeAddressBody)
    @refuses("wrong_phase")
    def post(self, request: Request, pk: str) -> Response:
        """The address that opens a notebook once, within 30 seconds.

        Who asked with a token is let in by the address alone: treat it as the token. Who asked with a
        sign-in confirms it in that browser.
        """
        row = self.found(pk)
        access.require_open(self.actor, row)
        StrictSerializer.checked(request.data)
        made = openings.open_workload(
            actor=self.actor, credential=credential_of(request), workload=row, now=self.now
        )
        return Response({"url": made.url, "expires_at": made.expires_at})


class DuplicateWorkload(WorkloadView):
    """`+duplicate`: a new workload like this one."""

    @takes(workloads_bodies.WorkloadCopy)
    @answers(201, WorkloadBody, etag=True, location=True)
    @rehearses(NewWorkloadRehearsalBody)
    @refuses("already_exists", *FIT)
    def post(self, request: Request, pk: str) -> Response:
        """Ask for a new one like this one, running; `spec` is a merge patch into this one's."""
        return self.waited(request, told_after(request, lambda: self._copy(request, pk), self.told))

    def _copy(self, request: Request, pk: str) -> Response:
        row = reading.workload_for(self.actor, pk)
        writing.require_submit(self.actor, row.tenant)
        asked = workloads_bodies.copy_of(workloads_bodies.WorkloadCopy.checked(request.data), row)
        return self.submitted(request, lambda: self.submit(row.tenant, asked))


class RerunFailed(WorkloadView):
    """`+rerun-failed`: a new array of what did not end well."""

    @takes(workloads_bodies.FailedItems)
    @answers(201, WorkloadBody, etag=True, location=True)
    @rehearses(NewWorkloadRehearsalBody)
    @refuses("already_exists", *FIT)
    def post(self, request: Request, pk: str) -> Response:
        """Ask for a new array of the items that failed or never ended; each keeps its number."""
        return self.waited(request, told_after(request, lambda: self._rerun(request, pk), self.told))

    def _rerun(self, request: Request, pk: str) -> Response:
        row = reading.workload_for(self.actor, pk)
        writing.require_submit(self.actor, row.tenant)
        body = workloads_bodies.FailedItems.checked(request.data)
        asked = rerun.request_of(row, slug=body.get("slug") or "", name=body.get("name") or "")
        return self.submitted(request, lambda: self.submit(row.tenant, asked))


def _filtered(actor: Actor, request: Request, rows: QuerySet[Workload]) -> QuerySet[Workload]:
    tenants, text = TENANT.of(request), SEARCH.of(request)
    asked = {
        "tenant__in": None if tenants is None else [_known(actor, key) for key in tenants],
        "slug__in": SLUG.of(request),
        "offer__slug__in": OFFER.of(request),
        "phase__in": PHASE.of(request),
        "kind__in": KIND.of(request),
        "created_at__gte": CREATED_FROM.of(request),
        "created_at__lt": CREATED_TO.of(request),
    }
    rows = rows.filter(**{lookup: found for lookup, found in asked.items() if found is not None})
    rows = rows.filter(_labelled(LABELS.of(request) or ""))
    return rows.filter(Q(name__icontains=text) | Q(slug__icontains=text)) if text else rows


def _labelled(text: str) -> Q:
    try:
        return label_conditions.condition(label_selectors.parse(text))
    except label_selectors.SelectorError as error:
        raise BadParameter("label_selector", str(error)) from None


def _known(actor: Actor, key: str) -> Tenant:
    try:
        return tenant_for(actor, key)
    except NotFound:
        raise BadParameter("tenant", "There is no such tenant.") from None
