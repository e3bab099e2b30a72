"""A call that was answered badly, or done and its answer lost, is made good and never doubled."""

from collections.abc import Callable
from itertools import zip_longest

import pytest

from apps.cluster.errors import Conflict, Throttled, Unreachable
from apps.cluster.models import Cluster
from tests.drills.crash import Crasher, CrashingWorld
from tests.drills.dump import difference, orphans
from tests.drills.life import VERBS, Life
from tests.drills.world import Hint
from tests.sample import every

pytestmark = pytest.mark.django_db(transaction=True)

AGAIN = 3
"""How often the same call fails in a row."""

TROUBLES: dict[str, tuple[str, Callable[[], Exception]]] = {
    "the answer is lost": ("after", lambda: Unreachable("The cluster does not answer: connection reset.")),
    "409": (
        "before",
        lambda: Conflict("the object has been modified; please apply your changes to the latest"),
    ),
    "429": ("before", lambda: Throttled("the server has received too many requests", retry_after=5)),
    "500": ("before", lambda: Unreachable("Internal error occurred")),
}


KINDS = ["notebook", "job"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", every(2, KINDS))
def test_a_call_that_fails_in_any_way_is_made_good(
    cluster: Cluster, hints: list[Hint], kind: str, record_property: Callable[[str, object], None]
) -> None:
    world = CrashingWorld(cluster, hints)
    reference = Life(world, kind, 0).live({})
    struck, number = 0, 0
    wrong: list[str] = []
    troubled = every(2, list(TROUBLES.items()), KINDS.index(kind))
    for word, (moment, worst) in troubled:
        calls = [
            [p for p in reference[v][0].points if p.startswith(moment) and " sql " not in p] for v in VERBS
        ]
        for targets in zip_longest(*calls, fillvalue=""):
            number += 1
            troubles = {v: Crasher(t, worst, AGAIN) for v, t in zip(VERBS, targets, strict=True)}
            for verb, (crasher, end) in Life(world, kind, number).live(troubles).items():
                struck += crasher.struck
                named = f"{word}, {verb}, {crasher.target}"
                wrong += [f"{named}: {line}" for line in difference(end, reference[verb][1])]
                spent, plain = (len(_calls(c)) for c in (crasher, reference[verb][0]))
                if spent > plain + AGAIN * (len(calls) - 1):
                    wrong.append(f"{named}: {spent} calls instead of {plain}")
    record_property("n", struck)
    assert not wrong, "\n".join(wrong)
    assert orphans(world) == []
    assert struck >= len(troubled) * len(_calls(reference["provision"][0]))


def _calls(crasher: Crasher) -> list[str]:
    return [point for point in crasher.points if point.startswith("before") and " sql " not in point]
