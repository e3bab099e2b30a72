"""The catalogue of templates kept by hand, and what a tenant's forms start with.

A new version touches no work that was made before: a workload keeps the spec that it was made with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import AlreadyExists, FieldProblem, Invalid, NotAllowed
from apps.ranges import TEMPLATE_VERSION
from apps.tenants.isolation import slugs
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.workloads import policies
from apps.workloads.template_models import Template, TemplateDefaults, TemplateVersion
from apps.workloads.templates.rules import parameters as rules
from apps.workloads.templates.rules import reading
from apps.workloads.templates.rules.rendering import Definition
from apps.workloads.templates.rules.source import Source
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.selectors.catalogue import Audience


@dataclass(frozen=True)
class Entry:
    """An entry as it shall be."""

    name: str
    description: str = ""
    least_trust: TrustLevel = TrustLevel.UNTRUSTED
    audience: Audience = field(default_factory=Audience)


@transaction.atomic
def add_template(
    *, actor: Actor, slug: str, entry: Entry, definition: Definition, notes: str, now: datetime
) -> Template:
    """A new entry with its first version. Rule: platform engineers only."""
    require_keeper(actor)
    if problem := slugs.problem_of(slug):
        raise Invalid([problem])
    if Template.objects.filter(slug=slug).exists():
        raise AlreadyExists(f"The slug {slug} is taken.")
    columns = _columns(entry)
    kind = definition.workload["kind"]
    try:
        with transaction.atomic():
            row = Template.objects.create(slug=slug, kind=kind, created_by=actor.username, **columns)
    except IntegrityError:
        # Two at once may both have found the slug free: the database decides.
        raise AlreadyExists(f"The slug {slug} is taken.") from None
    _set_audience(row, entry.audience)
    told = {name: [None, value] for name, value in _told(row).items()}
    audit.record(actor, "template.create", row, now=now, changes=told)
    _store(row, definition, actor, notes)
    return row


@transaction.atomic
def update_template(*, actor: Actor, template: Template, entry: Entry, now: datetime) -> Template:
    """Name, description and for whom it is; the same again changes nothing. Rule: as adding it."""
    require_keeper(actor)
    row = _locked(template)
    before = _told(row)
    for name, value in _columns(entry).items():
        setattr(row, name, value)
    _set_audience(row, entry.audience)
    changes = {name: [before[name], value] for name, value in _told(row).items() if before[name] != value}
    if changes:
        _save(row)
        audit.record(actor, "template.update", row, now=now, changes=changes)
    return row


@transaction.atomic
def add_version(
    *, actor: Actor, template: Template, definition: Definition, notes: str, now: datetime
) -> TemplateVersion:
    """The next version, which counts from now on; the newest again makes none. Rule: as adding it.

    What was made from older ones is left alone.
    """
    require_keeper(actor)
    row = _locked(template)
    newest = catalogue.version_of(row)
    if _kept(definition) == (newest.parameters, newest.workload):
        return newest
    if row.version >= TEMPLATE_VERSION.most:
        raise Invalid([FieldProblem("/parameters", "out_of_range", "It has too many versions.")])
    before, row.version, row.kind = row.version, row.version + 1, definition.workload["kind"]
    _save(row)
    audit.record(actor, "template.version", row, now=now, changes={"version": [before, row.version]})
    return _store(row, definition, actor, notes)


@transaction.atomic
def import_template(*, actor: Actor, source: Source, now: datetime) -> Template:
    """What a file says: a new entry for everybody, or a new version (and name) of the one with its slug.

    The same file again changes nothing. Rule: as adding it.
    """
    require_keeper(actor)
    # Locked before its audience is read: else one that was narrowed meanwhile would be widened again.
    row = Template.objects.select_for_update().filter(slug=source.slug).first()
    if row is None:
        entry = Entry(source.name, source.description)
        return add_template(
            actor=actor,
            slug=source.slug,
            entry=entry,
            definition=source.definition,
            notes=source.notes,
            now=now,
        )
    entry = Entry(
        source.name, source.description, TrustLevel(row.least_trust), catalogue.audiences([row])[row.pk]
    )
    row = update_template(actor=actor, template=row, entry=entry, now=now)
    add_version(actor=actor, template=row, definition=source.definition, notes=source.notes, now=now)
    row.refresh_from_db()
    return row


@transaction.atomic
def retire_template(*, actor: Actor, template: Template, reason: str, now: datetime) -> Template:
    """Nothing new is made from it; what was made runs on and may start again. Rule: as adding it."""
    require_keeper(actor)
    row = _locked(template)
    if row.retired_at is not None:
        return row
    row.retired_at, row.retired_reason = now, reason
    _save(row)
    audit.record(actor, "template.retire", row, now=now, changes={"retired_at": [None, now]}, reason=reason)
    return row


@transaction.atomic
def restore_template(*, actor: Actor, template: Template, now: datetime) -> Template:
    """It can be used again. Rule: as adding it."""
    require_keeper(actor)
    row = _locked(template)
    if row.retired_at is None:
        return row
    before, row.retired_at, row.retired_reason = row.retired_at, None, ""
    _save(row)
    audit.record(actor, "template.restore", row, now=now, changes={"retired_at": [before, None]})
    return row


@transaction.atomic
def set_defaults(
    *,
    actor: Actor,
    template: Template,
    tenant: Tenant,
    values: Mapping[str, Any],
    now: datetime,
    at: str = "/spec/values",
) -> dict[str, rules.Value]:
    """What the tenant's forms start with from now on; none: as the template says. All are replaced.
    `at` is where a wrong value is told.

    Rule: leads and platform engineers; each value must fit the newest version.
    """
    require_lead(actor, tenant)
    catalogue.require_usable(tenant, template)
    known = catalogue.definition_of(catalogue.version_of(template)).parameters
    wanted = rules.checked(known, values, at=at, partial=True)
    Tenant.objects.select_for_update().get(pk=tenant.pk)
    row = TemplateDefaults.objects.filter(template=template, tenant=tenant).first()
    before = dict(row.values) if row else {}
    if before == wanted:
        return wanted
    row = row or TemplateDefaults(template=template, tenant=tenant)
    row.template, row.tenant, row.values = template, tenant, wanted
    row.save()
    audit.record(actor, "template-defaults.update", row, now=now, changes={"values": [before, wanted]})
    return wanted


@transaction.atomic
def set_all_defaults(
    *, actor: Actor, tenant: Tenant, wanted: Mapping[Template, Mapping[str, Any]], now: datetime
) -> None:
    """As `set_defaults`, of every template: those that are not named have none."""
    require_lead(actor, tenant)
    kept = Template.objects.filter(defaults__tenant=tenant, retired_at=None).exclude(defaults__values={})
    for template in [*wanted, *(each for each in kept if each not in wanted)]:
        if template in wanted or catalogue.usable_by(tenant).filter(pk=template.pk).exists():
            values = wanted.get(template, {})
            at = f"/spec/{template.slug}"
            set_defaults(actor=actor, template=template, tenant=tenant, values=values, now=now, at=at)


def require_keeper(actor: Actor) -> None:
    """Rule: platform engineers keep the catalogue; raises NotAllowed."""
    if not policies.can_manage_templates(actor):
        raise NotAllowed("Only a platform engineer changes the catalogue of templates.")


def require_lead(actor: Actor, tenant: Tenant) -> None:
    """Rule: leads and platform engineers set a tenant's defaults; raises NotAllowed."""
    if not policies.can_set_defaults(actor, tenant):
        raise NotAllowed(f"Only a lead of {tenant.slug} or a platform engineer sets its defaults.")


