"""The described spec of a request is what the parser takes: the same names, words, patterns and bounds."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from apps.errors import Invalid
from apps.web.shapes.typed import Schema, Shapes
from apps.workloads.spec import parsing
from apps.workloads.spec.wishes import WorkloadWish
from tests.described import document

NOTEBOOK = {"kind": "notebook", "offer": "h100", "notebook": {}}
JOB = {"kind": "job", "offer": "h100", "image": "registry.example/a:1", "job": {"completions": 1_000}}
TRAINING = {"kind": "training", "offer": "h100", "image": "registry.example/a:1", "training": {}}
SERVICE = {"kind": "service", "offer": "h100", "image": "registry.example/a:1", "service": {}}
VOLUME = {"name": "data", "size": "1Gi", "mount_path": "/data"}
Path = tuple[str | int, ...]


def described() -> Schema:
    """The whole schema, its parts in place."""
    return Shapes(lambda _name, _shape, make: make()).of(WorkloadWish)


def members(schema: Schema, at: Path = ()) -> Iterator[tuple[Path, Schema, bool]]:
    """Every member at every depth: where, its schema, whether it is required."""
    for name, member in schema.get("properties", {}).items():
        real = next((each for each in member.get("oneOf", ()) if each.get("type") != "null"), member)
        yield (*at, name), real, name in schema["required"]
        yield from members(real, (*at, name))
        if "items" in real:
            yield from members(real["items"], (*at, name, 0))


ALL = {path: (schema, required) for path, schema, required in members(described())}


def base(path: Path) -> dict[str, Any]:
    """A document that is right and has what the path leads through."""
    of_kind = {"job": JOB, "image": JOB, "training": TRAINING, "service": SERVICE}
    found: dict[str, Any] = dict(of_kind.get(str(path[0]), NOTEBOOK))
    if path[:1] == ("job",) and path[1:] in (("completions",), ("parallelism",)):
        found["job"] = {"completions": 10_000, "completion_mode": "NonIndexed"}
    found |= {"volumes": [dict(VOLUME)]} if path[0] == "volumes" else {}
    found |= {"notebook": {"hours": {"days": ["Mon"]}}} if path[:2] == ("notebook", "hours") else {}
    return found | ({"idle_policy": {"action": "warn"}} if path[0] == "idle_policy" else {})


def put(path: Path, value: object) -> dict[str, Any]:
    """That document with the value there."""
    found = base(path)
    inner: Any = found
    for step in path[:-1]:
        inner[step] = inner[step].copy()
        inner = inner[step]
    inner[path[-1]] = value
    return found


def refusals(body: Mapping[str, Any]) -> dict[str, str]:
    """Pointer -> code of every problem."""
    try:
        parsing.parse(body)
    except Invalid as error:
        return {problem.pointer: problem.code for problem in error.problems}
    return {}


def pointer(path: Path) -> str:
    return "/".join(("/spec", *map(str, path)))


def test_the_members_are_those_that_the_parser_knows() -> None:
    assert {path[0] for path in ALL} == set(parsing.FIELDS)
    assert len(ALL) > len(parsing.FIELDS)


@pytest.mark.parametrize("path", list(ALL), ids=pointer)
def test_the_parser_knows_each_member_and_no_neighbour_of_it(path: Path) -> None:
    body = put((*path[:-1], f"{path[-1]}_not"), 1)
    assert refusals(body)[pointer((*path[:-1], f"{path[-1]}_not"))] == "unknown_field"
    assert refusals(put(path, base(path)[path[0]] if path == ("kind",) else None)).get(pointer(path)) in (
        None,
        "required",
    )


@pytest.mark.parametrize("path", list(ALL), ids=pointer)
def test_the_parser_requires_what_is_required(path: Path) -> None:
    body = put(path, None)
    is_refused = refusals(body).get(pointer(path)) == "required"
    needs_one = path == ("image",)  # of a job alone
    assert is_refused == (ALL[path][1] or needs_one)


@pytest.mark.parametrize("path", [each for each in ALL if "maximum" in ALL[each][0]], ids=pointer)
def test_the_parser_has_the_bounds(path: Path) -> None:
    least, most = ALL[path][0]["minimum"], ALL[path][0]["maximum"]
    for inside in (least, most):
        assert refusals(put(path, inside)) == {}
    for outside in (least - 1, most + 1):
        assert refusals(put(path, outside))[pointer(path)] == "out_of_range"


@pytest.mark.parametrize("path", [each for each in ALL if "x-extensible-enum" in ALL[each][0]], ids=pointer)
def test_the_parser_has_the_words(path: Path) -> None:
    for word in ALL[path][0]["x-extensible-enum"]:
        assert pointer(path) not in refusals(put(path, word))
    assert refusals(put(path, "no-such-word"))[pointer(path)] == "invalid_value"


@pytest.mark.parametrize("path", [each for each in ALL if "maxItems" in ALL[each][0]], ids=pointer)
def test_the_parser_has_the_lengths(path: Path) -> None:
    most = ALL[path][0]["maxItems"]
    rows = [{**VOLUME, "name": f"v{n}", "mount_path": f"/v{n}"} for n in range(most + 1)]
    values: list[Any] = rows if path == ("volumes",) else ["Mon" if "days" in path else "x"] * (most + 1)
    assert refusals(put(path, values[:-1])) == {}
    assert refusals(put(path, values))[pointer(path)] == "out_of_range"


@pytest.mark.parametrize("path", [each for each in ALL if "pattern" in ALL[each][0]], ids=pointer)
def test_the_parser_has_the_patterns(path: Path) -> None:
    pattern = re.compile(ALL[path][0]["pattern"])
    for text in ("data", "/data", "Data", "a b", "data/x", "-x", "09:00", "24:00"):
        assert (pointer(path) not in refusals(put(path, text))) == bool(pattern.search(text)), text


def test_so_do_the_variables() -> None:
    schema = ALL[("env",)][0]
    most = schema["maxProperties"]
    full = {f"V{n}": "x" for n in range(most)}
    assert re.search(schema["propertyNames"]["pattern"], "V1")
    assert not re.search(schema["propertyNames"]["pattern"], "1V")
    assert refusals(put(("env",), full)) == {}
    assert refusals(put(("env",), full | {"ONE_MORE": "x"}))["/spec/env"] == "out_of_range"
    assert refusals(put(("env",), {"1V": "x"})) == {"/spec/env/1V": "invalid_value"}


def test_requests_refer_to_it_and_a_patch_requires_nothing_of_it() -> None:
    found = document()
    schemas = found["components"]["schemas"]

    def spec_of(path: str, method: str) -> Any:
        body = found["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
        name = body["$ref"].rpartition("/")[2]
        return schemas[name]["properties"]["spec"]

    assert spec_of("/api/v1/workloads", "post") == {"$ref": "#/components/schemas/WorkloadWish"}
    assert spec_of("/api/v1/workloads/{id}", "put") == {"$ref": "#/components/schemas/WorkloadWish"}
    for path, method in (("/api/v1/workloads/{id}", "patch"), ("/api/v1/workloads/{id}/duplicate", "post")):
        assert spec_of(path, method) == {"$ref": "#/components/schemas/WorkloadWishPatch"}
    assert "required" not in schemas["WorkloadWishPatch"]
    assert schemas["WorkloadWish"]["required"] == ["kind", "offer"]
    assert set(schemas["WorkloadWishPatch"]["properties"]) == set(parsing.FIELDS)
