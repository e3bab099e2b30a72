"""What GET answers, PUT and PATCH take back as it is: on every address that has both, nothing typed here."""

import json
from typing import Any

import pytest
from django.test import Client

from apps.accounts.specs import PlatformRole
from apps.audit.models import AuditEvent
from tests.matrix import asking, routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import filled, load

pytestmark = pytest.mark.django_db
TABLE = load()
WRITE_ONLY = (
    "/api/v1/tenants/<str:key>/registries/<str:registry>",
    "/api/v1/workloads/<str:pk>/secrets/<str:secret>",
)
"""What is written there is never told: there is nothing to send back."""
BOTH = sorted(
    (route, method)
    for route, view in routes.served().items()
    if route.startswith(routes.API) and route not in WRITE_ONLY and "GET" in routes.handlers(view)
    for method in routes.handlers(view) & {"PUT", "PATCH"}
)
JSON = "application/json"


def opened(scene: Scene, route: str) -> tuple[Client, str]:
    """A client that may write there, and the address of the home side's object."""
    resource = str(TABLE.rows[route]["ids"]).partition(" ")[0]
    place = scene.place(resource, "own", PlatformRole.PLATFORM)
    place |= TABLE.ids[TABLE.rows[route]["ids"]].get("own", {})
    return asking.twin(scene.api[PlatformRole.PLATFORM]), filled(routes.template(route), place)


def send(client: Client, method: str, path: str, body: Any, tag: str) -> Any:
    return client.generic(method, path, json.dumps(body), JSON, headers={"If-Match": tag})


def test_there_is_something_to_send_back() -> None:
    assert {method for _, method in BOTH} == {"PUT", "PATCH"}


@pytest.mark.parametrize(("route", "method"), BOTH)
def test_what_is_read_is_written_back_and_nothing_changes(scene: Scene, route: str, method: str) -> None:
    client, path = opened(scene, route)
    with undone():
        shown = client.get(path)
        assert shown.status_code == 200, shown.content
        events = AuditEvent.objects.count()
        again = send(client, method, path, shown.json(), shown["ETag"])
        assert (again.status_code, again.json()) == (200, shown.json())
        assert again.get("ETag", shown["ETag"]) == shown["ETag"]
        after = client.get(path, headers={"If-None-Match": shown["ETag"]})
        assert (after.status_code, after["ETag"]) == (304, shown["ETag"])
        assert AuditEvent.objects.count() == events


def changed(value: Any) -> Any:
    return not value if isinstance(value, bool) else f"{value or ''}x"


@pytest.mark.parametrize(("route", "method"), BOTH)
def test_a_read_only_field_that_changes_is_refused(scene: Scene, route: str, method: str) -> None:
    client, path = opened(scene, route)
    with undone():
        shown = client.get(path)
        for name in ("object", "id", "slug", "created_at", "created_by", "username"):
            if name in shown.json():
                body = {**shown.json(), name: changed(shown.json()[name])}
                answer = send(client, method, path, body, shown["ETag"])
                told = answer.json().get("errors")
                assert (answer.status_code, told and told[0]["code"]) == (422, "read_only_field"), name
                assert told[0]["pointer"] == f"#/{name}"
