"""Every whole number and every list that comes from outside is bounded by the one table; what was stored
before there was a table breaks no reader.
"""

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
from django import forms
from django.db import models as db
from rest_framework import serializers

import apps
import portal
from apps import ranges
from apps.quotas.models import Grant, Quota, QuotaRequest, TenantQueue
from apps.ranges import Range
from apps.tenants.models import Department
from apps.workloads.kinds import job, notebook, service, training
from apps.workloads.spec import parsing
from portal.api.base.serializers import BoundedDict, BoundedList, StrictSerializer
from portal.pages.console.quotas.catalogue_forms import ShareForm
from tests.hostile.addresses import READS
from tests.matrix import routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import address, filled, load
from tests.sample import every, sampled

pytestmark = pytest.mark.django_db
TABLE = {row for row in vars(ranges).values() if isinstance(row, Range)}
INT32 = 2**31 - 1
MOST_CHARACTERS = 32 * 1024


def everything() -> Iterator[Any]:
    """Every module of the product."""
    for top in (apps, portal):
        for found in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
            if ".migrations" not in found.name and ".management" not in found.name:
                yield import_module(found.name)


def subclasses(base: type) -> set[type]:
    list(everything())
    direct = set(base.__subclasses__())
    return direct.union(*(subclasses_of(each) for each in direct))


def subclasses_of(base: type) -> set[type]:
    direct = set(base.__subclasses__())
    return direct.union(*(subclasses_of(each) for each in direct))


def fields_of(base: type, declared: str) -> Iterator[tuple[str, Any]]:
    for kind in subclasses(base):
        if kind.__module__.startswith(("apps.", "portal.")):
            for name, field in getattr(kind, declared, {}).items():
                yield f"{kind.__module__}.{kind.__name__}.{name}", field


REQUESTS = dict(sorted(fields_of(StrictSerializer, "_declared_fields")))
TYPED = dict(sorted(fields_of(forms.Form, "base_fields")))


def whole(fields: dict[str, Any], kind: type) -> dict[str, Any]:
    return {
        name: field for name, field in fields.items() if isinstance(field, kind) and not field_is_read(field)
    }


def field_is_read(field: Any) -> bool:
    return bool(getattr(field, "read_only", False))


