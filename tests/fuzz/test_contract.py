"""schemathesis against the document, as every role: no server error, nothing that the document does not say.

Half are derived from the document (each asked as one of the roles), the others are random; a part of these
are sequences along the document's links. `FUZZ_CASES` is about how many in all.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, seed

from portal.api.base import waiting
from tests.fuzz import driving
from tests.matrix.scene import NOBODY, ROLES, Scene, undone

CASES = int(os.environ.get("FUZZ_CASES", "2000"))
PEOPLE = tuple(role for role in ROLES if role not in NOBODY)
STEPS = 8
pytestmark = [pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(0)]


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "time", driving.NoTime())


@pytest.fixture(scope="module")
def schema() -> Any:
    return driving.load_schema()


@pytest.fixture
def findings(
    record_property: Callable[[str, object], None], answers_are_described: Callable[[], list[str]]
) -> Any:
    """Counted, told, and empty at the end."""
    found = driving.Findings()
    with found.watching():
        yield found
    undescribed = sorted(set(answers_are_described()))
    record_property("cases", found.sent.total())
    record_property("answers", ", ".join(f"{count} {kind}" for kind, count in sorted(found.sent.items())))
    record_property("server errors", found.server_errors)
    record_property("schema breaks", found.schema_breaks + len(undescribed))
    if found.wrong or undescribed:
        pytest.fail("\n".join((found.told(), *undescribed)), pytrace=False)


@pytest.fixture(scope="module")
def systematic(schema: Any) -> list[Any]:
    return driving.systematic(schema, CASES // 2)


def ask(findings: driving.Findings, guide: driving.Guide, case: Any) -> None:
    """Send one case and look at the answer; whatever it writes is undone."""
    how = {"headers": guide.headers}
    with undone():
        answer = case.call(**how)
        findings.of(
            case.operation.label,
            lambda: case.validate_response(answer, transport_kwargs=how, **how),
            answer,
        )


@pytest.mark.parametrize("role", PEOPLE)
def test_no_derived_case_breaks_the_contract(
    scene: Scene, systematic: list[Any], findings: driving.Findings, role: str
) -> None:
    guide = driving.Guide.of(scene, role)
    for case in systematic[PEOPLE.index(role) :: len(PEOPLE)]:
        ask(findings, guide, driving.place(case, guide))
    assert findings.sent["2xx"] > 0


@pytest.mark.parametrize("role", PEOPLE)
def test_no_random_case_breaks_the_contract(
    scene: Scene, schema: Any, findings: driving.Findings, role: str
) -> None:
    guide = driving.Guide.of(scene, role)
    operations = [found.ok() for found in schema.get_all_operations()]

    @seed(PEOPLE.index(role))
    @driving.settings(CASES * 3 // 8 // len(PEOPLE))
    @given(driving.cases(operations, guide))
    def sent(case: Any) -> None:
        ask(findings, guide, case)

    sent()
    assert findings.sent["2xx"] > 0


@pytest.mark.parametrize("role", PEOPLE)
def test_no_sequence_breaks_the_contract(
    scene: Scene, schema: Any, findings: driving.Findings, role: str
) -> None:
    guide = driving.Guide.of(scene, role)

    @seed(PEOPLE.index(role))
    class Sequence(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            self.undoing = undone()
            self.undoing.__enter__()

        def teardown(self) -> None:
            self.undoing.__exit__(None, None, None)

        def get_call_kwargs(self, _case: Any) -> dict[str, Any]:
            return {"headers": guide.headers}

        def before_call(self, case: Any) -> None:
            driving.ground(case, guide)

        def validate_response(self, response: Any, case: Any, **how: Any) -> None:
            findings.of(
                case.operation.label,
                lambda: case.validate_response(
                    response, headers=how["headers"], transport_kwargs=how, recorder=self.recorder
                ),
                response,
            )

    Sequence.run(settings=driving.settings(CASES // 8 // len(PEOPLE) // STEPS, stateful_step_count=STEPS))
    assert findings.sent["2xx"] > 0
