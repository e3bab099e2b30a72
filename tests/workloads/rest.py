"""REST as a person uses it."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.models import User
from tests.conftest import Cast, as_actor
from tests.factories import notebook_body

URL = "/api/v1/workloads"


class Api:
    """A client of one person."""

    def __init__(self, user: User, **token: Any) -> None:
        asked = {
            "name": "t",
            "scopes": [],
            "tenants": [],
            "expires_in_days": 1,
            "now": timezone.now(),
            **token,
        }
        _, text = accounts.create_token(actor=as_actor(user), **asked)
        self.client = Client(headers={"Authorization": f"Bearer {text}"})

    def call(self, method: str, path: str = "", body: Any = None, **headers: str) -> Any:
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        send = getattr(self.client, method)
        if body is None:
            return send(f"{URL}{path}", headers=given)
        return send(f"{URL}{path}", json.dumps(body), content_type="application/json", headers=given)


@pytest.fixture
def rosa(cast: Cast) -> Api:
    return Api(cast.rosa)


@pytest.fixture
def otto(cast: Cast) -> Api:
    return Api(cast.otto)


def body(slug: str = "nb-ada", **spec: Any) -> dict[str, Any]:
    return {"tenant": "vision", "slug": slug, "spec": notebook_body(**spec)}


def made(rosa: Api, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = rosa.call("post", body=body(**spec)).json()
    return found
