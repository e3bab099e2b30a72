"""A repeat with the same Idempotency-Key, after its caller lost the sight of what the first one made."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.tenants.models import DepartmentManager, Membership
from apps.web.models import IdempotencyKey
from tests.matrix import asking, routes
from tests.matrix.scene import Scene, undone
from tests.matrix.table import Cell, load

pytestmark = pytest.mark.django_db
TABLE = load()
OWN = ("/api/v1/tokens", "/api/v1/me/ssh-keys")
"""What stays one's own, wherever one works."""
UNKEPT = (
    "/api/v1/notifications/read",
    "/api/v1/notifications/<uuid:notice>/read",
    "/api/v1/group-rules/effect",
    "/api/v1/advice",
)
"""Where a repeat changes nothing and needs no key."""


def posted() -> list[Cell]:
    """Every POST of REST that succeeds, once for each role that may."""
    rows = [row for row in TABLE.rows if row.startswith(routes.API) and "dry_run" not in row]
    cells = [cell for row in rows for cell in TABLE.cells(row) if cell.method == "POST"]
    return [
        cell
        for cell in cells
        if cell.role in ("lead", "manager", "platform")
        and cell.kind in ("none", "own")
        and str(TABLE.answers[cell.expected]).startswith("2")
    ]


@pytest.mark.parametrize("cell", posted(), ids=str)
def test_a_repeat_is_told_only_while_the_caller_sees_what_was_made(scene: Scene, cell: Cell) -> None:
    same: dict[str, Any] = {
        "client": keyed(scene.api[cell.role]),
        "place": asking.place_of(scene, TABLE, cell),
    }
    with undone():
        first = asking.send(scene, TABLE, cell, **same)
        assert IdempotencyKey.objects.exists() == (cell.row not in UNKEPT)
        if cell.row in UNKEPT:
            return
        again = asking.send(scene, TABLE, cell, **same)
        assert (again.status_code, again.get("Idempotency-Replayed")) == (first.status_code, "true")
        leave(scene, cell.role)
        late = asking.send(scene, TABLE, cell, **same)
        if cell.row in OWN:
            assert late.status_code == first.status_code
        else:
            assert (late.status_code, asking.code_of(late)) == (404, "not_found")


def keyed(client: Client) -> Client:
    """The same credential, with one key for all that it sends."""
    twin = asking.twin(client)
    twin.defaults = {**client.defaults, "HTTP_IDEMPOTENCY_KEY": "once"}
    return twin


def leave(scene: Scene, role: str) -> None:
    """The person of that role has no right in any tenant, department or the installation any more."""
    named = {"lead": scene.here.lead, "manager": scene.here.manager}
    user = named[role] if role in named else User.objects.get(username=role)
    Membership.objects.filter(user=user).delete()
    DepartmentManager.objects.filter(user=user).delete()
    User.objects.filter(pk=user.pk).update(platform_role="")
