"""Links of the OpenAPI document: a new object, or the first of a list, leads to whatever can be asked of it.

Made of the addresses alone: from a collection to every operation with one more parameter in its address.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portal.api.declared.declaring import JSON

Part = dict[str, Any]

PARAMETER = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Source:
    """An answer that shows an object of a collection: where the object stands in it, and its members."""

    path: str
    answer: Part
    object_at: str
    members: Part

    def told(self, parameter: str) -> str:
        """The expression that yields the value of a parameter."""
        if parameter == "If-Match":
            return "$response.header.ETag"
        if parameter in PARAMETER.findall(self.path):
            return f"$request.path.{parameter}"
        named = next(name for name in (parameter, "id", "name") if name in self.members)
        return f"$response.body#{self.object_at}/{named}"

    @property
    def matches(self) -> bool:
        """Whether its ETag is the object's."""
        return not self.object_at and "ETag" in self.answer.get("headers", {})


def link(result: Part, **_: Any) -> Part:
    """The document with its links: a hook of drf-spectacular."""
    for path, item in result["paths"].items():
        for method, operation in item.items():
            for source in _sources(result, path, method, operation):
                if found := dict(_links(result["paths"], source)):
                    source.answer["links"] = found
    return result


def _sources(document: Part, path: str, method: str, operation: Part) -> Iterator[Source]:
    """What POST made, and what GET lists."""
    if method == "post" and (made := operation["responses"].get("201")):
        yield Source(path, made, "", _members(document, _schema_of(made)))
    if method == "get" and (shown := operation["responses"].get("200")):
        items = _members(document, _schema_of(shown)).get("items", {})
        if items.get("type") == "array":
            yield Source(path, shown, "/items/0", _members(document, items["items"]))


def _schema_of(answer: Part) -> Part:
    found: Part = answer.get("content", {}).get(JSON, {}).get("schema", {})
    return found


def _members(document: Part, schema: Part) -> Part:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    found: Part = schema.get("properties", {})
    return found


def _links(paths: Mapping[str, Part], source: Source) -> Iterator[tuple[str, Part]]:
    wanted = len(PARAMETER.findall(source.path)) + 1
    for path, item in paths.items():
        names = PARAMETER.findall(path)
        if not path.startswith(f"{source.path}/{{") or len(names) != wanted:
            continue
        for operation in item.values():
            heeded = ["If-Match"] if source.matches and _heeds_match(operation) else []
            told = {name: source.told(name) for name in (*names, *heeded)}
            yield operation["operationId"], {"operationId": operation["operationId"], "parameters": told}


def _heeds_match(operation: Part) -> bool:
    return any(each["name"] == "If-Match" for each in operation.get("parameters", ()))
