"""A prepared query answers what the QuerySet it was made of answers, whatever it is asked and how often."""

import pytest
from django.db import connection, models
from django.db.models.functions import Coalesce
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.cluster.models import Cluster, MirrorObject
from apps.prepared import Prepared, PreparedInsert, PreparedUpdate
from apps.tenants.models import Tenant
from apps.web.models import SelfCheck
from tests import factories

pytestmark = pytest.mark.both_databases

NAMED = Prepared(
    lambda cluster, names: MirrorObject.objects.filter(cluster=cluster, name__in=names).order_by("name"),
    models.UUIDField(),
    models.CharField(),
)
TENANT = Prepared(
    lambda slug: Tenant.objects.filter(slug=slug).select_related("department__cluster"), models.SlugField()
)
LOCKED = Prepared(lambda slug: Tenant.objects.filter(slug=slug).select_for_update(), models.SlugField())


@pytest.fixture
def seen(cluster: Cluster) -> Cluster:
    for name in "abcde":
        MirrorObject.objects.create(cluster=cluster, kind="Node", name=name, uid=name, body={"spec": {}})
    return cluster


@pytest.mark.parametrize("names", ["", "a", "ab", "abc", "cab", "abcde", "az"])
def test_a_list_of_any_length_is_asked_for(seen: Cluster, names: str) -> None:
    asked = MirrorObject.objects.filter(cluster=seen, name__in=list(names)).order_by("name")
    found = NAMED(seen.pk, list(names))
    assert [row.name for row in found] == [row.name for row in asked]
    assert all(row.body == {"spec": {}} and row.pk for row in found)


def test_ids_may_be_texts_and_each_asking_has_its_own_values(seen: Cluster) -> None:
    assert [row.name for row in NAMED(str(seen.pk), ["a"])] == ["a"]
    assert [row.name for row in NAMED(seen.pk, ["b"])] == ["b"]
    assert NAMED(factories.make_cluster("south").pk, ["a"]) == []


def test_related_rows_come_with_it(cluster: Cluster, django_assert_num_queries: object) -> None:
    tenant = factories.make_tenant(factories.make_department(cluster, "research"), "vision")
    with django_assert_num_queries(2):  # type: ignore[operator]
        first, again = TENANT.first("vision"), TENANT.first("vision")
        assert first == again == tenant
        assert first is not None
        assert first.department.cluster == cluster
        assert first is not again
    assert TENANT.first("speech") is None


@pytest.mark.django_db(transaction=True)
def test_a_lock_needs_a_transaction() -> None:
    with pytest.raises(TransactionManagementError):
        LOCKED("vision")


STORE, CHECK = PreparedInsert(MirrorObject), PreparedInsert(SelfCheck)


@pytest.mark.parametrize("body", [{"a": [1, None, "x"]}, {}])
def test_a_new_row_is_stored_as_it_is(cluster: Cluster, body: object) -> None:
    for name in "ab":
        row = STORE(MirrorObject(cluster=cluster, kind="Node", name=name, uid=name, body=body))
        assert MirrorObject.objects.filter(pk=row.pk).values().get() == {
            field.attname: getattr(row, field.attname) for field in MirrorObject._meta.concrete_fields
        }
        row.save(force_update=True)


def test_a_key_of_its_own_and_a_column_with_the_database_s_default_are_stored_as_given(db: None) -> None:
    CHECK(SelfCheck(name="audit", checked_at=timezone.now(), first="a breach"))
    assert SelfCheck.objects.get(name="audit").first == "a breach"


WRITE = PreparedUpdate(
    lambda pk, version, body, gone: (
        MirrorObject.objects.filter(pk=pk, resource_version__lt=version),
        {"body": body, "gone_at": Coalesce(models.F("gone_at"), gone), "resource_version": version},
    ),
    models.BigAutoField(),
    models.BigIntegerField(),
    models.JSONField(),
    models.DateTimeField(),
)


@pytest.mark.parametrize("body", [{"a": [1, None, "x"]}, {}, []])
def test_an_update_writes_what_it_is_given_where_its_condition_holds(seen: Cluster, body: object) -> None:
    row = MirrorObject.objects.get(cluster=seen, name="a")
    assert WRITE(row.pk, 5, body, None) == 1
    assert WRITE(row.pk, 5, {"late": True}, factories.NOW) == 0
    row.refresh_from_db()
    assert (row.body, row.resource_version, row.gone_at) == (body, 5, None)
    assert WRITE(row.pk, 6, body, factories.NOW) == 1
    assert WRITE(row.pk, 7, body, None) == 1
    row.refresh_from_db()
    assert (row.resource_version, row.gone_at) == (7, factories.NOW)


def test_many_updates_go_in_one_statement(seen: Cluster) -> None:
    rows = list(MirrorObject.objects.filter(cluster=seen).order_by("name"))
    with CaptureQueriesContext(connection) as asked:
        WRITE.write_all([])
        WRITE.write_all([(row.pk, number, {"is": row.name}, None) for number, row in enumerate(rows)])
    assert len(asked) == 1
    bodies = MirrorObject.objects.filter(cluster=seen).order_by("name").values_list("body", flat=True)
    assert list(bodies) == [{"spec": {}}, *({"is": name} for name in "bcde")], "the first was as new"
