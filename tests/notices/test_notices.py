"""Messages to people: told once each, read by oneself alone."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from apps.notices import selectors, services
from apps.notices.specs import Kind
from tests.conftest import Cast
from tests.tenants.rest import Rest

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def told(cast: Cast) -> str:
    """One message to rosa and leon."""
    rows = services.tell(
        [cast.rosa.pk, cast.leon.pk, cast.rosa.pk],
        kind=Kind.GRANT_GIVEN, message="vision has 8 more.", url="/t/vision/quota/", at=AT, tenant="vision",
    )  # fmt: skip
    return str(rows[0].pk)


def test_everybody_is_told_once_however_often_named(cast: Cast, told: str) -> None:
    assert [selectors.unread(user.pk) for user in (cast.rosa, cast.leon, cast.otto)] == [1, 1, 0]


def test_ones_own_messages_are_listed_and_marked_as_read(cast: Cast, told: str) -> None:
    rosa = Rest(cast.rosa)
    (item,) = rosa.get("/notifications?unread=true").json()["items"]
    assert (item["id"], item["type"], item["tenant"], item["read_at"]) == (
        told,
        "grant.given",
        "vision",
        None,
    )
    assert rosa.send("POST", f"/notifications/{told}/read").json()["read_at"] is not None
    assert rosa.get("/notifications?unread=true").json()["items"] == []
    assert rosa.get("/notifications").json()["items"][0]["message"] == "vision has 8 more."


def test_all_are_read_at_once(cast: Cast, told: str) -> None:
    leon = Rest(cast.leon)
    assert leon.send("POST", "/notifications/read").json() == {"read": 1}
    assert leon.send("POST", "/notifications/read").json() == {"read": 0}
    assert selectors.unread(cast.rosa.pk) == 1


def test_anothers_message_is_as_unknown(cast: Cast, told: str) -> None:
    otto = Rest(cast.otto)
    paths = (f"/notifications/{told}", f"/notifications/{uuid4()}")
    assert len({otto.get(path).content for path in paths}) == 1
    assert otto.send("POST", f"{paths[0]}/read").status_code == 404
    assert selectors.unread(cast.rosa.pk) == 1


def test_a_token_needs_the_scope(cast: Cast, told: str) -> None:
    reader = Rest(cast.rosa, scopes=("notifications:read",))
    assert reader.get("/notifications").status_code == 200
    assert reader.send("POST", "/notifications/read").json()["code"] == "insufficient_scope"
