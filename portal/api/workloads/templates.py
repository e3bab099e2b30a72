"""REST for the catalogue of templates, a tenant's defaults, and workloads made from a template."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.utils import timezone
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.specs import Actor, ScopeGroup
from apps.cluster import request_cache
from apps.errors import NotFound
from apps.ranges import TEMPLATE_VERSION
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.workloads.changes.services import writing
from apps.workloads.models import Workload
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.rules import comparing, reading, source
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.selectors.catalogue import Audience
from apps.workloads.templates.selectors.experience import experience_of
from apps.workloads.templates.services import keeping, making
from apps.workloads.templates.services.keeping import Entry
from portal.api.base import references
from portal.api.base.documents import DocumentView, ObjectView, VerbView, acts, documents
from portal.api.base.references import TENANT
from portal.api.base.serializers import StrictSerializer
from portal.api.base.views import ApiView, idempotent, paginate, paginate_whole, told_after
from portal.api.base.writing import made, written
from portal.api.declared.declaring import TEXT, answers, pages, refuses, rehearses, takes
from portal.api.declared.queries import WholeNumber
from portal.api.workloads import templates_bodies as bodies
from portal.api.workloads.shapes import NewWorkloadRehearsalBody, WorkloadBody
from portal.api.workloads.templates_bodies import (
    TemplateBody,
    TemplateDefaultsBody,
    TemplateDiffBody,
    TemplateVersionBody,
)
from portal.api.workloads.views import WorkloadView
from portal.api.workloads.workloads import FIT
from portal.api.workloads.workloads_bodies import secrets_of

Body = Mapping[str, Any]
_NUMBERS = {"lowest": TEMPLATE_VERSION.least, "highest": TEMPLATE_VERSION.most}
BEFORE = WholeNumber("before", "A version; absent: the one before `after`.", default=None, **_NUMBERS)
AFTER = WholeNumber("after", "A version; absent: the newest.", default=None, **_NUMBERS)
YAML = TEXT
"""To be read and kept; a parser that goes by the type would make objects of it."""


class TemplatesView(ApiView):
    """The templates that the caller's tenants may use; all for platform and auditors."""

    scope_group = ScopeGroup.CATALOG
    lists = True
    parameters = (TENANT,)

    @pages(TemplateBody)
    def get(self, request: Request) -> Response:
        """With `?tenant=`: only those that it may use, with its own defaults in `status.schema`."""
        tenant = references.asked_tenant(self, request)
        rows = catalogue.templates_for(self.actor) if tenant is None else catalogue.usable_by(tenant)
        return paginate_whole(request, rows, lambda found: _bodies(self.actor, found, tenant))

    @takes(bodies.NewTemplateSerializer)
    @answers(201, TemplateBody, etag=True, location=True)
    @refuses("already_exists")
    def post(self, request: Request) -> Response:
        """Add a template with its first version."""

        def make() -> Template:
            keeping.require_keeper(self.actor)
            asked = bodies.NewTemplateSerializer.checked(request.data)
            version, entry = asked["version"], _entry(self.actor, asked)
            definition = reading.definition_of(version["parameters"], version["workload"], at="/version")
            return keeping.add_template(
                actor=self.actor,
                slug=asked["slug"],
                entry=entry,
                definition=definition,
                notes=version["notes"],
                now=timezone.now(),
            )

        return idempotent(request, lambda: written(request, make, lambda row: _made(self.actor, row)))


class TemplateImportView(ApiView):
    """A template that was exported elsewhere."""

    scope_group = ScopeGroup.CATALOG

    @takes(bodies.TemplateImportSerializer)
    @answers(201, TemplateBody, etag=True, location=True)
    def post(self, request: Request) -> Response:
        """Add the template of a YAML, or a new version of the one with its slug.

        The same again changes nothing. Who may use it is not in the file: a new one is for everybody.
        """

        def make() -> Template:
            keeping.require_keeper(self.actor)
            asked = bodies.TemplateImportSerializer.checked(request.data)
            found = source.parse(asked["source"])
            return keeping.import_template(actor=self.actor, source=found, now=timezone.now())

        return idempotent(request, lambda: written(request, make, lambda row: _made(self.actor, row)))


class _Kept(ObjectView[Template]):
    """What every view of one template shares."""

    scope_group = ScopeGroup.CATALOG
    find = staticmethod(catalogue.template_for)

    def require(self, row: Template) -> None:  # noqa: ARG002 - the same for every template
        """As the service."""
        keeping.require_keeper(self.actor)

    def shown(self, row: Template) -> TemplateBody:
        """With what came of it."""
        return _bodies(self.actor, [row])[0]


