"""JSON that is not exactly one clean document is refused before anything looks at it."""

import io
import json

import pytest
from django.test import RequestFactory

from apps.errors import MOST_PROBLEMS, FieldProblem, Invalid
from apps.web.problems.refusals import BodyTooLarge, MalformedRequest
from apps.web.requests.intake import ApiRequest
from portal.api.base.parsing import DEEPEST, LIMIT_BYTES, StrictJSONParser, strict_json


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


def test_a_body_is_read_before_any_transaction_and_refused_where_it_is_used() -> None:
    request = ApiRequest(RequestFactory().post("/", b"{", "application/json"), parsers=[StrictJSONParser()])
    request.take_body()
    for _ in range(2):
        with pytest.raises(MalformedRequest):
            _ = request.data


@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST])
def test_a_document_is_at_most_so_deep(levels: int) -> None:
    body = b'{"a":' + b"[" * levels + b'"[{"' + b"]" * levels + b"}"
    if levels < DEEPEST:
        assert strict_json(body)
    else:
        with pytest.raises(MalformedRequest, match="nested deeper"):
            strict_json(body)


def test_brackets_and_commas_inside_texts_count_as_text() -> None:
    text = '[{,\\"' * 50_000
    assert strict_json(json.dumps({"a": text}).encode()) == {"a": text}


def test_a_refusal_names_a_hundred_fields_and_counts_the_rest() -> None:
    refusal = Invalid([FieldProblem(f"/{number}", "invalid_value", "x" * 9000) for number in range(250)])
    assert (len(refusal.problems), refusal.detail[-14:]) == (MOST_PROBLEMS, " And 150 more.")
    assert max(len(problem.detail) for problem in refusal.problems) < 600
