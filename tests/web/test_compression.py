"""What is sent gzipped, and what never is."""

import gzip

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from portal.middleware import CompressionMiddleware
from tests.conftest import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker")]
LONG = b"alt_" + b"a secret " * 100


def sent(response: HttpResponse | StreamingHttpResponse, method: str = "GET") -> HttpResponse:
    """An answer as it leaves the middleware, for a browser that takes gzip."""

    def made(_request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        return response

    asked = RequestFactory(headers={"Accept-Encoding": "gzip"}).generic(method, "/")
    answer = CompressionMiddleware(made)(asked)
    assert isinstance(answer, HttpResponse | StreamingHttpResponse)
    return answer  # type: ignore[return-value]


@pytest.mark.parametrize("url", ["/", "/me/tokens/", "/api/v1/offers", "/api/v1/workloads/none"])
def test_pages_and_json_are_a_fraction_of_their_length(cast: Cast, url: str) -> None:
    plain, packed = Client(), Client(headers={"Accept-Encoding": "gzip, deflate, br"})
    for client in (plain, packed):
        client.force_login(cast.rosa)
    whole, answer = plain.get(url), packed.get(url)
    assert "Content-Encoding" not in whole
    assert "Accept-Encoding" in whole["Vary"], "a cache must not give the one for the other"
    if len(whole.content) > 1000:
        assert answer["Content-Encoding"] == "gzip"
        assert len(answer.content) < len(whole.content) / 2
        assert gzip.decompress(answer.content)[:15] == whole.content[:15]


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/json", "text/csv"])
def test_the_same_answer_never_has_the_same_length_for_long(kind: str) -> None:
    """What Django pads at random, so that a length tells nothing of what a guess shares with the page."""
    lengths = {len(sent(HttpResponse(LONG, content_type=kind)).content) for _ in range(40)}
    assert len(lengths) > 5


def test_the_answer_to_a_post_may_hold_a_secret_and_is_sent_as_it_is() -> None:
    assert sent(HttpResponse(LONG), "POST").content == LONG
    assert sent(HttpResponse(LONG, content_type="application/yaml")).content == LONG


def test_a_stream_is_sent_as_it_comes() -> None:
    stream = sent(StreamingHttpResponse(iter([LONG]), content_type="text/html"))
    assert "Content-Encoding" not in stream
    assert b"".join(stream) == LONG


def test_the_tag_of_a_compressed_answer_is_known_again(cast: Cast) -> None:
    client = Client(headers={"Accept-Encoding": "gzip"})
    client.force_login(cast.petra)
    first = client.get("/api/v1/tenants")
    assert (first["Content-Encoding"], first["ETag"][:2]) == ("gzip", "W/")
    again = client.get("/api/v1/tenants", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
