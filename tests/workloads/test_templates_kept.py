"""The catalogue of templates under several hands, and defaults of what is used no more."""

from typing import Any

import pytest
from django.db.models import QuerySet

from apps.errors import AlreadyExists
from apps.workloads.template_models import Template, TemplateDefaults, TemplateVersion
from apps.workloads.templates.rules import source
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.services import keeping
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_template
from tests.tenants.rest import Rest

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


@pytest.mark.parametrize("gone", [{"retired_at": NOW}, {"is_for_all": False}])
def test_defaults_of_what_the_team_may_not_use_are_kept_and_not_listed(
    cast: Cast, gone: dict[str, Any]
) -> None:
    """RULE: what was read may be written back as it is."""
    rest, path = Rest(cast.leon), "/tenants/vision/template-defaults"
    both = {make_template(slug, for_all=True).slug: {"hours": 4} for slug in ("lab", "old")}
    assert rest.send("PUT", path, {"spec": both}).status_code == 200
    Template.objects.filter(slug="old").update(**gone)
    answer = rest.get(path).json()
    assert answer["spec"] == {"lab": {"hours": 4}}
    assert rest.send("PUT", path, {"spec": answer["spec"]}).status_code == 200
    assert TemplateDefaults.objects.get(template__slug="old").values == {"hours": 4}, "for its return"
