"""The links of the OpenAPI document lead somewhere, by values that are there."""

from collections.abc import Iterator
from typing import Any

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from tests.described import document, resolved


def links() -> Iterator[tuple[str, Any, Any]]:
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            for answer in operation["responses"].values():
                for each in answer.get("links", {}).values():
                    yield f"{method} {path} -> {each['operationId']}", answer, each


def targets() -> dict[str, Any]:
    return {each["operationId"]: each for item in document()["paths"].values() for each in item.values()}


def shown(answer: Any, pointer: str) -> bool:
    """Whether the body has a member at that place."""
    schema = answer["content"]["application/json"]["schema"]
    for step in pointer.strip("/").split("/"):
        schema = resolved(schema)
        if schema.get("type") == "array":
            schema = schema["items"]
        elif step in schema.get("properties", {}):
            schema = schema["properties"][step]
        else:
            return False
    return True


def test_every_link_says_where_each_part_of_the_address_comes_from() -> None:
    known, wrong = targets(), []
    for name, answer, each in links():
        target = known[each["operationId"]]
        wanted = {one["name"] for one in target["parameters"] if one["in"] == "path"}
        told = each["parameters"]
        bodies = [text.partition("#")[2] for text in told.values() if text.startswith("$response.body")]
        if set(told) - {"If-Match"} != wanted or not all(shown(answer, pointer) for pointer in bodies):
            wrong.append(name)
        if "If-Match" in told and "ETag" not in answer["headers"]:
            wrong.append(f"{name}: no ETag")
    assert wrong == []


def test_whatever_is_made_leads_to_all_that_can_be_asked_of_it() -> None:
    led = {name for name, *_ in links()}
    paths, wrong = document()["paths"], []
    for path, item in paths.items():
        if "201" not in item.get("post", {}).get("responses", {}):
            continue
        for other, methods in paths.items():
            if other.startswith(f"{path}/{{") and other.count("{") == path.count("{") + 1:
                wrong += [
                    f"post {path} -> {each['operationId']}"
                    for each in methods.values()
                    if f"post {path} -> {each['operationId']}" not in led
                ]
    assert wrong == []
    assert led


def test_no_two_components_share_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """drf-spectacular only warns, and describes one of the two as the other."""
    GENERATOR_STATS.reset()
    SchemaGenerator(urlconf="portal.urls").get_schema(public=True)  # type: ignore[no-untyped-call]
    assert "identical names" not in capsys.readouterr().err