@documents(
    bodies.TemplateDocumentSerializer,
    TemplateBody,
    get="By slug or id.",
    put="Replace name, description and for whom it is; a new version is a POST of its own.",
    patch="Merge (RFC 7396).",
)
class TemplateView(_Kept, DocumentView[Template]):
    """One template."""

    matched_methods = ("PUT", "PATCH")

    def change(self, row: Template, asked: Body) -> Template:
        """Another entry in its place."""
        entry = _entry(self.actor, asked)
        return keeping.update_template(actor=self.actor, template=row, entry=entry, now=timezone.now())


@acts(TemplateBody, post="Nothing new is made from it; what was made runs on and may start again.")
class RetireTemplate(_Kept, VerbView[Template]):
    """Retires a template."""

    def act(self, row: Template, asked: Body) -> Template:
        """With the reason that people are told."""
        now = timezone.now()
        return keeping.retire_template(actor=self.actor, template=row, reason=asked["reason"], now=now)


@acts(TemplateBody, post="Let a retired template be used again.")
class RestoreTemplate(_Kept, VerbView[Template]):
    """Takes a retirement back."""

    takes = StrictSerializer

    def act(self, row: Template, asked: Body) -> Template:  # noqa: ARG002 - it takes none
        """As it was."""
        return keeping.restore_template(actor=self.actor, template=row, now=timezone.now())


class TemplateVersionsView(ApiView):
    """The versions of a template."""

    scope_group = ScopeGroup.CATALOG
    lists = True
    sorts = ("-created_at",)

    @pages(TemplateVersionBody)
    def get(self, request: Request, key: str) -> Response:
        """The newest first."""
        row = catalogue.template_for(self.actor, key)
        rows = catalogue.versions_of(row).select_related("template")
        return paginate(request, rows, bodies.version_body)

    @takes(bodies.VersionSerializer)
    @answers(201, TemplateVersionBody, location=True)
    def post(self, request: Request, key: str) -> Response:
        """Make the next version, which counts from now on. What was made before is left alone.

        The newest again makes none.
        """

        def make() -> TemplateVersion:
            row = catalogue.template_for(self.actor, key)
            keeping.require_keeper(self.actor)
            asked = bodies.VersionSerializer.checked(request.data)
            definition = reading.definition_of(asked["parameters"], asked["workload"])
            return keeping.add_version(
                actor=self.actor,
                template=row,
                definition=definition,
                notes=asked["notes"],
                now=timezone.now(),
            )

        def answer(row: TemplateVersion) -> Response:
            where = f"/api/v1/templates/{row.template.slug}/versions/{row.number}"
            return made(bodies.version_body(row), where)

        return idempotent(request, lambda: written(request, make, answer))


class TemplateVersionView(ApiView):
    """One version."""

    scope_group = ScopeGroup.CATALOG

    @answers(200, TemplateVersionBody)
    def get(self, _request: Request, key: str, number: str) -> Response:
        """By its number."""
        row = catalogue.template_for(self.actor, key)
        if not (number.isascii() and number.isdigit() and len(number) < 7 and int(number)):
            raise NotFound
        return Response(bodies.version_body(catalogue.version_of(row, int(number))))


class TemplateDiffView(ApiView):
    """What changed between two versions."""

    scope_group = ScopeGroup.CATALOG
    parameters = (BEFORE, AFTER)

    @answers(200, TemplateDiffBody)
    def get(self, request: Request, key: str) -> Response:
        """Place by place, parameters by their names. A version that is not there is a 404."""
        row = catalogue.template_for(self.actor, key)
        after = catalogue.version_of(row, AFTER.of(request))
        before = catalogue.version_of(row, BEFORE.of(request) or max(1, after.number - 1))
        found = comparing.differences(catalogue.definition_of(before), catalogue.definition_of(after))
        return Response(bodies.diff_body(row, before, after, found))


class SourceRenderer(BaseRenderer):
    """YAML as it was written."""

    media_type = YAML
    format = "yaml"

    def render(self, data: Any, *_args: Any, **_kwargs: Any) -> bytes:
        """The text; a problem is for people who can read JSON."""
        return data.encode() if isinstance(data, str) else JSONRenderer().render(data)


class TemplateSourceView(ApiView):
    """A template as one YAML."""

    scope_group = ScopeGroup.CATALOG
    renderer_classes = (SourceRenderer, JSONRenderer)

    @answers(200, str, media=YAML)
    def get(self, _request: Request, key: str) -> Response:
        """Its newest version, as `template-import` takes it elsewhere."""
        text = catalogue.source_of(catalogue.template_for(self.actor, key))
        return Response(text, headers={"Cache-Control": "no-store"})


