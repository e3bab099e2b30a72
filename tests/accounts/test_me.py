"""GET /api/v1/me: who asks, and how far the credential reaches."""

from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.tenants.models import Department, DepartmentManager, Tenant
from tests.conftest import Cast
from tests.factories import NOW, join

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db, pytest.mark.both_databases]


def test_me_names_roles_and_the_cut_of_the_token(
    cast: Cast, ada: User, bearer: Callable[..., Client]
) -> None:
    join(cast.vision, ada)
    join(cast.speech, ada)
    client = bearer(scopes=["workloads:read"], tenants=["vision"])
    body = client.get("/api/v1/me").json()
    assert (body["username"], body["roles"], body["scopes"]) == ("ada", [], ["workloads:read"])
    assert body["tenants"] == {"vision": "member"}
    assert body["tenants_cut"] == ["vision"]
    assert body["token"].startswith("alt_")


def test_a_session_is_not_cut(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.petra)
    body = client.get("/api/v1/me").json()
    assert (body["roles"], body["scopes"], body["token"]) == (["platform"], None, None)
    assert body["tenants_cut"] is None


def test_me_names_nothing_that_is_gone(cast: Cast, ada: User) -> None:
    join(cast.vision, ada)
    DepartmentManager.objects.create(department=cast.vision.department, user=ada)
    client, gone = Client(), {"deleting_at": NOW, "deleted_at": NOW}
    client.force_login(ada)
    asked = [client.get("/api/v1/me").json()]
    Tenant.objects.filter(pk=cast.vision.pk).update(**gone)
    Department.objects.filter(pk=cast.vision.department_id).update(**gone)
    asked.append(client.get("/api/v1/me").json())
    slug = cast.vision.department.slug
    assert [(one["tenants"], one["departments"]) for one in asked] == [
        ({"vision": "member"}, [slug]),
        ({}, []),
    ]
