"""Health, and REST's description of itself."""

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from openapi_spec_validator import validate

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/health/live"])
def test_a_process_that_answers_is_alive(path: str) -> None:
    assert Client().get(path).json() == {"status": "ok", "checks": {}}


@pytest.mark.parametrize("path", ["/readyz", "/api/v1/health/ready"])
def test_ready_asks_database_schema_and_redis(path: str, broker: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 200
    assert answer.json()["checks"] == {"database": "ok", "migrations": "ok", "redis": "ok"}


def test_redis_away_is_told_and_does_not_take_the_portal_out(no_broker: None) -> None:
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["redis"][:15]) == (200, "does not answer")


def test_a_migration_that_is_not_applied_is_not_ready(no_broker: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'metering'")
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert "not applied" in answer.json()["checks"]["migrations"]


def test_a_database_that_is_away_is_not_ready(monkeypatch: pytest.MonkeyPatch, no_broker: None) -> None:
    def away() -> None:
        raise OperationalError

    monkeypatch.setattr(connection, "cursor", away)
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")


def description(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """REST's description, valid and made without a warning."""
    answer = Client().get("/api/v1/openapi.json")
    described: dict[str, Any] = answer.json()
    validate(described)
    assert capsys.readouterr().err == ""
    return described


@pytest.mark.urls("portal.urls")
def test_every_operation_is_described_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    described = description(capsys)
    paths, post = described["paths"], described["paths"]["/api/v1/tokens"]["post"]
    assert described["openapi"].startswith("3.1")
    refused = described["components"]["responses"]["invalid_token"]
    assert post["responses"]["401"] == {"$ref": "#/components/responses/invalid_token"}
    assert refused["content"].keys() == {"application/problem+json"}
    assert {"name": "Idempotency-Key", "in": "header"}.items() <= post["parameters"][0].items()
    assert {"token": []} in post["security"]
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    operations = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert {"tokens_list", "workloads_list", "workloads_create"} <= set(operations)
    assert len(operations) == len(set(operations))