class TemplateWorkloadsView(WorkloadView):
    """`templates/{key}/workloads`: a workload from a template."""

    @takes(bodies.TemplateUseSerializer)
    @answers(201, WorkloadBody, etag=True, location=True)
    @rehearses(NewWorkloadRehearsalBody)
    @refuses("already_exists", *FIT)
    def post(self, request: Request, key: str) -> Response:
        """Ask for one: as `POST workloads`, with `parameters` in place of a spec.

        `status.schema` of the template says what they may be. With `dry_run=true`: its price, whether it
        would start now, and its manifests.
        """
        with request_cache.scope():
            answer = told_after(request, lambda: self._create(request, key), self.told)
        return self.waited(request, answer)

    def _create(self, request: Request, key: str) -> Response:
        row = catalogue.template_for(self.actor, key)
        asked = bodies.TemplateUseSerializer.checked(request.data)
        tenant = references.tenant_in(self.actor, asked["tenant"])
        writing.require_submit(self.actor, tenant)
        wish = making.Wish(
            values=asked["parameters"],
            version=asked["version"],
            slug=asked.get("slug") or "",
            name=asked.get("name") or "",
            labels=dict(asked.get("labels") or {}),
            secrets=secrets_of(asked),
        )

        def submit() -> Workload:
            return making.submit_from_template(
                actor=self.actor, tenant=tenant, template=row, wish=wish, now=self.now
            )

        return self.submitted(request, submit)


@documents(
    bodies.DefaultsSerializer,
    TemplateDefaultsBody,
    get="Of every template for which it has some.",
    put="Set them all; a template that is not named has none. They count for what is asked for from now on.",
)
class TemplateDefaultsView(DocumentView[Tenant]):
    """What a tenant's forms start with, in place of the templates' own defaults."""

    scope_group = ScopeGroup.CATALOG
    matched_methods = ()
    find = staticmethod(tenancy.tenant_for)

    def require(self, row: Tenant) -> None:
        """As the service."""
        keeping.require_lead(self.actor, row)

    def shown(self, row: Tenant) -> TemplateDefaultsBody:
        """The same for everybody."""
        return {"object": "template-defaults", "tenant": row.slug, "spec": catalogue.defaults_in(row)}

    def change(self, row: Tenant, asked: Body) -> Tenant:
        """All of them."""
        wanted = {
            references.found(f"/spec/{slug}", partial(catalogue.template_for, self.actor, slug)): values
            for slug, values in asked["spec"].items()
        }
        keeping.set_all_defaults(actor=self.actor, tenant=row, wanted=wanted, now=timezone.now())
        return row


def _made(actor: Actor, row: Template) -> Response:
    return made(_bodies(actor, [row])[0], f"/api/v1/templates/{row.slug}", row)


def _bodies(actor: Actor, rows: Sequence[Template], tenant: Tenant | None = None) -> list[TemplateBody]:
    """Read together: as many statements for one template as for all, but for a tenant's defaults."""
    newest, came = catalogue.newest(rows), experience_of(actor, rows)
    audiences = {pk: _as_seen(actor, each) for pk, each in catalogue.audiences(rows).items()}
    found = []
    for row in rows:
        version = newest[row.pk]
        version.template = row
        parameters = catalogue.parameters_for(version, tenant)
        found.append(bodies.template_body(row, parameters, audiences[row.pk], came[row.slug]))
    return found


def _as_seen(actor: Actor, audience: Audience) -> Audience:
    """Without the tenants and departments that the actor does not see."""
    if actor.sees_everything or audience.tenants is None or audience.departments is None:
        return audience
    seen = tenancy.seen_among(actor, [each.slug for each in audience.tenants])
    known = set(tenancy.departments_for(actor).values_list("pk", flat=True))
    return replace(
        audience,
        tenants=tuple(each for each in audience.tenants if each.slug in seen),
        departments=tuple(each for each in audience.departments if each.pk in known),
    )


def _entry(actor: Actor, asked: Body) -> Entry:
    spec = asked["spec"]
    departments, tenants = spec["departments"], spec["tenants"]
    if departments is not None or tenants is not None:
        departments, tenants = departments or [], tenants or []
    return Entry(
        name=asked["name"],
        description=spec["description"],
        least_trust=TrustLevel(spec["least_trust"]),
        audience=Audience(
            departments=_found("/spec/departments", departments, actor, tenancy.department_for),
            tenants=_found("/spec/tenants", tenants, actor, tenancy.tenant_for),
        ),
    )


def _found(pointer: str, keys: Sequence[str] | None, actor: Actor, find: Any) -> Any:
    if keys is None:
        return None
    return tuple(
        references.found(f"{pointer}/{place}", partial(find, actor, key)) for place, key in enumerate(keys)
    )