WHOLE: dict[str, Any] = whole(REQUESTS, serializers.IntegerField)
WHOLE_TYPED: dict[str, Any] = {
    name: field
    for name, field in TYPED.items()
    if isinstance(field, forms.IntegerField) and not isinstance(field, forms.FloatField | forms.DecimalField)
}
MINUTES = {Range(bounds.least // 60, bounds.most // 60) for bounds in TABLE}
"""As the forms have them that ask for minutes."""


@pytest.mark.parametrize("name", WHOLE)
def test_every_number_of_a_request_has_a_row_of_the_table(name: str) -> None:
    assert Range(WHOLE[name].min_value, WHOLE[name].max_value) in TABLE


@pytest.mark.parametrize("name", WHOLE_TYPED)
def test_every_number_of_a_form_has_a_row_of_the_table(name: str) -> None:
    assert Range(WHOLE_TYPED[name].min_value, WHOLE_TYPED[name].max_value) in TABLE | MINUTES


TEXTS = {
    name: field
    for name, field in TYPED.items()
    # What is none of the choices, or no UUID, is refused by its first look.
    if isinstance(field, forms.CharField) and not isinstance(field, forms.UUIDField)
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_of_a_form_has_a_length(name: str) -> None:
    assert (TEXTS[name].max_length or MOST_CHARACTERS + 1) <= MOST_CHARACTERS


def limits_of(field: Any) -> tuple[int, int]:
    return field.min_value, field.max_value


def test_the_numbers_that_a_form_makes_by_offer_have_a_row_too(scene: Scene) -> None:
    form = ShareForm([], [scene.here.offer])
    made = [each for each in form.fields.values() if type(each) is forms.IntegerField]
    assert len(made) == 3
    assert {Range(*limits_of(each)) for each in made} <= TABLE


def test_every_number_of_a_workload_has_a_row_of_the_table() -> None:
    calls = [
        node
        for module in (parsing, job, notebook, service, training)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("whole", "optional_whole")
    ]
    given = [
        next(ast.unparse(word.value) for word in call.keywords if word.arg == "within") for call in calls
    ]
    assert len(given) > 5
    assert [row for row in given if not hasattr(ranges, row)] == ["Range(1, completions)"]


@pytest.mark.parametrize("name", whole(REQUESTS, serializers.DecimalField))
def test_every_amount_of_a_request_is_bounded(name: str) -> None:
    field = REQUESTS[name]
    assert field.min_value is not None
    assert field.max_value is not None or field.max_digits - field.decimal_places <= 9


LISTS = {
    name: field
    for name, field in REQUESTS.items()
    if isinstance(field, serializers.ListField | serializers.DictField | serializers.ListSerializer)
}


@pytest.mark.parametrize("name", LISTS)
def test_every_list_of_a_request_is_counted_before_it_is_read(name: str) -> None:
    field: Any = LISTS[name]
    assert isinstance(field, BoundedList | BoundedDict | serializers.ListSerializer)
    assert getattr(field, "max_length", 0)


def test_every_row_fits_what_keeps_it() -> None:
    assert all(0 <= row.least < row.most <= INT32 for row in TABLE)


STRAY = (2**63 - 1, INT32, 10**9)
"""What was stored while there was no table: as large as a row, or a JSON column, could hold."""


def spoil(scene: Scene, number: int) -> None:
    """The number in every column of this side that a person fills, and in what a department keeps as JSON."""
    here = scene.here
    for model in (Quota, Grant, QuotaRequest):
        names = [f.name for f in model._meta.get_fields() if type(f) is db.PositiveIntegerField]
        kept = {name: number for name in names if name not in ("generation", "duration_seconds")}
        model._default_manager.filter(tenant=here.tenant).update(**kept)
    row = {"flavor": here.offer.flavor.object_name, "resource": here.offer.resource_name}
    bounds = [{**row, "borrowing": 2 * number, "lending": 2**70}]
    above = Department.objects.create(
        cluster=here.tenant.cluster,
        slug="above",
        name="Above",
        object_name="above",
        fair_weight=Decimal(9999),
    )
    mine = Department.objects.filter(pk=here.tenant.department_id)
    mine.update(parent=above, bounds=bounds, fair_weight=Decimal("9999.999"))
    TenantQueue.objects.update_or_create(
        tenant=here.tenant,
        defaults={"cluster": here.tenant.cluster, "fair_weight": Decimal("9999.999")},
    )


READ = [
    row for row, view in routes.served().items() if "GET" in load().rows.get(row, {}) and "stream" not in row
]


@pytest.mark.parametrize("number", STRAY)
def test_what_is_stored_beyond_the_table_breaks_no_reader(scene: Scene, number: int) -> None:
    wrong = []
    with undone():
        spoil(scene, number)
        for place, row in every(3, list(enumerate(READ)), STRAY.index(number)):
            resource = str(load().rows[row].get("ids", "none")).split()[0]
            is_rest = row.startswith(routes.API)
            for role in sampled(("platform", "lead", "stranger"), place // 3 + STRAY.index(number), 1):
                client = (scene.api if is_rest else scene.pages)[role]
                answer = client.get(filled(routes.template(address(row)), scene.place(resource, "own", role)))
                answer.close()
                if answer.status_code >= 500 and answer.status_code != 503:
                    wrong.append(f"{row} as {role}: {answer.status_code}")
    assert wrong == []


@pytest.mark.parametrize("number", STRAY)
def test_what_is_stored_beyond_the_table_breaks_no_rehearsal(scene: Scene, number: int) -> None:
    spec = {"kind": "notebook", "offer": "{offer}", "image": "a/b:1"}
    with undone():
        spoil(scene, number)
        for role, side in (("lead", scene.here), ("platform", scene.here), ("stranger", scene.there)):
            body = {"tenant": side.tenant.slug, "spec": {**spec, "offer": side.offer.slug}}
            answer = scene.api[role].post(
                "/api/v1/workloads?dry_run=true", body, content_type="application/json"
            )
            assert answer.status_code < 500, answer.content
        share: dict[str, Any] = {"spec": {"parent": None, "fair_weight": "1", "bounds": []}}
        rehearsals: tuple[tuple[str, Any], ...] = (
            (f"departments/{scene.here.tenant.department.slug}/sharing", share),
            (f"tenants/{scene.here.tenant.slug}/sharing", {"spec": {"fair_weight": "1"}}),
        )
        for path, body in rehearsals:
            answer = scene.api["platform"].put(
                f"/api/v1/{path}?dry_run=true", body, content_type="application/json"
            )
            assert answer.status_code == 200, answer.content


def test_the_reads_are_those_of_the_product() -> None:
    assert len(READ) > len(READS) > 30
