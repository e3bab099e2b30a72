"""What drives schemathesis: the document, Django in process, cases that know their way around the scene."""

import copy
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import got_request_exception
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode

from tests import described
from tests.matrix import routes
from tests.matrix.scene import Scene
from tests.matrix.table import address, load

EXCLUDED = {
    "positive_data_acceptance": "well-formed is not allowed: stock, phases and other rows decide too",
    "object_level_authorization": "asks one's objects as another: tests/matrix does, for every address",
    "max_response_time": "measured by bench, alone on its machine",
}
"""The checks of schemathesis that cannot hold, each with its reason; all others are on."""
REJECTED = ("4xx",)
"""Which answer a broken request gets depends on who asks for what, in the order of docs/api.md."""
NO_CLUSTER = b'"code":"cluster_unavailable"'
"""Not our error: the clusters of the scene are nowhere. Any other 5xx is one."""
SHAPES = ("schema", "status", "content type", "header")


class Served(WSGIHandler):
    """Django in process. A stream has no end: its head is answered."""

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """See Django. Nothing is packed: the client in process does not unpack."""
        request.META.pop("HTTP_ACCEPT_ENCODING", None)
        answer = super().get_response(request)
        if not getattr(answer, "is_async", False):
            return answer
        headers = dict(answer.items())
        answer.close()
        return HttpResponse(b"", status=answer.status_code, headers=headers)


class NoTime:
    """A clock for `?wait=`: who sleeps wakes after the longest time that may be asked for."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """See time."""
        return self._now

    def sleep(self, _seconds: float) -> None:
        """See time."""
        self._now += 60


def load_schema() -> Any:
    """The installation's document, closed as the tests close it, with every check that can hold."""
    load_all_checks()
    checks: dict[str, dict[str, Any]] = {
        name: {"enabled": name not in EXCLUDED} for name in CHECKS.get_all_names()
    }
    checks["not_a_server_error"]["expected-statuses"] = ["2xx", "3xx", "4xx", "503"]
    checks["negative_data_rejection"]["expected-statuses"] = [*REJECTED]
    checks["missing_required_header"]["expected-statuses"] = [*REJECTED]
    config = SchemathesisConfig.from_dict(
        {"checks": checks, "generation": {"with-security-parameters": False}}
    )
    schema = schemathesis.openapi.from_dict(
        _without_examples(copy.deepcopy(described.document())), config=config
    )
    schema.app = Served()
    return schema


def _without_examples(document: Any) -> Any:
    """Cases are made of the schemas: one made of an example would name the ids of another scene."""
    for item in document["paths"].values():
        for operation in item.values():
            for said in (operation.get("requestBody", {}), *operation["responses"].values()):
                for content in said.get("content", {}).values():
                    content.pop("example", None)
    return document


@dataclass
class Findings:
    """What was sent, and each thing that was found wrong once, with the first request that showed it."""

    sent: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)
    server_errors: int = 0
    schema_breaks: int = 0
    _raised: list[str] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """What a view raises and nobody meant to answer is remembered with its traceback."""
        got_request_exception.connect(self._raise)
        try:
            yield
        finally:
            got_request_exception.disconnect(self._raise)

    def _raise(self, **_: Any) -> None:
        self._raised.append(traceback.format_exc())

    def of(self, label: str, validate: Callable[[], Any], answer: Any) -> None:
        """Count one answer and keep what is wrong with it."""
        self.sent[f"{answer.status_code // 100}xx"] += 1
        if answer.status_code >= 500 and NO_CLUSTER not in answer.content:
            self.server_errors += 1
            self.wrong.setdefault(f"{label}: {answer.status_code}", "\n".join(self._raised[-1:]))
        try:
            validate()
        except FailureGroup as group:
            self._keep(label, group)
        self._raised.clear()

    def _keep(self, label: str, group: FailureGroup) -> None:
        for failure in group.exceptions:
            assert isinstance(failure, Failure)
            self.schema_breaks += any(word in failure.title.lower() for word in SHAPES)
            key = f"{label}: {failure.title}: {failure.message[:200]}"
            self.wrong.setdefault(key, "\n".join((*self._raised[-1:], str(group)[-1500:])))

    def told(self) -> str:
        """All that is wrong, to be read."""
        return "\n\n".join(f"### {key}\n{shown}" for key, shown in sorted(self.wrong.items()))


