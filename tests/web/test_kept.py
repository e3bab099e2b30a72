"""What is the same for everybody is made once, sent packed, and not sent again to who has it."""

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import pytest
from django.test import Client, RequestFactory

from portal.api.declared.kept import Kept, takes_gzip

ADDRESSES = ("/api/v1/openapi.json", "/api/")
PACKED = {"Accept-Encoding": "gzip, br"}


@pytest.fixture
def client() -> Client:
    """Without a credential and without a database: this answers anybody."""
    return Client()


@pytest.mark.parametrize("address", ADDRESSES)
def test_anybody_gets_it_with_an_etag_and_304_if_they_have_it(client: Client, address: str) -> None:
    for headers in ({}, PACKED):
        first = client.get(address, headers=headers)
        assert first.status_code == 200
        assert first["ETag"].startswith('"')
        assert first["Cache-Control"] == "public, no-cache"
        assert "Accept-Encoding" in first["Vary"]
        again = client.get(address, headers={**headers, "If-None-Match": first["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert all(again[name] == first[name] for name in ("ETag", "Cache-Control", "Vary"))
        assert client.get(address, headers={**headers, "If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("address", ADDRESSES)
def test_it_is_sent_packed_to_who_takes_that(client: Client, address: str) -> None:
    plain, packed = client.get(address), client.get(address, headers=PACKED)
    assert not plain.has_header("Content-Encoding")
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert len(packed.content) * 5 < len(plain.content)
    assert int(packed["Content-Length"]) == len(packed.content)
    assert packed["ETag"] != plain["ETag"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_head_says_the_same_without_the_body(client: Client, address: str) -> None:
    shown, told = client.get(address), client.head(address)
    assert (told.status_code, told.content) == (200, b"")
    assert {told[name] for name in ("ETag", "Content-Length")} == {
        shown[name] for name in ("ETag", "Content-Length")
    }


@pytest.mark.parametrize("media", ["application/json", "application/vnd.oai.openapi+json", "*/*"])
def test_the_document_has_either_media_type(client: Client, media: str) -> None:
    answer = client.get(ADDRESSES[0], headers={"Accept": media})
    assert media in (answer["Content-Type"], "*/*")
    assert json.loads(answer.content)["openapi"].startswith("3.1")


def test_the_second_request_makes_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.get(ADDRESSES[0])

    def again(*_: Any) -> None:
        pytest.fail("made a second time")

    monkeypatch.setattr("drf_spectacular.generators.SchemaGenerator.get_schema", again)
    assert client.get(ADDRESSES[0]).status_code == 200


def test_many_at_once_make_it_once() -> None:
    made = []

    def make() -> bytes:
        sleep(0.05)
        made.append(1)
        return b"it"

    kept = Kept(make)
    with ThreadPoolExecutor(8) as pool:
        request = RequestFactory().get("/")
        answers = list(pool.map(lambda _: kept.answer(request, "text/plain"), range(8)))
    assert made == [1]
    assert {answer.status_code for answer in answers} == {200}


def test_what_cannot_be_made_is_tried_again() -> None:
    tries: Iterator[Exception | bytes] = iter([ValueError("not yet"), b"it"])

    def make() -> bytes:
        found = next(tries)
        if isinstance(found, Exception):
            raise found
        return found

    kept = Kept(make)
    with pytest.raises(ValueError, match="not yet"):
        _ = kept.forms
    assert kept.forms[0].body == b"it"


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("", False),
        ("br", False),
        ("gzip", True),
        ("GZIP;q=0.5, br", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity, *;q=0.1", True),
    ],
)
def test_gzip_is_taken_as_the_caller_says(given: str, *, is_taken: bool) -> None:
    assert takes_gzip(given) is is_taken
