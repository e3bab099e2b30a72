"""The OpenAPI document is made of declarations: every operation has one, and each says what it must."""

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from django.test import Client, RequestFactory
from rest_framework.request import Request

from apps.accounts.models import User
from apps.web.problems.refusals import BadParameter
from apps.web.shapes.typed import Schema, Shapes, keywords
from apps.words import Word
from portal.api.declared import queries
from portal.api.declared.declaring import operation_of, refuses
from tests.described import document, path_of
from tests.matrix import routes


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def undeclared() -> set[str]:
    """Those that the URL resolver leads to without a declaration."""
    return {
        f"{method} {routes.nameless(route)}"
        for route, view in routes.served("portal.urls").items()
        for method in routes.handlers(view) - {"HEAD"}
        if route.startswith("/api/v1/")
        and hasattr(view.cls, "scope_group")
        and not operation_of(view.cls, method)
    }


def test_every_operation_is_declared() -> None:
    assert undeclared() == set()


def test_the_check_finds_every_operation_of_the_resolver_in_the_document() -> None:
    lost = {
        f"{method} {route}"
        for route, view in routes.served("portal.urls").items()
        for method in routes.handlers(view) - {"HEAD"}
        if route.startswith("/api/v1/")
        and hasattr(view.cls, "scope_group")
        and method.lower() not in document()["paths"].get(path_of(route), {})
    }
    assert lost == set()


BOUNDS = {"maxLength", "maximum", "pattern", "enum", "format"}


def test_every_query_parameter_says_how_much_it_takes() -> None:
    """A head may be 64 KiB long: what is not bounded costs whoever answers."""
    wrong = []
    for path, method, operation in operations():
        for each in operation.get("parameters", ()):
            schema = each["schema"]
            if each["in"] != "query" or schema["type"] == "boolean":
                continue
            one = schema["items"] if schema["type"] == "array" else schema
            if not BOUNDS & set(one) or (schema["type"] == "array" and "maxItems" not in schema):
                wrong.append(f"{method} {path}: {each['name']}")
    assert wrong == []


def test_every_operation_says_in_a_sentence_what_it_does() -> None:
    assert [f"{method} {path}" for path, method, each in operations() if not each.get("summary")] == []


def test_every_parameter_says_what_it_is_for() -> None:
    silent = [
        f"{method} {path} {each['name']}"
        for path, method, operation in operations()
        for each in operation["parameters"]
        if each["in"] != "path" and not each.get("description")
    ]
    assert silent == []


def test_no_two_operations_share_a_name() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))


