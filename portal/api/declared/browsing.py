"""The OpenAPI document as the page for people at `/api/`: what its template shows. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Part = Mapping[str, Any]
EXAMPLES = {"integer": 30, "boolean": True, "array": [], "object": {}, "null": None}


@dataclass(frozen=True)
class Field:
    """A parameter, or a member of a body. `shape` is the component that its page has an anchor for."""

    name: str
    kind: str
    words: str = ""
    is_required: bool = False
    shape: str = ""
    place: str = ""


@dataclass(frozen=True)
class Told:
    """One status of an operation."""

    status: str
    words: str
    kinds: list[Field]
    headers: list[str]


@dataclass(frozen=True)
class Shown:
    """One operation."""

    name: str
    method: str
    path: str
    summary: str
    words: str
    parameters: list[Field]
    takes: list[Field]
    answers: list[Told]
    refusals: list[Told] = field(default_factory=list)
    curl: str = ""
    examples: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """Reads one document."""

    source: Part

    def tags(self) -> list[tuple[str, list[Shown]]]:
        """Operations by tag, both by name."""
        found: dict[str, list[Shown]] = {}
        for path, item in self.source["paths"].items():
            for method, operation in item.items():
                tag = next(iter(operation.get("tags", ())), "others")
                found.setdefault(tag, []).append(self._shown(path, method.upper(), operation))
        return sorted(found.items())

    def shapes(self) -> list[tuple[str, str, list[Field]]]:
        """Every component of a body: name, words, members."""
        schemas = self.source["components"]["schemas"]
        return [
            (name, each.get("description", ""), self._members(each)) for name, each in sorted(schemas.items())
        ]

    def _shown(self, path: str, method: str, operation: Part) -> Shown:
        content = operation.get("requestBody", {}).get("content", {})
        takes = [self._field(media, each["schema"]) for media, each in content.items()]
        told = [self._told(status, each) for status, each in operation["responses"].items()]
        return Shown(
            operation["operationId"],
            method,
            path,
            operation.get("summary", ""),
            operation.get("description", ""),
            [self._parameter(each) for each in operation.get("parameters", ())],
            takes,
            [each for each in told if each.status < "4"],
            [each for each in told if each.status >= "4"],
            self._curl(path, method, operation),
            list(_examples(operation)),
        )

    def _parameter(self, said: Part) -> Field:
        kind = self._kind(said["schema"])
        return Field(
            said["name"], kind, said.get("description", ""), said.get("required", False), place=said["in"]
        )

    def _told(self, status: str, said: Part) -> Told:
        said = self._resolved(said)
        kinds = [self._field(media, each["schema"]) for media, each in said.get("content", {}).items()]
        words = said.get("description", "").replace("- `", "").replace("`", "")
        return Told(status, words, kinds, list(said.get("headers", ())))

    def _field(self, name: str, schema: Part, *, is_required: bool = False) -> Field:
        shape = next(self._names(schema), "")
        return Field(name, self._kind(schema), schema.get("description", ""), is_required, shape)

    def _members(self, schema: Part) -> list[Field]:
        required = schema.get("required", ())
        members = schema.get("properties", {}).items()
        return [self._field(name, each, is_required=name in required) for name, each in members]

    def _kind(self, schema: Part) -> str:
        """A type in words: `Workload`, `list of Device`, `text or null`."""
        if "$ref" in schema:
            return str(schema["$ref"]).rsplit("/", 1)[-1]
        if either := schema.get("oneOf", schema.get("anyOf")):
            return " or ".join(dict.fromkeys(self._kind(each) for each in either))
        known = schema.get("type", "anything")
        words = " or ".join(known) if isinstance(known, list) else str(known)
        if words == "array":
            return f"list of {self._kind(schema.get('items', {}))}"
        return " ".join(filter(None, (schema.get("format", ""), words.replace("string", "text"))))

    def _names(self, schema: Part) -> Iterator[str]:
        if "$ref" in schema:
            yield str(schema["$ref"]).rsplit("/", 1)[-1]
        for each in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), schema.get("items", {})):
            yield from self._names(each) if each else ()

    def _resolved(self, said: Part) -> Part:
        if "$ref" not in said:
            return said
        _, _, kind, name = said["$ref"].split("/")
        found: Part = self.source["components"][kind][name]
        return found

    def _curl(self, path: str, method: str, operation: Part) -> str:
        words = ["curl --oauth2-bearer $TOKEN"]
        if method not in ("GET", "POST"):
            words.append(f"-X {method}")
        names = {each["name"] for each in operation.get("parameters", ()) if each.get("required")}
        words += ["-H 'If-Match: *'"] if "If-Match" in names else []
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body or method == "POST":
            words.append(f"--json '{json.dumps(self._sample(body['schema'] if body else {}))}'")
        return " ".join([*words, f"$ALLOTMENT{path}"])

    def _sample(self, schema: Part) -> Any:
        """The smallest body of that form: its required members."""
        schema = self._resolved(schema)
        if either := schema.get("oneOf", schema.get("anyOf")):
            return self._sample(either[0])
        if "properties" in schema:
            required = schema.get("required", ())
            return {
                name: self._sample(each) for name, each in schema["properties"].items() if name in required
            }
        words = schema.get("x-extensible-enum", schema.get("enum"))
        return words[0] if words else EXAMPLES.get(str(schema.get("type")), "...")


def _examples(operation: Part) -> Iterator[tuple[str, str]]:
    """What is sent and what is answered, each under its name; a patch has two media types and one example."""
    sent = list(operation.get("requestBody", {}).get("content", {}).values())[:1]
    yield from (("sent", _text(each["example"])) for each in sent if "example" in each)
    for status, said in operation["responses"].items():
        for media, each in said.get("content", {}).items():
            if "example" in each:
                yield f"{status} {media}", _text(each["example"])


def _text(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
