"""The templates that come with the product."""

from datetime import datetime
from functools import cache
from pathlib import Path

import yaml

from apps.accounts.specs import Actor
from apps.workloads.template_models import Template
from apps.workloads.templates.rules.source import Source, of_document
from apps.workloads.templates.services import keeping

FILE = Path(__file__).with_name("shipped.yaml")


@cache
def shipped() -> tuple[Source, ...]:
    """In the order in which they are offered."""
    return tuple(of_document(each, at="") for each in yaml.safe_load_all(FILE.read_text()))


def missing() -> list[Source]:
    """Those that the catalogue does not have; a retired one is there."""
    known = set(Template.objects.values_list("slug", flat=True))
    return [each for each in shipped() if each.slug not in known]


def add_shipped(*, actor: Actor, now: datetime) -> list[Template]:
    """Adds those that are missing; what is there is left alone, also a retired one. Rule: as adding one."""
    return [keeping.import_template(actor=actor, source=each, now=now) for each in missing()]
