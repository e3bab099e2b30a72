"""What is decoded by others' parsers: cursors (any JSON in base64) and kubeconfigs (any YAML)."""

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from apps.cluster.gateway import kubeconfig
from portal.api.base.views import ApiView
from tests.cost import calm_ms
from tests.hostile.anything import ANYTHING
from tests.hostile.corpus import TIMES
from tests.matrix import routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import filled, load
from tests.sample import examples

pytestmark = pytest.mark.django_db
FUZZ = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NOBODY = "00000000-0000-4000-8000-000000000000"
LISTS = [
    row
    for row, view in routes.served().items()
    if issubclass(getattr(view, "cls", object), ApiView) and view.cls.lists and "GET" in load().rows[row]
]
SORTS = sorted({each.removeprefix("-") for row in LISTS for each in routes.served()[row].cls.sorts})
ORDERS = [f"{sign}{name}" for name in SORTS for sign in ("", "-")]
NEARLY = st.tuples(
    st.sampled_from(ORDERS),
    st.sampled_from([*TIMES, "2026-01-01T00:00:00Z", "slug"]) | ANYTHING,
    st.sampled_from([NOBODY, "1", str(2**63), str(2**200), "", "\0"]) | ANYTHING,
).map(list)


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("row", LISTS)
@FUZZ
@given(value=NEARLY | ANYTHING)
@example(value=["-created_at", None, None])
@example(value=["-created_at", "2026-01-01T00:00:00Z", None])
@example(value=["-created_at", "2026-01-01T00:00:00Z", "\0"])
@example(value=["slug", "a", str(2**63)])
@example(value=None)
def test_any_json_as_a_cursor_is_answered_or_refused(scene: Scene, row: str, value: Any) -> None:
    resource = str(load().rows[row].get("ids", "none")).split()[0]
    path = filled(routes.template(row), scene.place(resource, "own", "member"))
    sort = {"sort": value[0]} if isinstance(value, list) and value and isinstance(value[0], str) else {}
    for query in ({}, sort):
        answer = scene.api["platform"].get(path, {"cursor": encoded(value), **query})
        answer.close()
        assert answer.status_code in (200, 400, 404), answer.content


SCALARS = st.sampled_from(
    ["2026-02-30", "{a: 2026-13-45}", "[" * 3000, "{" * 3000, "- " * 3000, "? " * 3000, "!!int ''",
     "!!float ''", "!!bool x", "!!timestamp x", "!!binary é", "9" * 5000, "0x" + "f" * 5000, "? [a]\n: 1",
     "&a [*a]", "a: &a {b: c}\nd: {<<: *a}", "190:20:30", "\0", "\ud7ff", "%YAML 9.9\n---\n", "---\n---\n",
     "", "!!python/object/apply:os.system [id]", "!!set {a}", "!!omap [a]", "- |\n" * 900, "=", "<<: 1", "~"]
)  # fmt: skip
MARKUP = st.lists(
    st.sampled_from([*"[]{},:-?&*!|>#\n '\"%@`~<=.0123456789abeTZ+_", "- ", ": ", "!!", "2026-1", "\t"]),
    max_size=60,
).map("".join)
TEXTS = SCALARS | MARKUP | st.text(max_size=80) | ANYTHING.map(json.dumps)


@settings(max_examples=examples(600), deadline=None)
@given(text=TEXTS)
@example(text="2026-02-30")
@example(text="{a: 2026-13-45}")
@example(text="[" * 3000)
def test_any_text_is_yaml_or_refused_as_none(text: str) -> None:
    with contextlib.suppress(kubeconfig.NotYaml):
        document = kubeconfig.read(text)
        assert kubeconfig.problems(document, inline=True) is not None


@pytest.mark.parametrize(("method", "path"), [("POST", "clusters"), ("PATCH", "clusters/north")])
@FUZZ
@given(text=TEXTS)
@example(text="2026-02-30")
@example(text="{a: 2026-13-45}")
@example(text="[" * 3000)
def test_any_text_as_a_kubeconfig_is_answered_422(scene: Scene, method: str, path: str, text: str) -> None:
    body = {"slug": "east", "name": "East", "spec": {"kubeconfig": text}}
    sent = body if method == "POST" else {"spec": {"kubeconfig": text or "x"}}
    with undone():
        answer = scene.api["platform"].generic(
            method, f"/api/v1/{path}", json.dumps(sent), "application/json", headers={"If-Match": "*"}
        )
    assert answer.status_code in ((400, 422) if "\0" in text else (422,)), answer.content


def test_no_kubeconfig_costs_more_than_its_budget() -> None:
    worst = ("- a\n" * 50_000, "a: {b: c}\n" * 390, "- - a\n" * 900, "[" * 99 + "]" * 99, "'" * 200_000)
    for text in worst:

        def read(text: str = text) -> None:
            with contextlib.suppress(kubeconfig.NotYaml):
                kubeconfig.read(text)

        assert calm_ms(read, 200) < 200, text[:20]
