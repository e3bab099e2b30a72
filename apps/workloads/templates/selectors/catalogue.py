"""The catalogue of templates as an actor or a tenant sees it. Reads only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.specs import Actor
from apps.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.tenants.models import Department, Tenant
from apps.tenants.selectors import seen_by
from apps.tenants.specs import TrustLevel
from apps.web.requests.lookups import one, slug_or_id
from apps.workloads.template_models import Template, TemplateDefaults, TemplateVersion
from apps.workloads.templates.rules import parameters as rules
from apps.workloads.templates.rules import reading, source
from apps.workloads.templates.rules.parameters import Parameter
from apps.workloads.templates.rules.rendering import Definition


@dataclass(frozen=True)
class Audience:
    """Who may use a template besides its least trust; `departments` and `tenants` both None: everybody."""

    departments: tuple[Department, ...] | None = None
    tenants: tuple[Tenant, ...] | None = None


def templates_for(actor: Actor) -> QuerySet[Template]:
    """The templates that some tenant of the actor may use; all, also retired ones, for watchers."""
    if actor.sees_everything:
        return Template.objects.all()
    return _open_to(Tenant.objects.filter(Q(pk__in=seen_by(actor))))


def template_for(actor: Actor, key: str | UUID, *, lock: bool = False) -> Template:
    """The template with that slug or id, if the actor sees it; raises NotFound."""
    return one(templates_for(actor).filter(slug_or_id(key)), lock=lock)


def usable_by(tenant: Tenant) -> QuerySet[Template]:
    """The templates from which the tenant's work may be made."""
    return _open_to(Tenant.objects.filter(pk=tenant.pk))


def require_usable(tenant: Tenant, template: Template) -> None:
    """Raises Conflict for a retired template, Invalid for one that is not for this tenant."""
    if template.retired_at is not None:
        why = f": {template.retired_reason}" if template.retired_reason else ""
        words = f"{template.name} was retired on {template.retired_at:%Y-%m-%d}{why.rstrip('.')}."
        raise Conflict(words, hint="Take another template, or ask without one.")
    if not usable_by(tenant).filter(pk=template.pk).exists():
        words = f"{template.name} is not for {tenant.slug}: a platform engineer says for whom it is."
        raise Invalid([FieldProblem("/tenant", "invalid_value", words)])


def versions_of(template: Template) -> QuerySet[TemplateVersion]:
    """All of them, the newest first."""
    return TemplateVersion.objects.filter(template=template).order_by("-number")


def version_of(template: Template, number: int | None = None) -> TemplateVersion:
    """That version, or the newest; raises NotFound."""
    found = TemplateVersion.objects.filter(template=template, number=number or template.version).first()
    if found is None:
        raise NotFound
    found.template = template
    return found


def definition_of(version: TemplateVersion) -> Definition:
    """What it says."""
    return reading.stored(version.parameters, version.workload)


def newest(templates: Iterable[Template]) -> dict[UUID, TemplateVersion]:
    """The newest version of each, read together."""
    wanted = {each.pk: each.version for each in templates}
    rows = TemplateVersion.objects.filter(template__in=wanted)
    return {row.template_id: row for row in rows if row.number == wanted[row.template_id]}


def defaults_of(template: Template, tenant: Tenant) -> dict[str, rules.Value]:
    """What the tenant's forms start with, in place of the template's own defaults."""
    row = TemplateDefaults.objects.filter(template=template, tenant=tenant).first()
    return dict(row.values) if row else {}


def defaults_in(tenant: Tenant) -> dict[str, dict[str, rules.Value]]:
    """All of the tenant's, by the template's slug. RULE: of what it may use, so that they can be set as they
    are read; the others are kept until it may again.
    """
    own = TemplateDefaults.objects.filter(tenant=tenant, template__in=usable_by(tenant))
    rows = own.exclude(values={}).select_related("template")
    return {row.template.slug: dict(row.values) for row in rows.order_by("template__slug")}


def source_of(template: Template) -> str:
    """Its newest version as one YAML."""
    version = version_of(template)
    words = (template.slug, template.name, template.description, version.notes)
    return source.written(source.Source(*words, definition_of(version)))


def parameters_for(version: TemplateVersion, tenant: Tenant | None) -> tuple[Parameter, ...]:
    """A version's parameters with the defaults of the tenant."""
    own = defaults_of(version.template, tenant) if tenant else {}
    return rules.with_defaults(definition_of(version).parameters, own)


def audiences(templates: Sequence[Template]) -> dict[UUID, Audience]:
    """For whom each is, by slug."""
    of: dict[UUID, tuple[list[Department], list[Tenant]]] = {each.pk: ([], []) for each in templates}
    departments = Template.departments.through.objects.filter(template__in=of).select_related("department")
    for link in departments.order_by("department__slug"):
        of[link.template_id][0].append(link.department)
    tenants = Template.tenants.through.objects.filter(template__in=of).select_related("tenant")
    for row in tenants.order_by("tenant__slug"):
        of[row.template_id][1].append(row.tenant)
    return {each.pk: _audience(each, *of[each.pk]) for each in templates}


def _audience(row: Template, departments: list[Department], tenants: list[Tenant]) -> Audience:
    return Audience() if row.is_for_all else Audience(tuple(departments), tuple(tenants))


def names_of(slugs: Iterable[str]) -> dict[str, str]:
    """What templates are called, by slug; asked of nobody's rights: who sees a workload sees what it is."""
    wanted = {slug for slug in slugs if slug}
    return dict(Template.objects.filter(slug__in=wanted).values_list("slug", "name")) if wanted else {}


def _open_to(tenants: QuerySet[Tenant]) -> QuerySet[Template]:
    """The live templates that one of these tenants may use."""
    open_to = Q(pk__in=[])
    known = [
        (pk, department, TrustLevel(level).rank)
        for pk, department, level in tenants.values_list("pk", "department_id", "trust_level")
    ]
    for level in TrustLevel:
        trusted = [(pk, department) for pk, department, rank in known if rank >= level.rank]
        if trusted:
            open_to |= Q(least_trust=level) & _names_one_of(trusted)
    return Template.objects.filter(open_to, retired_at=None)


def _names_one_of(tenants: Sequence[tuple[UUID, UUID]]) -> Q:
    """Of tenants with their departments: those for everybody, for one of them or for one of these."""
    to_tenant = Template.tenants.through.objects.filter(tenant__in=[pk for pk, _ in tenants])
    to_department = Template.departments.through.objects.filter(
        department__in={department for _, department in tenants}
    )
    named = Q(pk__in=to_tenant.values("template")) | Q(pk__in=to_department.values("template"))
    return named | Q(is_for_all=True)
