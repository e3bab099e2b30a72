"""What the writes of REST share: looking one row up, rehearsing, and what may be sent back."""

from uuid import uuid4

import pytest
from rest_framework import serializers

from apps.accounts.models import User
from apps.errors import Invalid, NotFound
from apps.web.requests.lookups import by_id, one, slug_or_id
from apps.web.requests.rehearsals import rehearsal
from portal.api.base.documents import patched, writable
from portal.api.base.serializers import StrictSerializer


class Terms(StrictSerializer):
    price = serializers.IntegerField()


class Document(StrictSerializer):
    name = serializers.CharField()
    terms = Terms()
    notes = serializers.ListField(default=list)
    until = serializers.CharField(required=False, allow_null=True)
    labels = serializers.DictField(required=False)


SHOWN = {"slug": "a", "name": "A", "terms": {"price": 3, "cluster": "north"}, "status": {"phase": "Ready"}}


def test_a_patch_merges_into_the_writable_part_as_it_is_shown() -> None:
    assert writable(Document(), SHOWN) == {"name": "A", "terms": {"price": 3}}
    assert writable(Document(), {**SHOWN, "terms": None}) == {"name": "A", "terms": None}


@pytest.mark.parametrize(
    ("patch", "body"),
    [
        ({}, {"name": "A", "terms": {"price": 3}}),
        ({"name": "B"}, {"name": "B", "terms": {"price": 3}}),
        ({"terms": {"price": 4}}, {"name": "A", "terms": {"price": 4}}),
        ({"notes": ["n"]}, {"name": "A", "terms": {"price": 3}, "notes": ["n"]}),
        ({"until": None}, {"name": "A", "terms": {"price": 3}}),
        ({"labels": {"a": None, "b": "2"}}, {"name": "A", "terms": {"price": 3}, "labels": {"b": "2"}}),
    ],
)
def test_a_merge_patch_replaces_merges_and_removes(patch: dict[str, object], body: dict[str, object]) -> None:
    assert patched(Document(), SHOWN, patch) == body


@pytest.mark.parametrize(
    ("patch", "pointer", "code"),
    [
        ({"nonsense": None}, "/nonsense", "unknown_field"),
        ({"terms": {"nonsense": None}}, "/terms/nonsense", "unknown_field"),
        ({"name": None}, "/name", "invalid_value"),
        ({"terms": {"price": None}}, "/terms/price", "invalid_value"),
        ({"notes": None}, "/notes", "invalid_value"),
    ],
)
def test_a_null_that_removes_nothing_that_may_go_is_refused(
    patch: dict[str, object], pointer: str, code: str
) -> None:
    with pytest.raises(Invalid) as refused:
        Document.checked(patched(Document(), SHOWN, patch), context={"current": SHOWN})
    assert [(each.pointer, each.code) for each in refused.value.problems] == [(pointer, code)]


def test_a_read_only_field_may_be_sent_back_where_it_is_shown() -> None:
    sent = {**SHOWN, "terms": {"price": 4, "cluster": "north"}}
    assert Document.checked(sent, context={"current": SHOWN})["terms"] == {"price": 4}


@pytest.mark.parametrize(
    ("sent", "pointer", "code"),
    [
        ({"name": "A", "cluster": "north", "terms": {"price": 4}}, "/cluster", "unknown_field"),
        ({"name": "A", "terms": {"price": 4, "slug": "a"}}, "/terms/slug", "unknown_field"),
        ({"name": "A", "terms": {"price": 4, "cluster": "south"}}, "/terms/cluster", "read_only_field"),
    ],
)
def test_elsewhere_or_with_another_value_it_is_refused(
    sent: dict[str, object], pointer: str, code: str
) -> None:
    with pytest.raises(Invalid) as refused:
        Document.checked(sent, context={"current": SHOWN})
    assert [(each.pointer, each.code) for each in refused.value.problems] == [(pointer, code)]


@pytest.mark.django_db
def test_a_rehearsal_keeps_nothing_and_tells_what_it_saw() -> None:
    def seen() -> int:
        with rehearsal():
            User.objects.create_user("rosa")
            return User.objects.filter(username="rosa").count()

    assert (seen(), User.objects.filter(username="rosa").count()) == (1, 0)


@pytest.mark.django_db
def test_what_refuses_a_rehearsal_refuses_its_caller() -> None:
    def refused() -> None:
        with rehearsal():
            User.objects.create_user("rosa")
            raise NotFound

    with pytest.raises(NotFound):
        refused()
    assert not User.objects.filter(username="rosa").exists()


@pytest.mark.django_db
def test_an_address_names_one_row_or_none() -> None:
    rosa = User.objects.create_user("rosa")
    assert by_id(User.objects.all(), str(rosa.pk)) == rosa == one(User.objects.filter(username="rosa"))
    for key in ("rosa", str(uuid4()), ""):
        with pytest.raises(NotFound):
            by_id(User.objects.all(), key)
    assert slug_or_id("rosa") != slug_or_id(rosa.pk)
