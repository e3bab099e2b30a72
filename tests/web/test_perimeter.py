"""What every answer carries, whatever made it; and that no request decides how people reach us."""

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from apps.cluster.models import Cluster
from apps.web.requests.perimeter import DENIED_FEATURES
from tests.conftest import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
ROOT = Path(__file__).resolve().parents[2]
BY_REQUEST = re.compile(r"build_absolute_uri|get_host\b|request\.scheme|request\.is_secure|get_current_site")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
ANSWERS = {
    "page": ("/sign-in/", 200),
    "page with a nonce": ("/", 200),
    "redirect": ("/console/", 302),
    "static file": ("/static/css/allotment.css", 200),
    "static file that is not there": ("/static/none.css", 404),
    "REST": ("/api/v1/me", 200),
    "problem of REST": ("/api/v1/workloads/none", 404),
    "problem page": ("/t/none/", 404),
    "unknown address": ("/none", 404),
    "health": ("/healthz", 200),
    "stream": ("/api/v1/events", 200),
    "host that is not ours": ("/sign-in/", 400),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_answer_carries_every_security_header(kind: str, cast: Cast) -> None:
    client, (path, status) = Client(), ANSWERS[kind]
    if kind not in ("redirect", "host that is not ours", "page"):
        client.force_login(cast.rosa)
    answer = client.get(path, headers={"Host": "evil.example"} if "host" in kind else {})
    assert answer.status_code == status
    assert {name: answer.get(name) for name in HEADERS} == HEADERS
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    denied = answer["Permissions-Policy"].split(", ")
    assert {"camera=()", "microphone=()", "geolocation=()", "payment=()", "usb=()"} <= set(denied)
    assert {"interest-cohort=()", "browsing-topics=()", "clipboard-read=()"} <= set(denied)
    assert denied[-1] == "clipboard-write=(self)", "the one that pages use: Copy"
    assert len(denied) == len(set(denied)) == len(DENIED_FEATURES) + 1
    answer.close()


@pytest.mark.parametrize(("address", "told"), [("https://allotment.example.org", "max-age=60"), ("", None)])
def test_the_scheme_is_the_public_addresss_whatever_a_request_claims(
    address: str, told: str | None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "public_url", address)
    settings.SECURE_HSTS_SECONDS = 60
    for claimed in ("http", "https"):
        answer = Client().get("/sign-in/", headers={"X-Forwarded-Proto": claimed})
        assert answer.get("Strict-Transport-Security") == told


def test_the_next_page_of_a_list_is_at_the_public_address(
    cast: Cast, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster.objects.create(slug="south", name="South")
    monkeypatch.setattr(settings.CONFIG, "public_url", "https://allotment.example.org/")
    client = Client(
        headers={"Host": "localhost", "X-Forwarded-Proto": "ftp", "X-Forwarded-Host": "evil.example"}
    )
    client.force_login(cast.petra)
    for path in ("/api/v1/clusters?limit=1", "/api/v1/users?limit=1"):
        shown = client.get(path).json()["next"]
        assert shown.startswith(f"https://allotment.example.org{path}&cursor=")
        assert len(client.get(shown).json()["items"]) == 1


def test_the_example_of_a_new_token_names_the_public_address(
    cast: Cast, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.CONFIG, "public_url", "https://allotment.example.org")
    client = Client()
    client.force_login(cast.rosa)
    asked = {"name": "x", "days": "1", "reach_workloads": "read"}
    page = client.post("/me/tokens/", asked, headers={"Host": "localhost"}).content.decode()
    assert "https://allotment.example.org/api/v1/me" in page


def _sources(*suffixes: str) -> list[Path]:
    return [
        path
        for folder in ("apps", "portal", "templates")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in suffixes
    ]


def test_no_code_makes_an_address_of_a_request() -> None:
    sources = _sources(".py", ".html")
    assert len(sources) > 200
    found = {str(path.relative_to(ROOT)) for path in sources if BY_REQUEST.search(path.read_text())}
    assert found == set()


def test_forwarded_headers_are_read_in_one_place_each() -> None:
    read = re.compile(r"X_FORWARDED|X-Forwarded|REMOTE_ADDR")
    found = {path.name for path in _sources(".py") if read.search(path.read_text())}
    # settings names what perimeter writes; config and middleware only speak of it.
    assert found <= {"client_address.py", "perimeter.py", "settings.py", "config.py"}
