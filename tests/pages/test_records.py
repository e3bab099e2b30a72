"""The records: every table for platform engineers, nothing that opens something, nothing that writes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.http import HttpRequest
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.cluster.models import Drift
from apps.cluster.reconciling.rules.drift import DriftKind
from apps.quotas.models import Quota
from apps.workloads.models import Workload
from portal.operate.rotation import SEALED
from portal.pages.console.records import cells, record_site, withheld
from tests.conftest import SignedIn
from tests.pages import every_row
from tests.pages.conftest import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LISTED = list(withheld.listed_models())
OURS = [model for model in apps.get_models() if model.__module__.startswith("apps.")]
WORKLOADS = "/console/records/workloads/workload/"
MOST_STATEMENTS = 20
"""Of a list or a row, with those of every page: session, person, shell."""

Ask = Callable[..., str]


@pytest.fixture
def ask(scene: Scene, signed_in: SignedIn) -> Ask:
    """A page of the records as Petra sees it."""
    client = signed_in(scene.cast.petra)

    def asked(url: str, **query: str) -> str:
        answer = client.get(url, query)
        assert answer.status_code == 200, (url, answer.status_code)
        return answer.content.decode()

    return asked


def list_of(model: type[models.Model]) -> str:
    return f"/console/records/{model._meta.app_label}/{model._meta.model_name}/"


def secrets_of(model: type[models.Model]) -> list[Any]:
    entered = withheld.WITHHELD.get(model._meta.label, ())
    fields = model._meta.concrete_fields
    return [each for each in fields if each.name in entered or isinstance(each, models.BinaryField)]


def columns() -> Iterator[tuple[str, "models.Field[Any, Any]"]]:
    return ((model._meta.label, field) for model in OURS for field in model._meta.concrete_fields)


def test_every_column_with_the_name_of_a_secret_is_classified() -> None:
    like = {
        (label, field.name)
        for label, field in columns()
        if withheld.LIKE_A_SECRET.search(field.name) and not isinstance(field, models.BinaryField)
    }
    secret, public = (
        {(label, name) for label, names in table.items() for name in names}
        for table in (withheld.WITHHELD, withheld.OPEN)
    )
    assert like - secret - public == set(), "enter it in portal/pages/console/records/withheld.py"
    assert public - like == set()
    assert secret & public == set()
    assert secret - {(label, field.name) for label, field in columns()} == set()


def test_what_is_sealed_is_withheld() -> None:
    sealed = {(each.model._meta.label, each.column) for each in SEALED}
    assert sealed <= {(label, field.name) for label, field in columns() if withheld.is_withheld(field)}


def test_every_table_is_there_but_those_that_have_no_key_to_show() -> None:
    assert {model._meta.label for model in OURS} - {model._meta.label for model in LISTED} == {
        "accounts.SignInFlow", "metering.Sample",
    }  # fmt: skip


def test_every_list_and_a_row_of_it_open_without_a_secret(scene: Scene, ask: Ask) -> None:
    for model in LISTED:
        # Not Petra's own: with another password she would be signed out.
        row = scene.cast.otto if model is User else every_row.row_of(model)
        secret = secrets_of(model)
        if secret:
            every_row.plant(row, secret)
        for url in (list_of(model), cells.address(model, row.pk)):
            with CaptureQueriesContext(connection) as caught:
                page = ask(url)
            assert every_row.PLANTED not in page, url
            assert len(caught) <= MOST_STATEMENTS, (url, len(caught))
        sql = str(record_site.SITE.get_model_admin(model).get_queryset(HttpRequest()).query)
        assert [each.name for each in secret if f'"{each.column}"' in sql] == []
    index = ask("/console/records/")
    assert all(list_of(model) in index for model in LISTED)


@pytest.mark.parametrize("tail", ["", "workloads/workload/", "workloads/workload/{pk}/"])
def test_the_records_are_there_for_platform_engineers_alone(
    scene: Scene, signed_in: SignedIn, tail: str
) -> None:
    url, cast = f"/console/records/{tail.format(pk=scene.running.pk)}", scene.cast
    names = ("petra", "ann", "leon", "rosa")
    answers = {name: signed_in(getattr(cast, name)).get(url).status_code for name in names}
    assert answers == {"petra": 200, "ann": 404, "leon": 404, "rosa": 404}
    assert Client().get(url)["Location"].startswith("/sign-in/?next=")


def test_only_platform_engineers_are_led_there(scene: Scene, signed_in: SignedIn) -> None:
    lead = b'href="/console/records/"'
    assert lead in signed_in(scene.cast.petra).get("/console/health/").content
    assert lead not in signed_in(scene.cast.ann).get("/console/health/").content


@pytest.mark.parametrize("tail", ["", "{pk}/", "{pk}/change/", "{pk}/delete/", "add/"])
def test_nothing_is_written(scene: Scene, signed_in: SignedIn, tail: str) -> None:
    body = {
        "name": "changed",
        "action": "delete_selected",
        "_selected_action": str(scene.running.pk),
        "post": "yes",
    }
    answer = signed_in(scene.cast.petra).post(f"{WORKLOADS}{tail.format(pk=scene.running.pk)}", body)
    assert answer.status_code in (404, 405)
    assert Workload.objects.get(pk=scene.running.pk).name == scene.running.name


@pytest.mark.parametrize("url", ["login/", "logout/", "password_change/", "jsi18n/", "r/1/1/"])
def test_the_ways_in_of_djangos_admin_are_not_there(scene: Scene, signed_in: SignedIn, url: str) -> None:
    assert signed_in(scene.cast.petra).get(f"/console/records/{url}").status_code == 404


def test_a_row_leads_to_where_it_is_changed(scene: Scene, ask: Ask) -> None:
    Drift.objects.filter(pk=every_row.row_of(Drift).pk).update(how=DriftKind.CHANGED)
    drift, tenant, running = Drift.objects.get(), scene.cast.vision, scene.running
    pages = {
        drift: f"/console/drift/{drift.pk}/",
        tenant: f"/console/tenants/{tenant.slug}/",
        running: f"/t/vision/workloads/{running.pk}/",
        scene.cast.offer: f"/console/offers/{scene.cast.offer.slug}/",
    }
    for row, page in pages.items():
        assert f'<a class="button" href="{page}">' in ask(cells.address(type(row), row.pk))
        ask(page)


def rows_in(page: str) -> int:
    return page.count('<th scope="row">')


def test_a_row_is_looked_up_filtered_and_followed(scene: Scene, ask: Ask) -> None:
    running, tenant = scene.running, scene.cast.vision
    assert rows_in(ask(WORKLOADS)) == rows_in(ask(WORKLOADS, q="", phase__exact="", suspended__exact="")) == 3
    for query in ({"q": "rag-d"}, {"q": str(running.pk)}, {"phase__exact": running.phase, "q": "rag"}):
        page = ask(WORKLOADS, **query)
        assert (rows_in(page), cells.address(Workload, running.pk) in page) == (1, True), query
    assert rows_in(ask(WORKLOADS, q="no-such-thing")) == 0
    row = ask(cells.address(Workload, running.pk))
    assert cells.address(type(tenant), tenant.pk) in row
    assert f"/console/audit/?target={running.pk}" in row
    quotas = f"/console/records/quotas/quota/?tenant={tenant.pk}"
    assert quotas in ask(cells.address(type(tenant), tenant.pk))
    assert rows_in(ask(quotas)) == Quota.objects.filter(tenant=tenant).count() < Quota.objects.count()


def test_of_a_large_table_only_what_has_an_index_is_looked_through(
    scene: Scene, ask: Ask, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_site, "MOST_ROWS", 2)
    monkeypatch.setattr(record_site.Records, "list_per_page", 1)
    page = ask(WORKLOADS)
    assert ("The first 2 rows" in page, rows_in(page), "Page 1 of 2" in page) == (True, 1, True)
    assert rows_in(ask(WORKLOADS, p="2")) == 1
    assert rows_in(ask(WORKLOADS, q="rag-dev")) == 1
    assert rows_in(ask(WORKLOADS, q="rag-d")) == 0
    client = signed_in(scene.cast.petra)
    for refused in ({"kind__exact": "notebook"}, {"p": "3"}):
        assert client.get(WORKLOADS, refused).status_code == 400
    with CaptureQueriesContext(connection) as caught:
        ask(WORKLOADS, o="2.3.4.5.6.7.8")
    orders = {
        each["sql"].partition("ORDER BY ")[2]
        for each in caught
        if '"workloads_workload"."slug"' in each["sql"]
    }
    assert not any("created_at" in each or "name" in each for each in orders), orders


@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("accounts/apitoken", {"digest__startswith": "a"}),
        ("accounts/apitoken", {"digest": "a"}),
        ("accounts/apitoken", {"user__password__startswith": "a"}),
        ("workloads/workload", {"slug__regex": "(a+)+$"}),
        ("workloads/workload", {"tenant": "no-id"}),
        ("workloads/logpiece", {"log": "9" * 30}),
        ("workloads/workload", {"q": "x" * 300}),
        ("workloads/workload", {"phase": ["Running", "Failed"]}),
    ],
)  # fmt: skip
def test_a_list_is_narrowed_by_nothing_else(
    scene: Scene, signed_in: SignedIn, model: str, query: dict[str, Any]
) -> None:
    assert signed_in(scene.cast.petra).get(f"/console/records/{model}/", query).status_code == 400


@pytest.mark.parametrize(
    "url", ["workloads/nothing/", "auth/permission/", "workloads/workload/no-id/", "a/b/c/d/"]
)
def test_what_is_not_there_is_not_there(scene: Scene, signed_in: SignedIn, url: str) -> None:
    assert signed_in(scene.cast.petra).get(f"/console/records/{url}").status_code == 404
