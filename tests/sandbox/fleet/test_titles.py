"""What the people of a past call their work: as people do, once per tenant, and one person's by name."""

from collections import Counter
from datetime import UTC, datetime

from sandbox.fleet import history
from sandbox.fleet.behaviours import Behaviour
from sandbox.fleet.past import Arrival
from sandbox.fleet.spec import load_fleet

PEOPLE = {"vision": ("rosa", "kim"), "speech": ()}


def arrivals(seed: int = 7) -> list[Arrival]:
    until = datetime(2026, 11, 20, tzinfo=UTC)
    week = history.Plan("laptop", seed, 7, 1800, tuple(PEOPLE), until, PEOPLE)
    return list(history.arrivals(week, history.offers(load_fleet("laptop"), seed)))


def test_a_name_is_once_in_its_tenant_and_says_nothing_of_the_behaviour() -> None:
    given = arrivals()
    names = [(each.tenant, each.name) for each in given]
    assert len(names) == len(set(names)) > 100
    words = {word for behaviour in Behaviour for word in behaviour.value.split("-")} - {"train"}
    assert {name for _, name in names if words & set(name.split("-"))} == set()
    assert {each.name for each in given} == {each.name for each in arrivals()}


def test_work_of_one_name_is_one_persons_and_all_of_a_team_work() -> None:
    whose: dict[str, set[str]] = {}
    for each in arrivals():
        base = each.name.rstrip("0123456789").rstrip("-")
        if each.tenant == "vision":
            whose.setdefault(base, set()).add(each.person)
        else:
            assert each.person == ""
    assert all(len(people) == 1 for people in whose.values())
    assert Counter(next(iter(people)) for people in whose.values()).keys() == set(PEOPLE["vision"])
