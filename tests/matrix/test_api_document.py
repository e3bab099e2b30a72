"""docs/api.md tells of what is served and of nothing else: its codes, its resources, its examples."""

import json
import re
from pathlib import Path

import pytest
from django.urls import resolve

from apps.web.problems.codes import CODES
from apps.workloads.spec import parsing
from portal.api.base.views import ApiView, scope_of
from tests.matrix import routes

DOCUMENT = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
ROW = re.compile(r"^\| (.+?) \|$", re.MULTILINE)
EXAMPLES = "\n".join(re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL))


def table(mark: str) -> list[list[str]]:
    """The cells of the table after a comment, without its head."""
    lines = DOCUMENT.split(f"<!-- {mark}:")[1].split("\n\n")[0]
    return [re.split(r" ?\| ?", row) for row in ROW.findall(lines)][1:]


def reserved() -> set[str]:
    found = re.search(r"Reserved for later: (.+)\.", DOCUMENT)
    assert found
    return set(found[1].split(", "))


def test_the_document_has_every_code_with_its_status_and_hint() -> None:
    shown = {code: (int(status), title, hint) for code, status, title, hint in table("codes")}
    known = {
        code: (kind.status, kind.title, kind.hint) for code, kind in CODES.items() if code not in reserved()
    }
    assert shown == known


def test_a_reserved_code_is_raised_nowhere() -> None:
    root = Path(__file__).parents[2]
    files = (*(root / "apps").rglob("*.py"), *(root / "portal").rglob("*.py"))
    sources = [path.read_text() for path in files if path.name != "codes.py"]
    text = "\n".join(sources)
    assert {
        code for code in CODES if f'code = "{code}"' not in text and f'"{code}"' not in text
    } >= reserved()
    assert not [code for code in reserved() if f'code="{code}"' in text]


def test_the_document_has_every_address_with_its_methods_and_no_other() -> None:
    shown: dict[str, set[str]] = {}
    for addresses, methods, *_ in table("resources"):
        for address in re.findall(r"`([^`?]+)[^`]*`", addresses):
            shown[routes.nameless(f"/api/v1/{address}")] = set(methods.split())
    views = {
        routes.nameless(route): view
        for route, view in routes.served().items()
        if route.startswith("/api/v1/")
    }
    known = {route: routes.handlers(view) or {"GET"} for route, view in views.items()}
    assert shown == known


def test_the_document_names_the_scopes_that_each_address_needs() -> None:
    views = {routes.nameless(route): view for route, view in routes.served().items()}
    wrong = []
    for addresses, methods, _, scope, *_ in table("resources"):
        for address in re.findall(r"`([^`?]+)[^`]*`", addresses):
            view = getattr(views[routes.nameless(f"/api/v1/{address}")], "cls", None)
            if view is None or not issubclass(view, ApiView):
                continue
            needed = {scope_of(view, method)[0] for method in methods.split()} - {None}
            if needed != set(scope.replace(" to write", "").split(", ")) - {""}:
                wrong.append(f"{address}: {scope!r}, needs {sorted(map(str, needed))}")
    assert wrong == []


def test_every_address_of_the_examples_is_served() -> None:
    paths = re.findall(r"\$API(/[^\"?' ]+)", EXAMPLES)
    assert len(paths) > 10
    for path in paths:
        assert issubclass(view_of(path), ApiView)


def view_of(path: str) -> type[ApiView]:
    """The view behind an address of the examples; Resolver404 where there is none."""
    concrete = re.sub(r"\$\w+", "00000000-0000-4000-8000-000000000000", path)
    view: type[ApiView] = resolve(f"/api/v1{concrete}").func.cls  # type: ignore[attr-defined]
    return view


def bodies() -> list[str]:
    return re.findall(r"(?:BODY=|NOTEBOOK=|-d )'(\{.*\})'", EXAMPLES)


def test_the_examples_have_bodies_of_every_verb() -> None:
    assert len(bodies()) >= 7


@pytest.mark.parametrize("body", bodies())
def test_every_body_of_the_examples_is_json_that_the_contract_knows(body: str) -> None:
    document = json.loads(body)
    if "spec" in document and "ofer" not in document["spec"]:
        assert parsing.parse(document["spec"]).offer == document["spec"]["offer"]


def test_every_query_of_the_examples_is_known_to_its_address() -> None:
    asked = re.findall(r"\$API(/[^\"?' ]+)\?(\w+)=", EXAMPLES)
    for path, name in asked:
        view = view_of(path)
        assert name in {each.name for method in ("GET", "POST") for each in view.query(method)}
    assert len(asked) > 5
