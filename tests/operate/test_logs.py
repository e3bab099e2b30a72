"""Logs: a line of JSON per event with the ids that belong to it, and no secret in either form."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.test import Client
from structlog.contextvars import clear_contextvars

from apps.accounts import scrub
from apps.accounts.tokens import generate
from portal.config import Config
from portal.operate import logs, of_celery
from tests.conftest import Cast, client_of
from tests.factories import make_workload

ROOT = Path(__file__).resolve().parents[2]
CANARY = "c4n4ry-of-the-tests"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    """What a handler with the JSON form writes of everything that is logged."""
    out = StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logs.JsonFormatter([CANARY]))
    logging.getLogger().addHandler(handler)
    clear_contextvars()
    yield out
    logging.getLogger().removeHandler(handler)
    clear_contextvars()


def fail(error: Exception) -> None:
    raise error


def lines(out: StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_event_is_one_line_with_these_names_and_no_others(written: StringIO) -> None:
    try:
        fail(ValueError("of\nthe test"))
    except ValueError:
        logging.getLogger("apps.test").exception("it\nfailed: %s", 7, extra={"body": "of a request"})
    (line,) = lines(written)
    assert set(line) == {"time", "level", "logger", "message", "exception"}
    assert (line["level"], line["logger"], line["message"]) == ("error", "apps.test", "it\nfailed: 7")
    assert "ValueError: of\nthe test" in line["exception"]
    assert line["time"].endswith("Z")


@pytest.mark.django_db
def test_a_request_is_known_by_its_id_and_its_workload(
    written: StringIO, cast: Cast, no_broker: None
) -> None:
    logging.getLogger("django.request").setLevel(logging.WARNING)
    try:
        workload = make_workload(cast.vision, cast.rosa, cast.offer)
        answer = client_of(cast.rosa).get(f"/t/{cast.vision.slug}/workloads/{workload.pk}/no-such/")
        other = Client().get(f"/api/v1/workloads/{workload.pk}")
    finally:
        logging.getLogger("django.request").setLevel(logging.ERROR)
    found = {line["request_id"]: line for line in lines(written) if line["logger"] == "django.request"}
    assert {answer["X-Request-Id"], other["X-Request-Id"]} == set(found)
    assert found[other["X-Request-Id"]]["workload_id"] == str(workload.pk)


def test_a_task_is_known_by_its_name_and_row_and_the_next_one_says_nothing_of_it(written: StringIO) -> None:
    class Task:
        """As Celery hands it over."""

        def __init__(self, name: str) -> None:
            self.name, self.request = name, object()

    log = logging.getLogger("apps.test")
    of_celery._began(task=Task("workloads.reconcile"), args=["w-1"])
    log.warning("one")
    of_celery._began(task=Task("tenants.sweep"))
    log.warning("two")
    one, two = lines(written)
    assert (one["task"], one["workload_id"]) == ("workloads.reconcile", "w-1")
    assert (two["task"], "workload_id" in two) == ("tenants.sweep", False)


SECRET = {
    "a setting's own": f"the key is {CANARY}",
    "an API token": f"got {generate(b'c' * 32).text}",
    "a one-time link": "Internal Server Error: /invite/c4n4ry_by-form/",
    "a header": "Authorization: Bearer c4n4ry.by+form",
    "a credential of an address": "postgresql://someone:c4n4ry@db/allotment",
    "a token of a cluster": f"refused {JWT}",
    "a named password": "{'password': 'c4n4ry by form', 'x': 1}",
    "a named token": "token=c4n4ry&x=1",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nc4n4ry\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("what", SECRET)
def test_no_secret_is_written(written: StringIO, what: str) -> None:
    text = SECRET[what]
    secret = (
        generate(b"c" * 32).text if "API" in what else JWT if what == "a token of a cluster" else "c4n4ry"
    )
    record = logging.LogRecord("apps.test", logging.ERROR, "", 1, "said: %s", (text,), None)
    try:
        fail(RuntimeError(text))
    except RuntimeError:
        record.exc_info = sys.exc_info()
    plain = logs.TextFormatter([CANARY]).format(record)
    logging.getLogger().handle(record)
    for form in (plain, written.getvalue()):
        assert secret not in form
        assert form.count(scrub.HIDDEN) >= 2


def test_what_is_no_secret_stays() -> None:
    words = "the token of north expires; https://x.example/t/vision/workloads/7 took 3 s: Synced=False"
    assert scrub.Scrub([])(words) == words


def test_every_secret_of_the_settings_is_known_by_its_value() -> None:
    config = Config(
        secret_key="k" * 40, metrics_token="m" * 20, database_url="postgresql://a:database-password@h/d",
        redis_url="redis://:redis-password@h/0", telemetry_url="https://u:prometheus-password@h",
    )  # fmt: skip
    names = {"k" * 40, "m" * 20, "database-password", "redis-password", "prometheus-password"}
    assert set(logs.secrets_of(config)) == names


@pytest.mark.programs
@pytest.mark.parametrize("part", ["worker", "web"])
def test_celery_and_uvicorn_write_in_the_same_form(part: str, tmp_path: Path) -> None:
    """Each is started with a mistake that it tells by itself: nobody listens where the broker should be, or
    the address is not ours. Nothing before it has another form, not what Celery warns root of either.
    """
    worker = ["celery", "-A", "portal", "worker", "--concurrency", "1", "--loglevel", "warning"]
    web = ["uvicorn", "portal.asgi:application", "--port", "1", "--host", "203.0.113.1", "--lifespan", "off"]
    environment = {**os.environ, "ALLOTMENT_LOG_FORMAT": "json", "ALLOTMENT_HOME": str(tmp_path),
                   "ALLOTMENT_REDIS_URL": "redis://127.0.0.1:1/0"}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", *(worker if part == "worker" else web)],
        env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr
        lines, own = map(json.loads, process.stderr), "celery" if part == "worker" else "uvicorn"
        line = next(each for each in lines if each["logger"].startswith(own))
        process.kill()
    assert line["level"] in ("warning", "error")
