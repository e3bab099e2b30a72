"""Every REST operation with every cut of a token: a scope missing, other tenants only, own tenants only.

Nothing is listed: operations and scopes come from the routes, addresses and bodies from the table, and what
is right from what the roles without cuts get: a cut away from a side makes a stranger to it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.accounts.specs import SCOPES
from portal.api.base.views import SAFE, scope_of
from tests.conftest import as_actor
from tests.matrix import asking, routes
from tests.matrix.scene import WATCHERS, Scene, Side
from tests.matrix.table import Cell, address, filled, filled_body, load
from tests.sample import every

pytestmark = pytest.mark.django_db
Cut = Mapping[tuple[str, str], Client]
REFUSED = ((403, "insufficient_scope"), (403, b""))
"""HEAD has no body."""
TABLE = load()
SERVED = routes.served()
UNDESCRIBED = [row for row in TABLE.rows if TABLE.rows[row].get("undescribed")]
ROWS = [row for row in TABLE.rows if row.startswith(routes.API) and row not in UNDESCRIBED]
OWN = ("token", "notice")
"""Ids of things that are the caller's, whatever the tenant."""
UNLIMITED = ("POST", "/api/v1/me/ssh-keys")
"""What no limited token does: it would reach further."""


def cells(row: str, role: str) -> Iterator[Cell]:
    """The known requests of an address as one role, with an id of its home side."""
    for cell in TABLE.cells(row):
        is_known = cell.method in TABLE.rows[row] or cell.accept
        if cell.role == role and cell.kind in ("none", "own") and is_known:
            yield cell


def test_only_oneself_is_open_to_every_scope() -> None:
    views = {row: view.cls for row, view in SERVED.items() if row in ROWS}
    open_to_all = {
        (row, method)
        for row, view in views.items()
        for method in routes.handlers(SERVED[row])
        if scope_of(view, method)[0] is None
    }
    assert open_to_all == {("/api/v1/me", "GET")}


@pytest.mark.parametrize("row", ROWS)
def test_without_its_scope_no_operation_is_reached(
    scene: Scene, without: Mapping[str, Client], row: str
) -> None:
    wrong = []
    for cell in cells(row, "platform"):
        group, verb = scope_of(SERVED[address(row)].cls, cell.method)
        if group is None:
            continue
        answer = asking.ask(scene, TABLE, cell, client=without[f"{group}:{verb}"])
        if (answer.status_code, answer.content and asking.code_of(answer)) not in REFUSED:
            wrong.append(f"{cell} without {group}:{verb}: {answer.status_code}")
    assert wrong == []


@pytest.mark.parametrize("role", WATCHERS)
@pytest.mark.parametrize("row", every(5, ROWS))
def test_a_cut_away_from_a_side_makes_a_stranger_to_it(
    scene: Scene, cut_to: Cut, row: str, role: str
) -> None:
    wrong = []
    cut = cut_to[role, scene.there.tenant.slug]
    for cell in cells(row, role):
        answer = asking.ask(scene, TABLE, cell, client=cut)
        if leaked := told(answer, scene.here, sent(scene, cell)):
            wrong.append(f"{cell}: names {leaked}")
        if str(TABLE.rows[row].get("ids")) in OWN:
            continue
        stranger = asking.ask(scene, TABLE, cell, client=scene.api["stranger"])
        if stranger.status_code == 404 and asking.identity(answer) != asking.identity(stranger):
            wrong.append(f"{cell}: {answer.status_code} where a stranger finds nothing")
        if is_about_here(cell) and answer.status_code < 400:
            wrong.append(f"{cell}: {answer.status_code}")
    assert wrong == []


@pytest.mark.parametrize("role", WATCHERS)
@pytest.mark.parametrize("row", every(5, ROWS))
def test_a_cut_to_a_side_names_nothing_else_and_works_inside_it(
    scene: Scene, cut_to: Cut, row: str, role: str
) -> None:
    wrong = []
    cut = cut_to[role, scene.here.tenant.slug]
    alike = {(cell.method, cell.accept): cell for cell in cells(row, "lead")}
    for cell in cells(row, role):
        answer = asking.ask(scene, TABLE, cell, client=cut)
        if leaked := told(answer, scene.there):
            wrong.append(f"{cell}: names {leaked}")
        lead = alike[cell.method, cell.accept]
        if str(TABLE.rows[row].get("ids")) in OWN:
            continue
        if (cell.method, row) == UNLIMITED:
            assert (answer.status_code, asking.code_of(answer)) == (403, "not_allowed")
            continue
        if lead.expected == cell.expected and (problem := asking.wrong(scene, TABLE, cell, answer)):
            wrong.append(f"as a lead and an uncut {role} may: {problem}")
    assert wrong == []


def is_about_here(cell: Cell) -> bool:
    """Whether a request with ids of the side would do something there, or with the whole installation."""
    return cell.method not in SAFE and cell.row != "/api/v1/notifications/read"


def told(answer: Any, side: Side, said: str = "") -> list[str]:
    """What an answer names of a side that it must not; a refusal may repeat what was said to it."""
    known = said if answer.status_code >= 400 else ""
    return [secret for secret in asking.named(answer, side.secrets) if secret not in known]


def sent(scene: Scene, cell: Cell) -> str:
    """What the request says."""
    place = asking.place_of(scene, TABLE, cell)
    return f"{filled(routes.template(cell.row), place)} {filled_body(cell.body, place)}"


@pytest.fixture(scope="module")
def without(scene: Scene) -> Mapping[str, Client]:
    """By scope: a platform engineer's token that has every scope but that one; read is lacking with write."""
    return {
        scope: bearer("platform", scopes=[s for s in SCOPES if s not in lacks(scope)]) for scope in SCOPES
    }


@pytest.fixture(scope="module")
def cut_to(scene: Scene) -> Mapping[tuple[str, str], Client]:
    """By role and tenant: tokens that reach this tenant alone, and have every scope."""
    tenants = [side.tenant.slug for side in (scene.here, scene.there)]
    return {(role, slug): bearer(role, scopes=[], tenants=[slug]) for role in WATCHERS for slug in tenants}


def lacks(scope: str) -> tuple[str, ...]:
    """What has to go so that the scope is gone: who writes, reads."""
    group, _, verb = scope.partition(":")
    return (scope,) if verb == "write" else (scope, f"{group}:write")


def bearer(username: str, **cut: Any) -> Client:
    """A client with a new token of that person, cut so."""
    user, now = User.objects.get(username=username), timezone.now()
    asked = {"name": "cut", "tenants": [], "expires_in_days": 1, "now": now, **cut}
    _, text = create_token(actor=as_actor(user), **asked)
    return Client(headers={"Authorization": f"Bearer {text}"}, raise_request_exception=False)
