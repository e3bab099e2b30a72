"""Any body of at most 1 MiB is answered or refused within 200 ms of a calm machine's work, at every write."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from drf_spectacular.generators import SchemaGenerator

from apps.errors import MOST_PROBLEMS
from apps.web.problems.refusals import MalformedRequest
from apps.workloads.spec.parsing import FIELDS
from portal.api.base.parsing import LIMIT_BYTES, MOST_VALUES, strict_json
from portal.api.declared.queries import Ids, Parameter
from tests.cost import calm_ms
from tests.hostile.addresses import READS, WRITING, with_value
from tests.hostile.bounds import BUDGET_MS, LARGEST_ANSWER, PART, PART_BUDGET_MS
from tests.matrix import asking, routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import address, filled, filled_body, load

pytestmark = pytest.mark.django_db
FULL = LIMIT_BYTES - 4096
MANY = MOST_VALUES - 100
"""Just within what the parser lets through: all that comes later has to bear it."""


def filled_with(unit: bytes, *, begins: bytes = b"", ends: bytes = b"") -> bytes:
    """As often the unit as fits into a body."""
    return begins + unit * ((FULL - len(begins) - len(ends)) // len(unit)) + ends


def keys(count: int, name: str = "key") -> bytes:
    """Members of an object, each with another name."""
    return b",".join(b'"%s%d":1' % (name.encode(), number) for number in range(count))


DOCUMENTS: dict[str, bytes] = {
    "keys beyond number": b"{" + keys(60_000) + b"}",
    "many keys": b"{" + keys(MANY) + b"}",
    "many keys, the last twice": b"{" + keys(MANY) + b',"key%d":1}' % (MANY - 1),
    "names nearly right": b"{" + keys(MANY, "spec") + b"}",
    "one long key": b'{"' + b"k" * FULL + b'":1}',
    "long keys": b"{" + b",".join(b'"%s%d":1' % (b"k" * 1000, number) for number in range(1000)) + b"}",
    "as deep as may be, many times": b'{"a":[' + b",".join([b"[" * 29 + b"]" * 29] * 600) + b"]}",
    "too deep": b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "texts below many levels": b'{"a":' + b"[" * 29 + b",".join([b'"\\u0041"'] * MANY) + b"]" * 29 + b"}",
    "lists beyond number": filled_with(b"[],", begins=b'{"a":[', ends=b"[]]}"),
    "a million digits": filled_with(b"9", begins=b'{"a":', ends=b"}"),
    "a million digits and a point": filled_with(b"9", begins=b'{"a":', ends=b".5}"),
    "4,300 digits each": b'{"a":[' + b",".join([b"9" * 4300] * 240) + b"]}",
    "large floats": b'{"a":[' + b",".join([b"1e308"] * MANY) + b"]}",
    "escapes": filled_with(b"\\ud83d\\ude00", begins=b'{"a":"', ends=b'"}'),
    "halves of surrogates": filled_with(b"\\ud800", begins=b'{"a":"', ends=b'"}'),
    "a text without end, of quotes": filled_with(b'\\"', begins=b'{"a":"'),
    "quotes": filled_with(b'"', begins=b"{"),
    "backslashes": filled_with(b"\\", begins=b'{"a":"'),
    "brackets that do not match": filled_with(b"[{", begins=b'{"a":'),
    "blanks": filled_with(b" ", ends=b"{}"),
}
"""Whole bodies that cost a careless reader more than they cost who sends them."""

VALUES: dict[str, Any] = {
    "numbers": [2**63] * (MANY // PART),
    "objects": [{"a": 1}] * (MANY // PART // 3),
    "members": {f"member{number}": "b" for number in range(MANY // PART // 2)},
    "a text": "- [a, {b: c}]\n" * (FULL // PART // 16),
}
"""What is put into each field of each write."""
PLACE = "the place of a value"


@cache
def fields() -> dict[tuple[str, str], list[str]]:
    """(address, method) -> the pointers of all that its body may have, from the description of the API."""
    document: Any = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    found = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            media = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            pointers = list(_pointers(document, media.get("schema", {}), ""))
            if path.endswith(("/workloads", "/workloads/{id}", "/workloads/{pk}")):
                pointers += [f"/spec/{name}" for name in FIELDS]
            found[routes.nameless(path), method.upper()] = pointers
    return found


def _pointers(document: Any, schema: Any, at: str) -> Iterator[str]:
    for part in (schema, *schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
        name = part.get("$ref", "").rpartition("/")[2]
        known = document["components"]["schemas"][name] if name else part
        for key, inner in known.get("properties", {}).items():
            yield f"{at}/{key}"
            yield from _pointers(document, inner, f"{at}/{key}")


def is_let_through(body: bytes) -> bool:
    try:
        strict_json(body)
    except MalformedRequest:
        return False
    return True


def bodies(sample: Any, pointers: list[str]) -> Iterator[tuple[str, bytes]]:
    """Each value is written once and put where it belongs: to write it anew costs more than to ask."""
    yield from let_through()
    for pointer in pointers:
        around = json.dumps(with_value(sample, pointer, PLACE)).encode()
        for name, value in written():
            yield f"{pointer} = {name}", around.replace(json.dumps(PLACE).encode(), value)


@cache
def let_through() -> list[tuple[str, bytes]]:
    """What the parser does not refuse by itself."""
    return [(name, body) for name, body in DOCUMENTS.items() if is_let_through(body)]


@cache
def written() -> list[tuple[str, bytes]]:
    return [(name, json.dumps(value).encode()) for name, value in VALUES.items()]


def cost(ask: Any, budget: float = BUDGET_MS) -> tuple[float, Any]:
    """What one request costs, and the answer."""
    answers: list[Any] = []
    return calm_ms(lambda: answers.append(ask()), budget), answers[-1]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_costs_more_to_read_or_refuse(scene: Scene, name: str) -> None:
    body = DOCUMENTS[name]
    assert len(body) <= LIMIT_BYTES
    spent, answer = cost(
        lambda: scene.api["member"].post("/api/v1/workloads", body, content_type="application/json")
    )
    assert (spent <= BUDGET_MS, answer.status_code in (400, 422)) == (True, True), spent
    assert len(answer.content) < LARGEST_ANSWER


@pytest.mark.exhaustive
@pytest.mark.parametrize(("row", "method"), WRITING)
def test_no_body_costs_more_than_its_budget(scene: Scene, row: str, method: str) -> None:
    table, wrong = load(), []
    cell = next(
        c
        for c in table.cells(row)
        if c.method == method and c.role == "platform" and c.kind in ("own", "none")
    )
    place = asking.place_of(scene, table, cell) | {"token_id": scene.token_of("platform")}
    path, sample = filled(routes.template(row), place), filled_body(cell.body, place) or {}
    pointers = fields()[routes.nameless(routes.template(address(row))), method]

    def ask(body: bytes) -> Any:
        with undone():
            return scene.api["platform"].generic(
                method, path, body, "application/json", headers={"If-Match": "*"}
            )

    whole = DOCUMENTS.values()
    for name, body in bodies(sample, pointers):
        assert len(body) <= LIMIT_BYTES
        budget = BUDGET_MS if body in whole else PART_BUDGET_MS
        spent, answer = cost(lambda body=body: ask(body), budget)
        if spent > budget:
            wrong.append(f"{name}: {spent:.0f} ms")
        if answer.status_code >= 500 or len(answer.content) > LARGEST_ANSWER:
            wrong.append(f"{name}: {answer.status_code} of {len(answer.content)} bytes")
        if answer.status_code == 422 and len(answer.json()["errors"]) > MOST_PROBLEMS:
            wrong.append(f"{name}: {len(answer.json()['errors'])} errors")
    assert wrong == []


MOST_STATEMENTS = 10
"""What it takes to know who asks and to refuse."""
LONGEST_QUERY = 60_000
"""Characters: a head of 64 KiB is the most that the web process reads."""


def queries(each: Parameter[Any], place: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Values as long as a head lets through: letters, one known name again and again, different ones."""
    known = next(iter(getattr(each, "known", ())), place.get(each.name, place["tenant"]))
    yield "letters", "a-" * (LONGEST_QUERY // 2)
    if each.several:
        one = str(uuid4()) if isinstance(each, Ids) else str(known)
        yield "the same", ",".join([one] * (LONGEST_QUERY // len(f"{one},")))
        yield "different", ",".join(f"{number:x}" for number in range(LONGEST_QUERY // 5))


@pytest.mark.parametrize("row", [row for row, _ in READS])
def test_a_query_is_bounded_whatever_it_asks_for(scene: Scene, row: str) -> None:
    entry = next(entry for name, entry in load().rows.items() if address(name) == row)
    place = scene.place(str(entry.get("ids", "none")).partition(" ")[0], "own", "lead")
    path, wrong = filled(routes.template(row), place), []
    for each in routes.served()[row].cls.query("GET"):
        for what, value in queries(each, place):
            with CaptureQueriesContext(connection) as asked:
                answer = scene.api["lead"].get(path, {each.name: value})
                answer.close()
            if answer.status_code != 400 or len(asked) > MOST_STATEMENTS:
                wrong.append(f"{each.name}, {what}: {answer.status_code} after {len(asked)} statements")
    assert wrong == []


def test_the_description_tells_the_fields_of_the_writes() -> None:
    known = fields()
    assert {"/spec/nominal_quota", "/spec/offer", "/tenant"} <= set(known["/api/v1/quotas", "POST"])
    assert sum(map(len, known.values())) > 100
