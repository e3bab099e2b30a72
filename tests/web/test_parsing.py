"""JSON that is not exactly one clean document is refused before anything looks at it."""

import io

import pytest

from apps.web.parsing import LIMIT_BYTES, StrictJSONParser, strict_json
from apps.web.refusals import BodyTooLarge, MalformedRequest


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a": 1} {"b": 2}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"x": {"a": 1, "a": 2}}',
        b'\xff\xfe{"a": 1}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\u0000"}',
        b'{"\\u0000": 1}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a": 1,}',
        b"{'a': 1}",
    ],
)
def test_what_is_not_one_clean_document_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        strict_json(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null"])
def test_the_document_must_be_an_object(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="must be an object"):
        StrictJSONParser().parse(io.BytesIO(body))


def test_a_document_of_a_mebibyte_passes_and_one_byte_more_does_not() -> None:
    filler = LIMIT_BYTES - len('{"a":""}')
    body = b'{"a":"' + b"x" * filler + b'"}'
    assert len(StrictJSONParser().parse(io.BytesIO(body))["a"]) == filler
    with pytest.raises(BodyTooLarge):
        StrictJSONParser().parse(io.BytesIO(body + b" "))


def test_an_escaped_backslash_before_u0000_is_ordinary_text() -> None:
    assert strict_json(b'{"a": "\\\\u0000"}') == {"a": "\\u0000"}