def _store(row: Template, definition: Definition, actor: Actor, notes: str) -> TemplateVersion:
    parameters, workload = _kept(definition)
    return TemplateVersion.objects.create(
        template=row, number=row.version, parameters=parameters, workload=workload, notes=notes,
        created_by=actor.username,
    )  # fmt: skip


def _kept(definition: Definition) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return [reading.as_json(each) for each in definition.parameters], dict(definition.workload)


def _columns(entry: Entry) -> dict[str, Any]:
    audience = entry.audience
    if (audience.departments is None) != (audience.tenants is None):
        words = "Name departments and tenants (either may be empty), or null for both: everybody."
        raise Invalid([FieldProblem("/spec/tenants", "invalid_value", words)])
    if audience.tenants == () and audience.departments == ():
        words = "Name a department or a tenant, or null for both: everybody."
        raise Invalid([FieldProblem("/spec", "required", words)])
    return {
        "name": entry.name,
        "description": entry.description,
        "least_trust": str(entry.least_trust),
        "is_for_all": audience.tenants is None,
    }


def _set_audience(row: Template, audience: Audience) -> None:
    row.departments.set(audience.departments or ())
    row.tenants.set(audience.tenants or ())


def _told(row: Template) -> dict[str, Any]:
    """What the record says of an entry."""
    named = {
        "departments": sorted(row.departments.values_list("slug", flat=True)),
        "tenants": sorted(row.tenants.values_list("slug", flat=True)),
    }
    kept = {name: getattr(row, name) for name in ("name", "description", "least_trust")}
    return {**kept, "for": "everybody" if row.is_for_all else named}


def _locked(template: Template) -> Template:
    return Template.objects.select_for_update().get(pk=template.pk)


def _save(row: Template) -> None:
    row.generation += 1
    row.save()
