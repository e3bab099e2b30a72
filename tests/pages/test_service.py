"""A service on its pages: card, form and review; how it is called, its tokens, another version."""

from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.test import Client

from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from apps.workloads.token_models import ServiceToken
from tests.conftest import Cast, SignedIn
from tests.factories import NOW

FIELDS = "image=vllm/vllm-openai:v0.11.0&count=1&cpu=4&memory=16Gi&program=&args=--model+small&replicas=2"
FIELDS += "&port=8000&health_path=/health"


def html(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content.decode()[:500]
    return " ".join(answer.content.decode().split())


@pytest.fixture
def rosa(cast: Cast, signed_in: SignedIn) -> Client:
    return signed_in(cast.rosa)


def made(cast: Cast, client: Client) -> Workload:
    typed = dict(parse_qsl(FIELDS)) | {"name": "llm", "kind": "service", "offer": cast.offer.slug}
    answer = client.post("/t/vision/workloads/", typed)
    assert answer.status_code == 303, answer.content.decode()[:500]
    return Workload.objects.get(slug="llm")


def url(row: Workload, tail: str = "") -> str:
    return f"/t/vision/workloads/{row.pk}/{tail}"


def test_from_its_card_to_its_page(cast: Cast, rosa: Client) -> None:
    assert 'href="/t/vision/new/service/"' in html(rosa, "/t/vision/new/")
    form = html(rosa, f"/t/vision/new/service/{cast.offer.slug}/")
    for field in ("replicas", "port", "health_path", "open_to", "command"):
        assert f'name="{field}"' in form
    assert "Empty: until somebody stops it." in form
    review = html(rosa, f"/t/vision/new/service/{cast.offer.slug}/review/?{FIELDS}")
    assert "kind: Deployment" in review
    row = made(cast, rosa)
    page = html(rosa, url(row))
    assert "<dt>Replicas</dt><dd>2" in page
    assert "<code>/health</code> at port 8000" in page
    assert "for each replica" in page
    assert "Working hours" not in page
    assert row.stops_at is None


def test_its_page_says_how_it_is_called_and_takes_another_version(
    cast: Cast, rosa: Client, settings: Any
) -> None:
    row = made(cast, rosa)
    address = settings.CONFIG.apps.origin(row.pk)
    counts = {"wanted": 2, "ready": 1, "updated": 1, "waiting": 1}
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=NOW, replicas=counts)
    page = html(rosa, url(row, "service/"))
    assert f'curl -H "Authorization: Bearer $TOKEN" {address}/health' in page
    assert "<strong>1 of 2</strong> replicas answer." in page
    assert "1 waits in the queue for quota" in page
    assert "comes in" in page
    Workload.objects.filter(pk=row.pk).update(replicas=counts | {"updated": 2})
    page = html(rosa, url(row, "service/"))
    assert "1 of its replicas waits in the queue for quota, and comes by itself" in page
    assert "comes in" not in page, "one that was taken back is no new version"
    Workload.objects.filter(pk=row.pk).update(replicas=counts | {"updated": 2, "waiting": 2})
    assert "comes in" in html(rosa, url(row, "service/")), "one of before still answers"
    typed = {"replicas": "1", "image": "vllm/vllm-openai:v0.12.0", "args": "--model other", "env": "A=1"}
    assert rosa.post(url(row, "service/"), typed).status_code == 303
    row.refresh_from_db()
    assert row.phase == Phase.RUNNING
    assert (row.spec["image"], row.spec["args"], row.spec["env"]) == (
        "vllm/vllm-openai:v0.12.0", ["--model", "other"], {"A": "1"},
    )  # fmt: skip
    assert row.spec["service"]["replicas"] == 1
    wrong = rosa.post(url(row, "service/"), typed | {"replicas": "0", "args": "'"})
    assert wrong.status_code == 422
    assert "A quotation mark is not closed." in wrong.content.decode()


def test_a_token_is_shown_once_and_kept_by_its_owner(cast: Cast, rosa: Client, signed_in: SignedIn) -> None:
    row = made(cast, rosa)
    answer = rosa.post(url(row, "service/tokens/"), {"name": "ci"})
    assert answer.status_code == 200
    token = ServiceToken.objects.get()
    (text,) = {part for part in answer.content.decode().split('"') if part.startswith("alt_")}
    assert token.digest not in answer.content.decode()
    page = html(rosa, url(row, "service/"))
    assert text not in page
    assert token.prefix in page
    again = rosa.post(url(row, "service/tokens/"), {"name": "ci"})
    assert again.status_code == 409
    rotated = rosa.post(url(row, f"service/tokens/{token.pk}/rotate/"), {"keep_old_seconds": "3600"})
    assert "The text of before opens until" in rotated.content.decode()
    assert text not in rotated.content.decode()
    assert rosa.post(url(row, f"service/tokens/{token.pk}/revoke/")).status_code == 303
    assert "None yet" in html(signed_in(cast.leon), url(row, "service/"))
