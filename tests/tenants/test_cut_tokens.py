"""What a token makes never reaches further than the token: not people, service accounts or tokens."""

from collections.abc import Mapping
from typing import Any

import pytest

from apps.accounts.models import User
from apps.accounts.specs import SCOPES, PlatformRole
from apps.notices import services as notices
from apps.notices.specs import Kind
from tests.conftest import Cast
from tests.factories import NOW, make_user
from tests.tenants.rest import Rest

pytestmark = pytest.mark.django_db

CUT: Mapping[str, Any] = {
    "to one tenant": {"tenants": ("vision",)},
    "to all scopes": {"scopes": SCOPES},
    "to people": {"scopes": ("people:write",)},
    "to people of one tenant": {"scopes": ("people:write",), "tenants": ("vision",)},
}
REACHES_FURTHER = (
    ("POST", "/users", {"username": "eve", "platform_role": "platform"}),
    ("POST", "/users", {"username": "eve", "platform_role": "auditor"}),
    ("POST", "/users/paul/reset-password", None),
    ("POST", "/users/paul/reset-second-factor", None),
    ("POST", "/users/paul/disable", None),
    ("POST", "/users/paul/enable", None),
    ("POST", "/service-accounts", {"tenant": None, "slug": "eve", "spec": {"role": "platform"}}),
)


@pytest.mark.parametrize(("method", "path", "body"), REACHES_FURTHER)
@pytest.mark.parametrize("cut", CUT)
def test_no_cut_token_makes_or_renews_who_has_a_right_over_the_installation(
    cast: Cast, cut: str, method: str, path: str, body: Any
) -> None:
    make_user("paul", platform_role=PlatformRole.PLATFORM)
    users = User.objects.count()
    answer = Rest(cast.petra, **CUT[cut]).send(method, path, body)
    assert answer.status_code in (403, 404)
    assert User.objects.count() == users
    assert Rest(cast.petra).send(method, path, body).status_code in (200, 201)


@pytest.mark.parametrize("cut", CUT)
def test_no_cut_token_changes_or_ends_an_account_of_the_installation(cast: Cast, cut: str) -> None:
    wish = {"tenant": None, "slug": "eve", "spec": {"role": "auditor"}}
    whole, rest = Rest(cast.petra), Rest(cast.petra, **CUT[cut])
    path = f"/service-accounts/{whole.send('POST', '/service-accounts', wish).json()['id']}"
    acts: tuple[tuple[str, Any], ...] = (("PATCH", {"spec": {"role": "platform"}}), ("DELETE", None))
    assert {rest.send(method, path, body, match="*").status_code for method, body in acts} <= {403, 404}
    assert [whole.send(method, path, body, match="*").status_code for method, body in acts] == [200, 204]


def test_the_scope_people_invites_gives_roles_and_keeps_accounts_and_tenants_does_not(cast: Cast) -> None:
    acts: tuple[tuple[str, str, Any, str], ...] = (
        ("POST", "/users", {"username": "kim"}, ""),
        ("PUT", "/tenants/vision/members/kim", {"role": "member"}, ""),
        ("POST", "/users/kim/reset-password", None, ""),
        ("POST", "/service-accounts", {"tenant": "vision", "slug": "bot", "spec": {"role": "member"}}, ""),
    )
    people, rest = (Rest(cast.petra, scopes=scopes) for scopes in (("people:write",), without("people")))
    for method, path, body, match in acts:
        assert rest.send(method, path, body, match=match).json()["code"] == "insufficient_scope"
        assert people.send(method, path, body, match=match).status_code in (200, 201)


def test_naming_managers_is_a_role_too(cast: Cast) -> None:
    rest, path = Rest(cast.petra, scopes=without("people")), "/departments/research"
    body = {"name": "Renamed", "spec": {"managers": ["lead"]}}
    assert rest.send("PUT", path, body, match="*").json()["code"] == "insufficient_scope"
    assert rest.send("PATCH", path, {"name": "Renamed"}, match="*").status_code == 200
    both = Rest(cast.petra, scopes=("tenants:write", "people:write"))
    assert both.send("PUT", path, body, match="*").status_code == 200


def test_a_service_account_of_a_cut_token_and_its_tokens_stay_in_the_cut(cast: Cast) -> None:
    cut = Rest(cast.petra, scopes=("people:write",), tenants=("vision",))
    account = {"slug": "bot", "spec": {"role": "member"}}
    for tenant in ("speech", "nowhere"):
        assert cut.send("POST", "/service-accounts", account | {"tenant": tenant}).status_code == 422
    made = cut.send("POST", "/service-accounts", account | {"tenant": "vision"}).json()
    path = f"/service-accounts/{made['id']}/tokens"
    wide = [{"name": "t", "scopes": scopes} for scopes in ([], ["workloads:write"])]
    assert [cut.send("POST", path, body).status_code for body in wide] == [403, 403]
    token = cut.send("POST", path, {"name": "t", "scopes": ["people:read"]}).json()
    assert (token["scopes"], token["tenants"]) == (["people:read"], ["vision"])


def test_a_cut_token_reads_and_marks_only_messages_about_its_tenants(cast: Cast) -> None:
    for tenant in ("vision", "speech", ""):
        notices.tell(
            [cast.petra.pk], kind=Kind.QUOTA_ASKED, message=f"of {tenant}", url="/", at=NOW, tenant=tenant
        )
    whole, cut = Rest(cast.petra), Rest(cast.petra, tenants=("vision",))
    assert [each["message"] for each in cut.get("/notifications").json()["items"]] == ["of vision"]
    others = {
        each["id"] for each in whole.get("/notifications").json()["items"] if each["tenant"] != "vision"
    }
    for pk in others:
        assert cut.get(f"/notifications/{pk}").status_code == 404
        assert cut.send("POST", f"/notifications/{pk}/read").status_code == 404
    assert cut.send("POST", "/notifications/read").json() == {"read": 1}
    unread = whole.get("/notifications?unread=true").json()["items"]
    assert {each["id"] for each in unread} == others


def without(group: str) -> tuple[str, ...]:
    """Every scope but a group's."""
    return tuple(scope for scope in SCOPES if not scope.startswith(f"{group}:"))
