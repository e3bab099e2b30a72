"""A workload made from a template: the same verbs, refusals and audit as one that is asked for in full.

A problem in the spec is told at the parameter that caused it, because that is what the person filled in.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.specs import Actor
from apps.errors import FieldProblem, Invalid, NotFound
from apps.tenants.models import Tenant
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.selectors.admission_check import Preview
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.secret_specs import SecretWish
from apps.workloads.spec import parsing
from apps.workloads.specs import WorkloadRequest
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.rules import parameters as rules
from apps.workloads.templates.rules.rendering import Definition
from apps.workloads.templates.selectors import catalogue


@dataclass(frozen=True)
class Wish:
    """What somebody fills in; `version` None: the newest."""

    values: Mapping[str, Any] = field(default_factory=dict)
    version: int | None = None
    slug: str = ""
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    secrets: tuple[SecretWish, ...] = ()


def submit_from_template(
    *,
    actor: Actor,
    tenant: Tenant,
    template: Template,
    wish: Wish,
    now: datetime,
    seen_hourly: Decimal | None = None,
) -> Workload:
    """A new workload from a template. Rule: as `submit_workload`, and the template must be for the tenant."""
    writing.require_submit(actor, tenant)
    with _told_at_parameters(tenant, template, wish) as request:
        return verbs.submit_workload(
            actor=actor, tenant=tenant, request=request, now=now, seen_hourly=seen_hourly
        )


def preview_from_template(
    *, actor: Actor, tenant: Tenant, template: Template, wish: Wish, now: datetime
) -> Preview:
    """What would become of it: the same checks and refusals, nothing stored."""
    writing.require_submit(actor, tenant)
    with _told_at_parameters(tenant, template, wish) as request:
        return verbs.preview_workload(actor=actor, tenant=tenant, request=request, now=now)


@contextmanager
def _told_at_parameters(tenant: Tenant, template: Template, wish: Wish) -> Iterator[WorkloadRequest]:
    catalogue.require_usable(tenant, template)
    version = _version(template, wish.version)
    definition = catalogue.definition_of(version)
    parameters = catalogue.parameters_for(version, tenant)
    values = rules.checked(parameters, wish.values)
    try:
        yield _request(version, definition, values, wish)
    except Invalid as refusal:
        if type(refusal) is not Invalid:
            raise
        raise Invalid([definition.back(problem) for problem in refusal.problems]) from None


def _version(template: Template, number: int | None) -> TemplateVersion:
    try:
        return catalogue.version_of(template, number)
    except NotFound:
        words = f"{template.name} has versions 1 to {template.version}."
        raise Invalid([FieldProblem("/version", "reference_not_found", words)]) from None


def _request(
    version: TemplateVersion, definition: Definition, values: Mapping[str, rules.Value], wish: Wish
) -> WorkloadRequest:
    return WorkloadRequest(
        spec=parsing.parse(definition.spec(values)),
        slug=wish.slug,
        name=wish.name,
        labels=wish.labels,
        secrets=wish.secrets,
        template=version.template.slug,
        template_version=version.number,
    )
