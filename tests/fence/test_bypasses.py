"""Every row of corpus.yaml on a real API server: refused by the rule it names, with words on what to do."""

from __future__ import annotations

import pytest

from tests.fence.attempts import Case, body_of, corpus, filled
from tests.fence.scene import Answer, Scene
from tests.sample import every

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]
CASES = corpus()
OWNERS = {"job": ("batch/v1", "Job", "running"), "statefulset": ("apps/v1", "StatefulSet", "set")}


def test_no_case_is_there_twice() -> None:
    assert len({case.case for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", every(6, CASES), ids=lambda case: case.case)
def test_the_rules_alone_refuse(scene: Scene, case: Case) -> None:
    answer = _try(scene, "intruder", case)
    assert not answer.accepted, f"{case.case} was accepted: {answer.words}"
    assert _one_of(case.rule, answer), f"refused, but not by {case.rule}: {answer.words}"
    assert _one_of(case.says, answer), f"the words do not help: {answer.words}"


@pytest.mark.parametrize("case", every(6, CASES, 3), ids=lambda case: case.case)
def test_a_member_is_refused(scene: Scene, case: Case) -> None:
    answer = _try(scene, "member", case)
    assert not answer.accepted, f"{case.case} was accepted: {answer.words}"
    stopped_by = case.rule if case.member_may_ask else "cannot "
    assert _one_of(stopped_by, answer), f"refused, but not by {stopped_by}: {answer.words}"


def _try(scene: Scene, who: str, case: Case) -> Answer:
    if case.run:
        return scene.ask(who, *(filled(part, scene.names) for part in case.run))
    owner = scene.owner(*OWNERS[case.owner]) if case.owner else None
    body = body_of(case, scene.offer, scene.names, owner)
    return scene.ask(who, "create", "--validate=false", body=body)


def _one_of(words: str, answer: Answer) -> bool:
    return any(word in answer.words for word in words.split("|"))
