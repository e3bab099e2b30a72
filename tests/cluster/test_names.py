"""Names and labels that every cluster takes."""

import re
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cluster.objects import names

DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
ID = UUID("0199f3c2-7a55-7c1e-8f00-5a6b7c8d9e0f")


@given(st.text(max_size=200))
def test_whatever_people_type_becomes_a_slug_and_a_name_that_kubernetes_takes(text: str) -> None:
    slug = names.slugify(text)

    assert re.fullmatch(r"[a-z][a-z0-9-]{0,39}", slug)
    assert DNS_LABEL.fullmatch(names.object_name(slug, uuid4()))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Vision Lab", "vision-lab"),
        ("Ünïcode!", "unicode"),
        ("3D", "x-3d"),
        ("", "x"),
        ("--a--", "a"),
        ("日本", "x"),
    ],
)
def test_a_slug_keeps_what_can_be_kept(text: str, slug: str) -> None:
    assert names.slugify(text) == slug


def test_two_rows_made_in_the_same_millisecond_get_different_names() -> None:
    twin = UUID(int=ID.int + 2**30)  # the time in the first 48 bits is the same

    assert names.object_name("nb", ID) != names.object_name("nb", twin)


def test_a_name_is_the_same_every_time_it_is_made() -> None:
    assert names.object_name("nb-ada", ID) == names.object_name("nb-ada", ID)
    assert names.object_name("nb-ada", ID).startswith("nb-ada-")


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("allotment.dev/tenant", True),
        ("kueue.x-k8s.io/queue-name", True),
        ("pod-security.kubernetes.io/enforce", True),
        ("team", False),
        ("example.com/team", False),
        ("notkubernetes.io/x", False),
    ],
)
def test_the_domains_of_the_cluster_are_not_for_people(key: str, reserved: bool) -> None:  # noqa: FBT001
    assert names.is_reserved(key) is reserved


def test_an_object_says_whose_it_is() -> None:
    assert names.owner_labels(owner="workload", uid=ID, tenant="vision") == {
        "app.kubernetes.io/managed-by": "allotment",
        "allotment.dev/owner": "workload",
        "allotment.dev/uid": str(ID),
        "allotment.dev/tenant": "vision",
    }


@pytest.mark.parametrize(
    ("value", "fits"), [("", True), ("a.b_c-1", True), ("-a", False), ("a" * 64, False), ("a b", False)]
)
def test_a_label_value_is_what_kubernetes_takes(value: str, fits: bool) -> None:  # noqa: FBT001
    assert names.is_label_value(value) is fits