@pytest.mark.django_db
def test_every_list_takes_every_order_that_it_names(bearer: Any, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(platform_role="platform")
    client: Client = bearer()
    asked = 0
    for path, method, operation in operations():
        orders = [each["schema"]["enum"] for each in operation["parameters"] if each["name"] == "sort"]
        if method != "get" or not orders or "{" in path:
            continue
        for order in orders[0]:
            assert client.get(path, {"sort": order, "include_total": "true"}).status_code == 200, (
                path,
                order,
            )
            asked += 1
    assert asked > 40


class Colour(Word):
    """What it looks like."""

    RED = "red", "Red"


class InnerBody(TypedDict):
    """Lies within."""

    at: datetime | None


class OuterBody(TypedDict):
    """One of everything."""

    object: Literal["outer"]
    inner: InnerBody | None
    inners: list[InnerBody]
    colour: Colour
    price: Decimal
    address: NotRequired[Annotated[str, "Where it is.", keywords(format="uri")]]
    known: dict[str, bool]
    either: int | str


def shaped(hint: Any) -> tuple[Schema, dict[str, Schema]]:
    kept: dict[str, Schema] = {}

    def keep(name: str, _shape: type, make: Any) -> Schema:
        kept[name] = make()
        return {"$ref": f"#/{name}"}

    return Shapes(keep).of(hint), kept


def test_a_typed_dict_is_a_schema() -> None:
    schema, kept = shaped(OuterBody)
    outer = kept["Outer"]
    members = outer["properties"]
    assert schema == {"$ref": "#/Outer"}
    assert outer["description"] == "One of everything."
    assert set(members) - set(outer["required"]) == {"address"}
    assert members["object"] == {"type": "string", "const": "outer"}
    assert members["inner"] == {"oneOf": [{"$ref": "#/Inner"}, {"type": "null"}]}
    assert members["inners"] == {"type": "array", "items": {"$ref": "#/Inner"}}
    assert members["colour"]["x-extensible-enum"] == ["red"]
    assert "enum" not in members["colour"]
    assert members["price"] == {"type": "string", "format": "decimal"}
    assert members["address"] == {"type": "string", "description": "Where it is.", "format": "uri"}
    assert members["known"] == {"type": "object", "additionalProperties": {"type": "boolean"}}
    assert members["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert kept["Inner"]["properties"]["at"] == {"type": ["string", "null"], "format": "date-time"}


def test_what_is_no_part_of_json_is_refused() -> None:
    with pytest.raises(LookupError, match="set"):
        shaped(set[int])


def test_a_code_that_is_none_is_refused_where_it_is_declared() -> None:
    with pytest.raises(LookupError, match="no_such_code"):
        refuses("no_such_code")


def asked(query: str) -> Request:
    return Request(RequestFactory().get(f"/?{query}"))


COLOURS = ("red", "blue")


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (queries.Flag("x", ""), "true", True),
        (queries.WholeNumber("x", "", default=None, lowest=300, highest=900, step=300), "600", 600),
        (queries.Words("x", "", COLOURS), "red,blue", ["red", "blue"]),
        (queries.OneOf("x", "", Colour, Colour.RED), "red", Colour.RED),
        (queries.Texts("x", ""), "a,b", ["a", "b"]),
        (queries.Text("x", "", r"\d+", "digits"), "12", "12"),
        (queries.Sort("x", "", ("-at", "name")), "name", "name"),
    ],
)
def test_a_parameter_reads_what_it_describes(parameter: Any, text: str, value: Any) -> None:
    assert parameter.of(asked(f"x={text}")) == value
    described = parameter.described()
    assert (described["name"], described["in"]) == ("x", "query")
    assert json.dumps(described)
    parameter.of(asked(""))


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (queries.Flag("x", ""), "yes"),
        (queries.WholeNumber("x", "", default=1, lowest=0, highest=9), "10"),
        (queries.WholeNumber("x", "", default=None, lowest=300, highest=900, step=300), "301"),
        (queries.Words("x", "", COLOURS), "red,green"),
        (queries.OneOf("x", "", Colour, Colour.RED), "blue"),
        (queries.Moment("x", ""), "2026-10-01"),
        (queries.Ids("x", ""), "1"),
        (queries.Text("x", "", r"\d+", "digits"), "a"),
        (queries.Sort("x", "", ("-at",)), "name"),
    ],
)
def test_a_parameter_refuses_what_it_does_not_describe(parameter: Any, text: str) -> None:
    with pytest.raises(BadParameter):
        parameter.of(asked(f"x={text}"))


def test_what_patch_takes_may_leave_out_whatever_stays_at_every_depth() -> None:
    schemas = document()["components"]["schemas"]
    asked = [
        body["schema"]["$ref"]
        for _, method, operation in operations()
        if method == "patch"
        for body in operation["requestBody"]["content"].values()
    ]
    assert asked
    needed = {name: schemas[name]["required"] for name in _inside(asked) if "required" in schemas[name]}
    assert needed == {}


def _inside(references: list[str]) -> set[str]:
    """The components that these lead to through their members, but for what stands in lists."""
    found: set[str] = set()
    while references:
        name = references.pop().rpartition("/")[2]
        if name not in found:
            found.add(name)
            members = document()["components"]["schemas"][name].get("properties", {}).values()
            parts = [
                part for each in members for part in (each, *each.get("allOf", ()), *each.get("oneOf", ()))
            ]
            references += [part["$ref"] for part in parts if "$ref" in part]
    return found
