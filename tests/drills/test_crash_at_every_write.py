"""A worker may die before or after any write: the next one ends where an undisturbed one would have ended."""

import os
from collections.abc import Callable
from itertools import zip_longest

import pytest

from apps.cluster.models import Cluster
from tests.drills.crash import Crasher, CrashingWorld
from tests.drills.dump import credentials, difference, orphans, restless
from tests.drills.life import VERBS, Life
from tests.drills.world import Hint
from tests.sample import every

pytestmark = pytest.mark.django_db(transaction=True)
"""Each statement is committed by itself, as in production: what a dead worker wrote stays written."""

EVERY = int(os.environ.get("DRILL_CRASH_EVERY", "24"))
"""Of the database's writes every how many-th is a point; the calls to the cluster always all are."""


def chosen(points: list[str]) -> list[str]:
    """All calls to the cluster, and every so-manieth write of the database."""
    calls = [p for p in points if " sql " not in p]
    statements = [p for p in points if " sql " in p]
    return calls + statements[::EVERY]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", every(4, ["notebook", "job", "training", "service"]))
def test_a_crash_at_any_write_changes_nothing_of_the_end(
    cluster: Cluster, hints: list[Hint], kind: str, record_property: Callable[[str, object], None]
) -> None:
    world = CrashingWorld(cluster, hints)
    before = credentials(world)
    reference = Life(world, kind, 0).live({})
    plans = zip_longest(*(chosen(reference[verb][0].points) for verb in VERBS), fillvalue="")
    crashes = 0
    missed: list[str] = []
    wrong: list[str] = []
    for number, targets in enumerate(plans, start=1):
        life = Life(world, kind, number).live({v: Crasher(t) for v, t in zip(VERBS, targets, strict=True)})
        for verb, (crasher, end) in life.items():
            crashes += crasher.struck
            missed += [f"{verb}: {crasher.target}"] * (bool(crasher.target) and not crasher.struck)
            if lines := difference(end, reference[verb][1]):
                wrong += [f"{verb}, {crasher.target or 'no crash'}: {line}" for line in lines]
    record_property("n", crashes)
    assert not wrong, "\n".join(wrong)
    assert orphans(world) == []
    assert restless() == []
    assert credentials(world) == before, "a life makes no credential, so no crash leaks one"
    assert missed == []
    assert crashes == sum(len(chosen(reference[verb][0].points)) for verb in VERBS)
