"""What the console's pages of templates show. Reads only."""

import json
from dataclasses import dataclass
from typing import Any

from apps.accounts.specs import Actor
from apps.errors import NotFound
from apps.workloads import policies
from apps.workloads.specs import Kind
from apps.workloads.template_models import Template
from apps.workloads.templates.rules import comparing
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.selectors.catalogue import Audience
from apps.workloads.templates.selectors.experience import Experience, experience_of
from apps.workloads.templates.services import shipping
from portal.pages.parts.confirm import Question


@dataclass(frozen=True)
class TemplateRow:
    """A template as the table shows it."""

    template: Template
    came: Experience
    audience: Audience

    @property
    def kind(self) -> str:
        """What it makes."""
        return Kind(self.template.kind).label

    @property
    def who(self) -> str:
        """Who may use it, besides its trust level."""
        if self.audience.tenants is None:
            return "Every tenant"
        departments = [each.name for each in self.audience.departments or ()]
        return ", ".join([*departments, *(each.name for each in self.audience.tenants)]) or "Nobody"


@dataclass(frozen=True)
class Changed:
    """One place of a diff, values as JSON; empty where it is not there."""

    pointer: str
    before: str
    after: str


def templates(actor: Actor) -> dict[str, Any]:
    """Every template, those that can be used first."""
    require_console(actor)
    rows = _rows(actor, list(catalogue.templates_for(actor).order_by("name", "slug")))
    live = [row for row in rows if row.template.retired_at is None]
    can_change = policies.can_manage_templates(actor)
    return {
        "rows": [*live, *(row for row in rows if row.template.retired_at is not None)],
        "live": len(live),
        "missing": [each.name for each in shipping.missing()] if can_change else [],
        "can_change": can_change,
    }


def template(actor: Actor, found: Template) -> dict[str, Any]:
    """One template with its versions."""
    require_console(actor)
    (row,) = _rows(actor, [found])
    versions = list(catalogue.versions_of(found)[:50])
    return {
        "template": found,
        "row": row,
        "versions": versions,
        "source": catalogue.source_of(found),
        "can_change": policies.can_manage_templates(actor),
    }


def diff(found: Template, before: int, after: int) -> dict[str, Any]:
    """What changed from one version to another."""
    old, new = catalogue.version_of(found, before), catalogue.version_of(found, after)
    changes = comparing.differences(catalogue.definition_of(old), catalogue.definition_of(new))
    return {
        "template": found,
        "before": old,
        "after": new,
        "changes": [Changed(each.pointer, _told(each.before), _told(each.after)) for each in changes],
    }


def retiring(actor: Actor, found: Template, back: str) -> Question:
    """What it means to retire a template."""
    count = experience_of(actor, [found])[found.slug].workloads
    return Question(
        title=f"Retire {found.name}?",
        sentences=(
            "Nobody can make anything new from it.",
            f"{count} made so far: what runs goes on, what is stopped may start again.",
            "It can be restored.",
        ),
        button="Retire it",
        back=back,
        reason="Why (people who ask for it are told)",
    )


def require_console(actor: Actor) -> None:
    """These pages are for platform engineers and auditors; for everybody else they do not exist."""
    if not actor.sees_everything:
        raise NotFound


def _told(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _rows(actor: Actor, found: list[Template]) -> list[TemplateRow]:
    came, audiences = experience_of(actor, found), catalogue.audiences(found)
    return [TemplateRow(each, came[each.slug], audiences[each.pk]) for each in found]
