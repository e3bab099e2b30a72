"""Label selectors: Kubernetes' reading of kubectl's syntax, the same in the database as in Python."""

from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.workloads.models import Workload
from apps.workloads.selectors.label_conditions import condition
from apps.workloads.spec.label_selectors import LONGEST, MOST, Operator, Requirement, SelectorError, parse
from tests import factories
from tests.conftest import Cast
from tests.sample import examples
from tests.workloads.rest import Api, body

pytestmark = pytest.mark.both_databases

KEYS = ("a", "A", "0", "12", "team", "a.b", "a__b", "x.io/a", "in", "notin", "a-b_c.d")
VALUES = ("", "a", "b", "0", "1.5", "true", "null", "in", "A_b-c")
SIGNS = ("=", "==", "!=")


def one(key: str, operator: Operator, *values: str) -> Requirement:
    return Requirement(key, operator, frozenset(values))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("  ", []),
        ("a", [one("a", Operator.EXISTS)]),
        ("!a", [one("a", Operator.ABSENT)]),
        ("! a", [one("a", Operator.ABSENT)]),
        ("a=b", [one("a", Operator.IN, "b")]),
        ("a == b", [one("a", Operator.IN, "b")]),
        ("a!=b", [one("a", Operator.NOT_IN, "b")]),
        ("a=", [one("a", Operator.IN, "")]),
        ("a!=,b", [one("a", Operator.NOT_IN, ""), one("b", Operator.EXISTS)]),
        ("a in (b,c)", [one("a", Operator.IN, "b", "c")]),
        ("a in(b , c)", [one("a", Operator.IN, "b", "c")]),
        ("a notin (b)", [one("a", Operator.NOT_IN, "b")]),
        ("a in (,b)", [one("a", Operator.IN, "", "b")]),
        ("in in (in)", [one("in", Operator.IN, "in")]),
        ("x.io/a=1,12", [one("x.io/a", Operator.IN, "1"), one("12", Operator.EXISTS)]),
    ],
)  # fmt: skip
def test_the_syntax_is_kubectls(text: str, wanted: list[Requirement]) -> None:
    assert parse(text) == tuple(wanted)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (",", 1),
        ("a,", 3),
        ("a,,b", 3),
        ("!", 2),
        ("!a=b", 3),
        ("!!a", 2),
        ("=b", 1),
        ("a b", 3),
        ("a=b c", 5),
        ("a=!b", 3),
        ("a in b", 6),
        ("a in ()", 7),
        ("a in (b", 8),
        ("a in (b c)", 9),
        ("a in (b))", 9),
        ("a>1", 2),
        ("a<1", 2),
        ("a'=b", 1),
        ('a"=b', 1),
        ("a=b%", 3),
        ("/a", 1),
        ("X/a", 1),
        ("a=-", 3),
        (f"a={'b' * 64}", 3),
        (f"{'a' * 64}", 1),
    ],
)
def test_what_is_no_selector_is_refused_with_its_place(text: str, place: int) -> None:
    with pytest.raises(SelectorError, match=f"^At character {place}: "):
        parse(text)


def test_a_selector_has_bounds() -> None:
    assert len(parse(",".join(["a"] * MOST))) == MOST
    for text in (",".join(["a"] * (MOST + 1)), "a," * LONGEST):
        with pytest.raises(SelectorError, match=r"^At most "):
            parse(text)


LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
SETS = st.sets(st.sampled_from(VALUES), min_size=1, max_size=3).map(sorted)
SPELLED = st.one_of(
    st.sampled_from(KEYS),
    st.sampled_from(KEYS).map(lambda key: f"!{key}"),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(SIGNS), st.sampled_from(VALUES)).map("".join),
    st.builds(
        lambda key, operator, values: f"{key} {operator} ({','.join(values)})",
        st.sampled_from(KEYS), st.sampled_from(["in", "notin"]), SETS.filter(lambda values: values != [""]),
    ),
)  # fmt: skip


@pytest.fixture
def rows(cast: Cast) -> list[Workload]:
    """As many as there are examples of labels at a time."""
    return [factories.make_workload(cast.vision, cast.rosa, cast.offer, slug=f"w{n}") for n in range(4)]


@pytest.mark.django_db
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(labels=st.lists(LABELS, min_size=4, max_size=4), selector=st.lists(SPELLED, min_size=1, max_size=3))
def test_the_database_finds_what_the_rule_says(
    rows: list[Workload], labels: list[dict[str, str]], selector: list[str]
) -> None:
    for row, given_labels in zip(rows, labels, strict=True):
        row.labels = given_labels
        row.save(update_fields=["labels"])
    wanted = parse(",".join(selector))
    found = set(Workload.objects.filter(condition(wanted)).values_list("slug", flat=True))
    assert found == {row.slug for row in rows if all(each.matches(row.labels) for each in wanted)}


HOSTILE = ("a'b", 'a"b', "a%b", "a%s", "a\\b", "$.a", "a.b", "a[0]", "0", "a__exact", "é", "a b")


@pytest.mark.django_db
@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_key_is_a_key(rows: list[Workload], key: str) -> None:
    rows[0].labels = {key: key}
    rows[0].save(update_fields=["labels"])
    others = len(rows) - 1
    for operator, count in zip(Operator, (1, others, 1, others), strict=True):
        wanted = one(key, operator, key)
        assert Workload.objects.filter(condition((wanted,))).count() == count, operator


@pytest.mark.django_db
def test_the_list_is_cut_before_it_is_paged(cast: Cast) -> None:
    rosa = Api(cast.rosa)
    for number, labels in enumerate(
        ({"stage": "train"}, {"stage": "eval"}, {}, {"stage": "train", "12": "x"})
    ):
        rosa.call("post", body=body(f"w{number}") | {"labels": labels})

    def listed(selector: str, **more: str) -> Any:
        query = urlencode({"label_selector": selector, "sort": "slug", "include_total": "true", **more})
        return rosa.call("get", f"?{query}").json()

    page = listed("stage=train", limit="1")
    assert ([item["slug"] for item in page["items"]], page["total"]) == (["w0"], 2)
    rest = rosa.client.get(page["next"]).json()
    assert ([item["slug"] for item in rest["items"]], rest["next"]) == (["w3"], None)
    assert [item["slug"] for item in listed("stage!=train")["items"]] == ["w1", "w2"]
    assert [item["slug"] for item in listed("12,stage in (train,eval)")["items"]] == ["w3"]
    wrong = listed("stage=train=eval")
    assert wrong["errors"][0]["parameter"] == "label_selector"
    assert "At character 12" in wrong["detail"]
