"""`apps.rows`: an object that was read is what Django would have made of it."""

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model, signals
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.quotas.models import Offer
from apps.rows import Row
from apps.workloads.models import Workload
from tests.web import api_scene

pytestmark = pytest.mark.django_db
ROWS = [model for model in apps.get_models() if issubclass(model, Row)]
AS_DJANGO = Model.from_db.__func__  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def scene() -> api_scene.Scene:
    return api_scene.make(timezone.now(), workloads=6, offers=3)


def test_it_is_what_django_makes() -> None:
    seen = 0
    for model in ROWS:
        for row in model._default_manager.all():
            names = [field.attname for field in model._meta.concrete_fields]
            made = AS_DJANGO(model, "default", names, [getattr(row, name) for name in names])
            state = vars(row).pop("_state"), vars(made).pop("_state")
            assert vars(row) == vars(made)
            assert [(each.adding, each.db) for each in state] == [(False, "default")] * 2
            seen += 1
    assert seen > 20


def test_nobody_is_told_less_than_django_would_tell() -> None:
    assert ROWS
    for model in ROWS:
        assert model.__init__ is Model.__init__
        assert not signals.pre_init.has_listeners(model)
        assert not signals.post_init.has_listeners(model)


def test_a_column_that_was_left_out_is_read_when_it_is_asked_for() -> None:
    row = Workload.objects.defer("spec").order_by("slug")[0]
    with CaptureQueriesContext(connection) as statements:
        assert row.spec["kind"] == "notebook"
        assert row.slug == "nb-000"
    assert len(statements) == 1


def test_what_was_left_out_is_not_written() -> None:
    row, name = Workload.objects.defer("spec")[0], "another name"
    Workload.objects.filter(pk=row.pk).update(spec={"kind": "changed meanwhile"})
    row.name = name
    row.save()
    kept = Workload.objects.values_list("name", "spec").get(pk=row.pk)
    assert kept == (name, {"kind": "changed meanwhile"})


def test_relations_are_read_with_it_or_when_asked_for() -> None:
    row = Workload.objects.select_related("tenant")[0]
    with CaptureQueriesContext(connection) as statements:
        assert row.tenant.pk == row.tenant_id
    assert not statements.captured_queries
    other = Offer.objects.exclude(pk=row.offer_id)[0]
    assert row.offer.pk == row.offer_id
    row.offer_id = other.pk
    assert row.offer == other


def test_rows_are_given_what_is_behind_their_keys_and_read_the_rest_themselves() -> None:
    rows = list(Workload.objects.order_by("slug")[:3])
    tenants = {rows[0].tenant_id: rows[0].tenant}
    Workload.join(rows, tenant=tenants, offer={}, next_offer={})
    with CaptureQueriesContext(connection) as statements:
        assert [row.tenant for row in rows] == [tenants[row.tenant_id] for row in rows]
        assert rows[0].next_offer is None
        assert not statements.captured_queries
        assert rows[0].offer.pk == rows[0].offer_id
    assert len(statements) == 1
