"""What is our own in SQLite's backend."""

from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Value
from django.db.models.fields import UUIDField
from django.db.models.functions import Cast

from apps.accounts.models import User
from tests.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has a type for UUIDs")
def test_a_uuid_is_parsed_once_however_often_it_is_read() -> None:
    """Of one text one object, right to the last digit; NULL stays NULL."""
    make_user("rosa")
    value = uuid4()
    asked = User.objects.annotate(
        known=Cast(Value(value.hex), UUIDField()), none=Cast(Value(None), UUIDField())
    ).values_list("known", "none")
    (first, nothing), (second, _) = asked.get(), asked.get()
    assert (first, nothing) == (value, None)
    assert first is second
