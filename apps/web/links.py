"""Links of the OpenAPI document: a new object, or the first of a list, leads to whatever can be asked of it.

Made of the addresses alone: from a collection to every operation with one more parameter in its address.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apps.web.declaring import JSON

Part = dict[str, Any]

PARAMETER = re.compile(r"{(\w+)}")


def link(result: Part, **_: Any) -> Part:
    """The document with its links: a hook of drf-spectacular."""
    for path, item in result["paths"].items():
        for method, operation in item.items():
            for response, object_at, members in _sources(result, method, operation):
                found = dict(_links(result["paths"], path, response, object_at, members))
                if found:
                    response["links"] = found
    return result


def _sources(document: Part, method: str, operation: Part) -> Iterator[tuple[Part, str, Part]]:
    """The answers that show an object of the collection, where in the body it stands, and its members."""
    if method == "post" and "201" in operation["responses"]:
        made = operation["responses"]["201"]
        yield made, "", _members(document, _schema_of(made))
    if method == "get" and (shown := operation["responses"].get("200")):
        items = _members(document, _schema_of(shown)).get("items", {})
        if items.get("type") == "array":
            yield shown, "/items/0", _members(document, items["items"])


def _schema_of(response: Part) -> Part:
    found: Part = response.get("content", {}).get(JSON, {}).get("schema", {})
    return found


def _members(document: Part, schema: Part) -> Part:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found: Part = schema.get("properties", {})
    return found


def _links(
    paths: Mapping[str, Part], source: str, response: Part, object_at: str, members: Part
) -> Iterator[tuple[str, Part]]:
    outer = set(PARAMETER.findall(source))
    for path, item in paths.items():
        inner = [name for name in PARAMETER.findall(path) if name not in outer]
        if not path.startswith(f"{source}/{{") or len(inner) != 1:
            continue
        told = {name: f"$request.path.{name}" for name in sorted(outer)}
        member = inner[0] if inner[0] in members else "id"
        told[inner[0]] = f"$response.body#{object_at}/{member}"
        for operation in item.values():
            matched = _matched(operation) and not object_at and "ETag" in response.get("headers", {})
            etag = {"If-Match": "$response.header.ETag"} if matched else {}
            yield operation["operationId"], {
                "operationId": operation["operationId"],
                "parameters": {**told, **etag},
            }


def _matched(operation: Part) -> bool:
    return any(each["name"] == "If-Match" for each in operation.get("parameters", ()))
