"""A template as one YAML: what is exported is what may be imported elsewhere. Pure.

Who may use it is not in it, because tenants and departments are an installation's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from apps.errors import FieldProblem, Invalid
from apps.tenants.isolation import slugs
from apps.web.shapes import plain_yaml
from apps.workloads.spec.field_reader import Reader
from apps.workloads.templates.rules import reading
from apps.workloads.templates.rules.rendering import Definition

LONGEST = 64 * 1024
MOST_MARKS = 6000
FIELDS = ("template", "name", "description", "notes", "parameters", "workload")


@dataclass(frozen=True)
class Source:
    """What a file says."""

    slug: str
    name: str
    description: str
    notes: str
    definition: Definition


def parse(text: str, *, at: str = "/source") -> Source:
    """A file's template; raises Invalid with every wrong field, at its place in the file."""
    if len(text) > LONGEST:
        raise Invalid([FieldProblem(at, "out_of_range", f"At most {LONGEST} characters.")])
    try:
        document = plain_yaml.read(text, what="a template", most_marks=MOST_MARKS)
    except plain_yaml.NotYaml as error:
        raise Invalid([FieldProblem(at, "invalid_value", str(error))]) from None
    return of_document(document, at=at)


def of_document(document: object, *, at: str) -> Source:
    """The same of what the file holds."""
    problems: list[FieldProblem] = []
    read = Reader(document, at=at, problems=problems)
    read.only(FIELDS)
    slug = read.text("template", longest=40)
    if slug and (problem := slugs.problem_of(slug)):
        read.refuse("template", problem.detail, code=problem.code)
    name = read.text("name", longest=120)
    words = {key: read.optional_text(key, longest=500) for key in ("description", "notes")}
    try:
        found = reading.definition_of(read.fields.get("parameters"), read.fields.get("workload"), at=at)
    except Invalid as refusal:
        problems += refusal.problems
    if problems:
        raise Invalid(problems)
    return Source(slug, name, words["description"], words["notes"], found)


def written(source: Source) -> str:
    """The file; what has its usual value is left out."""
    document = {
        "template": source.slug,
        "name": source.name,
        "description": source.description,
        "notes": source.notes,
        "parameters": [_brief(reading.as_json(each)) for each in source.definition.parameters],
        "workload": dict(source.definition.workload),
    }
    return str(yaml.safe_dump(_brief(document), sort_keys=False, allow_unicode=True, width=100))


def _brief(document: Mapping[str, Any]) -> dict[str, Any]:
    is_usual = {"type": "string", "max_length": 255}
    return {
        key: value
        for key, value in document.items()
        if value not in (None, "", []) and is_usual.get(key, object()) != value
    }
