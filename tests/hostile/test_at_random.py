"""Bodies and specs made by Hypothesis: never a server error, and what is accepted renders valid manifests."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.hostile import corpus, kubernetes
from tests.hostile.anything import ANYTHING
from tests.matrix.scene import Scene, undone
from tests.sample import examples

pytestmark = pytest.mark.django_db
IN_SCENE = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SLUG = st.from_regex(r"[a-z][a-z0-9-]{0,39}", fullmatch=True)
WORD = st.text(st.characters(codec="utf-8"), max_size=200)
QUANTITY = st.from_regex(r"[1-9][0-9]{0,3}(\.[0-9]{1,3})?(m|Ki|Mi|Gi|Ti)?", fullmatch=True) | st.sampled_from(
    [amount for amount in corpus.QUANTITIES if isinstance(amount, str)]
)
IMAGE = st.from_regex(r"[a-z0-9./:@_-]{0,60}", fullmatch=True) | st.sampled_from(corpus.IMAGES)
VOLUME = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z0-9-]{0,21}", fullmatch=True),
        "size": QUANTITY,
        "mount_path": st.from_regex(r"/[a-z./]{0,20}", fullmatch=True),
    }
)
ENV = st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True), WORD, max_size=4)
COMMON = {
    "cpu": QUANTITY,
    "memory": QUANTITY,
    "env": ENV,
    "volumes": st.lists(VOLUME, max_size=3),
    "count": st.integers(-1, 5),
    "command": st.lists(WORD, max_size=3),
    "args": st.lists(WORD, max_size=3),
    "max_run_seconds": st.integers(-1, 10**6),
}
LABELS = st.dictionaries(
    st.from_regex(r"([a-z0-9.-]{0,20}/)?[A-Za-z0-9._-]{0,70}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9._-]{0,70}", fullmatch=True),
    max_size=4,
)


def spec_of(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """A spec that is nearly right: hostile in a few fields at a time."""
    block = {
        "job": st.fixed_dictionaries(
            {"completions": st.integers(-1, 20), "parallelism": st.integers(-1, 20)},
            optional={"items": WORD, "max_failed_indexes": st.integers(-1, 20)},
        ),
        "training": st.fixed_dictionaries(
            {"nodes": st.integers(-1, 300), "restarts": st.integers(-1, 200)},
            optional={"processes_per_node": st.integers(-1, 2000)},
        ),
        "service": st.fixed_dictionaries(
            {"port": st.integers(-1, 70_000), "replicas": st.integers(-1, 70)},
            optional={"health_path": WORD, "health_port": st.integers(-1, 70_000)},
        ),
    }
    optional = COMMON | {name: block[name] for name in block if name == kind}
    image = {"image": st.just("a/b:1") | IMAGE}
    return st.fixed_dictionaries(
        {"kind": st.just(kind), "offer": st.just("h100-slice"), **image}, optional=optional
    )


KINDS = st.one_of(*(spec_of(kind) for kind in ("notebook", "job", "training", "service")))
REQUEST = st.fixed_dictionaries(
    {"tenant": st.just("optics"), "spec": KINDS},
    optional={"slug": SLUG | st.sampled_from(corpus.SLUGS), "name": WORD, "labels": LABELS},
)


def post(scene: Scene, path: str, body: Any) -> Any:
    return scene.api["platform"].post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")


@IN_SCENE
@given(REQUEST)
@example(
    {
        "tenant": "optics",
        "spec": {
            "kind": "job",
            "offer": "h100-slice",
            "image": "a/b:1",
            "volumes": [{"name": "", "size": "1Gi", "mount_path": "/a"}],
        },
    }
)
@example(
    {"tenant": "optics", "spec": {"kind": "notebook", "offer": "h100-slice", "image": "", "volumes": []}}
)
def test_whatever_is_accepted_renders_valid_manifests(scene: Scene, body: dict[str, Any]) -> None:
    with undone():
        answer = post(scene, "workloads?dry_run=true", body)
        assert answer.status_code in (200, 400, 409, 422), answer.content
        if answer.status_code == 422:
            assert all(error["pointer"].startswith("#/") for error in answer.json()["errors"])
        if answer.status_code == 200:
            found = answer.json()
            assert [fault for each in found["manifests"] for fault in kubernetes.problems(each)] == []
            assert {each["metadata"]["namespace"] for each in found["manifests"]} == {
                scene.here.tenant.object_name
            }


@pytest.mark.parametrize("path", ["workloads", "tenants", "quotas", "tokens"])
@IN_SCENE
@given(body=ANYTHING)
def test_any_json_is_answered_without_a_server_error(scene: Scene, path: str, body: Any) -> None:
    with undone():
        assert post(scene, path, body).status_code in (400, 422)


@pytest.mark.parametrize("field", ["tenant", "slug", "name", "labels", "spec"])
@IN_SCENE
@given(value=ANYTHING)
def test_any_json_in_a_field_is_answered_without_a_server_error(scene: Scene, field: str, value: Any) -> None:
    body = {"tenant": "optics", "spec": {"kind": "job", "offer": "h100-slice", "image": "a/b:1"}} | {
        field: value
    }
    with undone():
        assert post(scene, "workloads", body).status_code < 500
