"""What a refusal undoes, and what sets a savepoint (apps/transactions.py)."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.transactions import part, whole
from apps.web.models import SelfCheck

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]


@part
def store(name: str, *, refuses: bool = False) -> None:
    SelfCheck.objects.create(name=name, checked_at=timezone.now())
    if refuses:
        raise ValueError(name)


def names() -> list[str]:
    return sorted(SelfCheck.objects.values_list("name", flat=True))


def test_a_part_and_a_whole_in_a_whole_set_no_savepoint() -> None:
    with CaptureQueriesContext(connection) as statements, whole():
        with whole():
            store("a")
        store("b")
    assert names() == ["a", "b"]
    assert not [each for each in statements if "SAVEPOINT" in each["sql"]]


def test_a_refusal_in_a_part_undoes_the_whole() -> None:
    def refused() -> None:
        with whole():
            store("a")
            store("b", refuses=True)

    with pytest.raises(ValueError, match="b"):
        refused()
    assert names() == []


def test_elsewhere_a_part_is_undone_alone() -> None:
    with transaction.atomic():
        store("a")
        with pytest.raises(ValueError, match="b"):
            store("b", refuses=True)
    assert names() == ["a"]
