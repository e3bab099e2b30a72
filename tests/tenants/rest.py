"""A REST client that sends JSON with a token of somebody."""

import json
from collections.abc import Mapping
from typing import Any

from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import create_token
from tests.conftest import as_actor


class Rest:
    """Calls `/api/v1<path>` as one user; `match` is If-Match."""

    def __init__(self, user: User, *, scopes: tuple[str, ...] = (), tenants: tuple[str, ...] = ()) -> None:
        _, text = create_token(
            actor=as_actor(user),
            name="t",
            scopes=list(scopes),
            tenants=list(tenants),
            expires_in_days=1,
            now=timezone.now(),
        )
        self.client = Client(headers={"Authorization": f"Bearer {text}"}, raise_request_exception=False)

    def get(self, path: str, *, accept: str = "application/json") -> Any:
        return self.client.get(f"/api/v1{path}", headers={"Accept": accept})

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, match: str = "", key: str = ""
    ) -> Any:
        headers = {name: value for name, value in (("If-Match", match), ("Idempotency-Key", key)) if value}
        return self.client.generic(method, f"/api/v1{path}", *_json(body), headers=headers)


def _json(body: Mapping[str, Any] | None) -> tuple[str, str]:
    return ("" if body is None else json.dumps(body)), "application/json"
