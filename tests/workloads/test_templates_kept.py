"""The catalogue of templates under several hands."""

import pytest
from django.db.models import QuerySet

from apps.errors import AlreadyExists
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.rules import source
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.services import keeping
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_template

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_of_two_who_add_the_same_slug_at_once_one_is_refused(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw that it was free; and an import is an addition there."""
    file = source.parse(catalogue.source_of(make_template("lab")))
    monkeypatch.setattr(QuerySet, "exists", lambda _: False)
    with pytest.raises(AlreadyExists, match="lab"):
        make_template("lab")
    monkeypatch.setattr(QuerySet, "first", lambda _: None)
    with pytest.raises(AlreadyExists, match="lab"):
        keeping.import_template(actor=as_actor(cast.petra), source=file, now=NOW)
    monkeypatch.undo()
    assert (Template.objects.count(), TemplateVersion.objects.count()) == (1, 1)
