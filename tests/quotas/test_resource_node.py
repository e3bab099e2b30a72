"""Kueue's arithmetic of quota, written once for the product and once for the sandbox: one table holds both.

The expected figures were worked out by hand from the rules of Kueue's resource_node.go.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from apps.quotas.kueue.predict import tree as product
from apps.quotas.kueue.predict import view
from sandbox.controllers.kueue import model
from sandbox.controllers.kueue import quota as sandbox

FR = model.FlavorResource("h100", "allotment.dev/h100-whole")


class Part(NamedTuple):
    """A cohort, or a queue with what it uses; `quota` is nominal, borrowing limit, lending limit."""

    name: str
    parent: str
    quota: tuple[int, int | None, int | None] | None
    used: int | None = None


class Answer(NamedTuple):
    """What a node says of itself, and what an own request of one more would mean."""

    subtree_quota: int
    usage: int
    local_quota: int
    local_available: int
    available: int
    potential_available: int
    is_borrowing: bool
    height: int
    fits: bool
    remaining: int


Nodes = Mapping[str, Any]


def of_product(parts: Sequence[Part]) -> Nodes:
    def quotas(part: Part) -> dict[view.FlavorResource, view.ResourceQuota]:
        return {FR: view.ResourceQuota(*part.quota)} if part.quota else {}

    cohorts = [view.Cohort(p.name, p.parent, quotas(p)) for p in parts if p.used is None]
    queues = [view.Queue(p.name, p.parent, ("h100",), quotas(p)) for p in parts if p.used is not None]
    made = product.Snapshot(view.View(tuple(cohorts), tuple(queues), ()))
    for part in parts:
        if part.used is not None:
            made.queues[part.name].add_usage(FR, part.used)
    return {**made.cohorts, **made.queues}


def of_sandbox(parts: Sequence[Part]) -> Nodes:
    def quotas(part: Part) -> dict[model.FlavorResource, model.ResourceQuota]:
        return {FR: model.ResourceQuota(*part.quota)} if part.quota else {}

    cohorts = [model.CohortSpec(p.name, p.parent, quotas(p)) for p in parts if p.used is None]
    queues = [model.QueueSpec(p.name, p.parent, (), quotas(p)) for p in parts if p.used is not None]
    made = sandbox.QuotaTree(queues, cohorts)
    for part in parts:
        if part.used is not None:
            made.add_usage(part.name, {FR: part.used})
    return {**made.cohorts, **made.queues}


def answer(code: Any, node: Any) -> Answer:
    fits, remaining = code.quantities_fit_in_quota(node, {FR: 1})
    return Answer(
        node.subtree_quota[FR],
        node.usage[FR],
        node.local_quota(FR),
        node.local_available(FR),
        node.available(FR),
        node.potential_available(FR),
        not node.is_within_nominal([FR]),
        node.height(),
        fits,
        remaining[FR],
    )


TABLE = {
    "a queue of its own": (
        [Part("a", "", (4, None, None), 1)],
        {"a": Answer(4, 1, 0, 0, 3, 4, False, 0, True, 1)},
    ),
    "everything is lent and nothing is bounded": (
        [Part("a", "c", (4, None, None), 1), Part("b", "c", (2, None, None), 3)],
        {
            "a": Answer(4, 1, 0, 0, 2, 6, False, 0, True, 1),
            "b": Answer(2, 3, 0, 0, 2, 6, True, 0, False, 1),
            "c": Answer(6, 4, 0, 0, 2, 6, False, 1, True, 1),
        },
    ),
    "a lending limit keeps the rest to the queue": (
        [Part("a", "c", (4, None, 1), 1), Part("b", "c", (2, None, None), 2)],
        {
            "a": Answer(4, 1, 3, 2, 3, 6, False, 0, True, 0),
            "b": Answer(2, 2, 0, 0, 1, 3, False, 0, False, 1),
            "c": Answer(3, 2, 0, 0, 1, 3, False, 1, True, 1),
        },
    ),
    "a borrowing limit bounds what comes from the parent": (
        [Part("a", "c", (1, 2, None), 2), Part("b", "c", (9, None, None), 0)],
        {
            "a": Answer(1, 2, 0, 0, 1, 3, True, 0, False, 1),
            "b": Answer(9, 0, 0, 0, 8, 10, False, 0, True, 1),
        },
    ),
    "more is used than there is": (
        [Part("a", "c", (2, 0, None), 5), Part("b", "c", (1, None, None), 0)],
        {
            "a": Answer(2, 5, 0, 0, -3, 2, True, 0, False, 1),
            "b": Answer(1, 0, 0, 0, -2, 3, False, 0, True, 1),
            "c": Answer(3, 5, 0, 0, -2, 3, True, 1, False, 1),
        },
    ),
    "cohorts below a cohort, with quota and bounds of their own": (
        [
            Part("top", "", (2, None, None)),
            Part("c", "top", (1, 1, 0)),
            Part("a", "c", (3, None, 2), 2),
            Part("b", "top", (4, None, None), 0),
        ],
        {
            "a": Answer(3, 2, 1, 0, 3, 5, False, 0, True, 1),
            "b": Answer(4, 0, 0, 0, 6, 6, False, 0, True, 1),
            "c": Answer(3, 1, 3, 2, 3, 4, False, 1, True, 0),
            "top": Answer(6, 0, 0, 0, 6, 6, False, 2, True, 1),
        },
    ),
    "a cohort that is only named has no quota of its own": (
        [Part("c", "named", (0, None, None)), Part("a", "c", (2, None, None), 1)],
        {"named": Answer(2, 1, 0, 0, 1, 2, False, 2, True, 1)},
    ),
}
SIDES = {"product": (product, of_product), "sandbox": (sandbox, of_sandbox)}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", TABLE)
def test_both_answer_as_kueues_rules_say(name: str, side: str) -> None:
    parts, expected = TABLE[name]
    code, made = SIDES[side]
    nodes = made(parts)
    assert {node: answer(code, nodes[node]) for node in expected} == expected


def test_both_answer_alike_in_trees_at_random() -> None:
    rng = random.Random(19)
    for _ in range(500):
        parts = _any_tree(rng)
        ours, theirs = of_product(parts), of_sandbox(parts)
        assert ours.keys() == theirs.keys()
        for _ in range(3):
            for name in ours:
                assert answer(product, ours[name]) == answer(sandbox, theirs[name]), parts
            _move(rng, [part.name for part in parts if part.used is not None], ours, theirs)


def _any_tree(rng: random.Random) -> list[Part]:
    homes = ["", "top", "left", "right"]
    cohorts = [
        Part("top", "", _any_quota(rng)),
        Part("left", "top", _any_quota(rng)),
        Part("right", "left", None),
    ]
    queues = [Part(f"q{n}", rng.choice(homes), _any_quota(rng), rng.randint(0, 8)) for n in range(5)]
    return cohorts + queues


def _any_quota(rng: random.Random) -> tuple[int, int | None, int | None]:
    nominal = rng.randint(0, 6)
    return nominal, rng.choice((None, 0, 2, 5)), rng.choice((None, 0, rng.randint(0, nominal)))


def _move(rng: random.Random, queues: Sequence[str], *sides: Nodes) -> None:
    """Some usage goes and some comes: the same on both sides."""
    goes, comes, value = rng.choice(queues), rng.choice(queues), rng.randint(1, 4)
    for nodes in sides:
        nodes[goes].remove_usage(FR, min(value, nodes[goes].usage[FR]))
        nodes[comes].add_usage(FR, value)


@pytest.mark.parametrize(
    ("value", "expected"), [(2, (0, True)), (3, (1, True)), (6, (2, False)), (9, (2, False))]
)
def test_both_find_the_lowest_subtree_that_fits(value: int, expected: tuple[int, bool]) -> None:
    parts = [
        Part("top", "", (2, None, None)),
        Part("c", "top", (2, None, None)),
        Part("a", "c", (2, None, None), 0),
    ]
    for code, made in SIDES.values():
        assert code.find_height_of_lowest_subtree_that_fits(made(parts)["a"], FR, value) == expected
