"""Every REST answer of every test, held against the OpenAPI document.

A plugin: it puts a middleware in front of all others and fails a test at its end if an answer that it got has
a status, a body, a header or a problem's code that its operation does not declare, or if a query parameter
that the document does not know was taken.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema_rs
import pytest
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from portal.api.declared.declaring import operation_of

STEP = re.compile(r"<(?:\w+:)?(\w+)>")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ROOT = "urn:document"
FORMATS = FormatChecker(["uuid", "date"])
OWN_HEADERS = ("ETag", "Location", "Idempotency-Replayed", "Retry-After", "Link")

_found: list[str] = []


@FORMATS.checks("date-time")
def _is_time(text: object) -> bool:
    return not isinstance(text, str) or bool(TIME.fullmatch(text))


def _known_word(_v: Any, words: list[str], value: object, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and value not in words:
        yield ValidationError(f"{value!r} is not one of {words}")


Strict = extend(Draft202012Validator, {"x-extensible-enum": _known_word})


class Described(MiddlewareMixin):
    """Looks at each answer on its way out, as a client gets it."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Remember what the document does not say."""
        match = getattr(request, "resolver_match", None)
        view = getattr(match.func, "cls", None) if match else None
        if match and view and request.path.startswith("/api/") and operation_of(view, request.method or ""):
            path = path_of("/" + match.route)
            _found.extend(f"{request.method} {path}: {wrong}" for wrong in wrongs(path, request, response))
        return response


def path_of(route: str) -> str:
    """A route as the document names it: a `pk` is its `{id}`."""
    return STEP.sub(lambda step: "{id}" if step[1] == "pk" else f"{{{step[1]}}}", route)


def wrongs(path: str, request: HttpRequest, response: HttpResponseBase) -> Iterator[str]:
    """What is wrong with one answer; nothing for an operation that this URL configuration does not have."""
    method = "get" if request.method == "HEAD" else str(request.method).lower()
    operation = document()["paths"].get(path, {}).get(method)
    if operation is None:
        return
    said = resolved(operation["responses"].get(str(response.status_code)))
    if said is None:
        code = f" ({json.loads(body_of(response))['code']})" if response.status_code >= 400 else ""
        yield f"{response.status_code}{code} is not declared"
        return
    yield from _headers(said, response)
    if response.status_code < 400:
        known = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
        yield from (f"the parameter {name} is not declared" for name in set(request.GET) - known)
    if not response.streaming and request.method != "HEAD":
        yield from _body(said, response, ("paths", path, method, "responses", str(response.status_code)))


def _headers(said: Mapping[str, Any], response: HttpResponseBase) -> Iterator[str]:
    declared = said.get("headers", {})
    for name, header in declared.items():
        if resolved(header).get("required") and not response.has_header(name):
            yield f"{response.status_code} lacks the header {name}"
    for name in OWN_HEADERS:
        if response.has_header(name) and name not in declared:
            yield f"{response.status_code} has the undeclared header {name}"


def _body(said: Mapping[str, Any], response: HttpResponseBase, place: tuple[str, ...]) -> Iterator[str]:
    media = response.get("Content-Type", "").partition(";")[0]
    body, content = body_of(response), said.get("content")
    if content is None:
        if body:
            yield f"{response.status_code} has a body, and none is declared"
        return
    if media not in content:
        yield f"{response.status_code} is {media}, declared is {', '.join(content)}"
        return
    if media.endswith("json"):
        data, where = json.loads(body), "/".join(place)
        if not swift_validator(where, media).is_valid(data):
            for error in validator(where, media).iter_errors(data):
                yield f"{response.status_code} at {error.json_path}: {error.message[:300]}"
        if (codes := said.get("x-problem-codes")) and data["code"] not in codes:
            yield f"{response.status_code} has the undeclared code {data['code']}"


def body_of(response: HttpResponseBase) -> bytes:
    """The content as the caller unpacks it; nothing of a stream."""
    content = b"" if response.streaming else bytes(response.content)  # type: ignore[attr-defined]
    return gzip.decompress(content) if response.get("Content-Encoding") == "gzip" else content


@cache
def document() -> Any:
    """The installation's document, its answers closed: a member that it does not name is wrong."""
    made: Any = SchemaGenerator(urlconf="portal.urls").get_schema(public=True)  # type: ignore[no-untyped-call]
    for item in made["paths"].values():
        for operation in item.values():
            operation.setdefault("parameters", [])
    for schema in made["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return json.loads(json.dumps(made, default=str))


def resolved(part: Any) -> Any:
    """What a reference to a component means."""
    if part and "$ref" in part:
        _, _, kind, name = part["$ref"].split("/")
        return document()["components"][kind][name]
    return part


def schema_of(place: str, media: str) -> Any:
    """The schema of one body."""
    _, *rest = place.split("/", 1)
    path, method, _, status = rest[0].rsplit("/", 3)
    said = resolved(document()["paths"][path][method]["responses"][status])
    return said["content"][media]["schema"]


@cache
def validator(place: str, media: str) -> Any:
    """The validator of one body, made once."""
    return validator_of(schema_of(place, media))


@cache
def swift_validator(place: str, media: str) -> Any:
    """Finds in a hundredth of the time that nothing is wrong; what is wrong the other one says."""
    schema = _closed(_absolute(schema_of(place, media)))
    return jsonschema_rs.Draft202012Validator(
        schema, registry=_swift_registry(), formats={"date-time": _is_time}, validate_formats=True
    )


def _closed(part: Any) -> Any:
    """The list of known words as an `enum`; it is about text alone, so it lets null pass."""
    if isinstance(part, list):
        return [_closed(value) for value in part]
    if not isinstance(part, dict):
        return part
    same = {key: _closed(value) for key, value in part.items() if key != "x-extensible-enum"}
    return {**same, "enum": [*part["x-extensible-enum"], None]} if "x-extensible-enum" in part else same


def validator_of(schema: Any) -> Any:
    """The validator of a schema of the document."""
    return Strict(_absolute(schema), registry=_registry(), format_checker=FORMATS)


def _absolute(schema: Any) -> Any:
    return json.loads(json.dumps(schema).replace('"#/', f'"{ROOT}#/'))


@cache
def _registry() -> Any:
    return Registry().with_resource(ROOT, DRAFT202012.create_resource(document()))


@cache
def _swift_registry() -> Any:
    return jsonschema_rs.Registry([(ROOT, _closed(document()))])


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    settings.MIDDLEWARE = [f"{__name__}.{Described.__name__}", *settings.MIDDLEWARE]


@pytest.fixture(autouse=True)
def answers_are_described() -> Iterator[Callable[[], list[str]]]:
    """Fails the test at its end; a test that means it takes what was found itself."""
    _found.clear()
    yield _take
    wrong = sorted(set(_take()))
    if wrong:
        pytest.fail("Not as the OpenAPI document says:\n" + "\n".join(wrong), pytrace=False)


def _take() -> list[str]:
    taken, _found[:] = [*_found], []
    return taken