@dataclass(frozen=True)
class Guide:
    """Knows what stands in the addresses and bodies of one role: without it, nothing would be found."""

    scene: Scene
    role: str
    places: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, scene: Scene, role: str) -> "Guide":
        """The values of every address, as the matrix fills them in."""
        rows = load().rows
        resources = {
            address(row): str(entry.get("ids", "none")).split()[0]
            for row, entry in rows.items()
            if row.startswith(routes.API)
        }
        known = {name: scene.place(name, "own", role) for name in set(resources.values())}
        return cls(
            scene,
            role,
            {
                routes.nameless(row): {**known[resource], "id": known[resource]["pk"]}
                for row, resource in resources.items()
            },
        )

    @property
    def headers(self) -> dict[str, str]:
        """The role's credential."""
        return {"Authorization": self.scene.api[self.role].defaults["HTTP_AUTHORIZATION"]}

    def path(self, operation: Any) -> dict[str, str]:
        """The parameters of its address."""
        place = self.places[routes.nameless(operation.path)]
        return {each.name: place[each.name] for each in operation.path_parameters if each.name in place}

    def grounded(self, value: Any, path: str) -> Any:
        """The body, with the scene's own names where it names tenants, offers and the like."""
        place = self.places[routes.nameless(path)]
        if isinstance(value, dict):
            return {
                key: place[key] if isinstance(inner, str) and place.get(key) else self.grounded(inner, path)
                for key, inner in value.items()
            }
        return [self.grounded(each, path) for each in value] if isinstance(value, list) else value


def systematic(schema: Any, most: int) -> list[Any]:
    """At most so many of all that schemathesis derives from the document: bounds, types, methods, headers."""
    found = []
    for each in schema.get_all_operations():
        operation = each.ok()
        generation = schema.config.generation_for(operation=operation, phase="coverage")
        modes = list(GenerationMode)
        found += schema.iter_coverage_cases(operation, generation_modes=modes, generation_config=generation)
    return found[:: max(1, -(-len(found) // most))]


def place(case: Any, guide: Guide) -> Any:
    """A copy of a derived case, at an address that exists, unless the address is what it tries."""
    placed = case.derive()
    if not case.meta.is_negative_at(ParameterLocation.PATH):
        placed.path_parameters |= guide.path(case.operation)
    return placed


@st.composite
def cases(draw: st.DrawFn, operations: list[Any], guide: Guide) -> Any:
    """Any operation: most often with an address that exists, as often with sound data as with broken data."""
    operation = draw(st.sampled_from(operations))
    path = guide.path(operation) if draw(st.integers(0, 9)) < 9 else {}
    is_negative = draw(st.booleans()) and _can_be_wrong(operation, path)
    mode = GenerationMode.NEGATIVE if is_negative else GenerationMode.POSITIVE
    case = draw(operation.as_strategy(generation_mode=mode, path_parameters=path or None))
    if is_negative or draw(st.integers(0, 3)) < 3:
        ground(case, guide)
    return case


def _can_be_wrong(operation: Any, path: Mapping[str, str]) -> bool:
    free = [each for each in operation.path_parameters if each.name not in path]
    return bool(operation.body or operation.query or operation.headers or free)


def ground(case: Any, guide: Guide) -> None:
    """The scene's names in the sound parts of a case; its If-Match is that of whatever is there."""
    if case.query and not case.meta.is_negative_at(ParameterLocation.QUERY):
        case.query = guide.grounded(case.query, case.path)
    if isinstance(case.body, dict) and not case.meta.is_negative_at(ParameterLocation.BODY):
        case.body = guide.grounded(case.body, case.path)
    if "If-Match" in case.headers and not case.meta.is_negative_at(ParameterLocation.HEADER):
        case.headers["If-Match"] = "*"


def settings(examples: int, **more: Any) -> hypothesis.settings:
    """What is wrong is collected: nothing is kept for another run or made smaller."""
    return hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        **more,
    )
