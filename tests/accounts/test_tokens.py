"""The form of a token, its reach, and who may make which."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts import services
from apps.accounts.models import ApiToken, User
from apps.accounts.specs import SCOPES, Actor
from apps.accounts.tokens import generate, looks_valid
from apps.audit.models import AuditEvent
from apps.errors import Invalid, NotAllowed
from tests.conftest import Cast
from tests.factories import join

pytestmark = pytest.mark.both_databases

urls = pytest.mark.urls("tests.web.urls")
Bearer = Callable[..., Client]


@given(st.binary(min_size=32, max_size=32))
def test_every_token_has_one_form_and_a_right_checksum(random: bytes) -> None:
    made = generate(random)
    assert made.text.startswith("alt_")
    assert (len(made.text), len(made.prefix), len(made.digest)) == (53, 12, 64)
    assert looks_valid(made.text)


@given(st.binary(min_size=32, max_size=32), st.integers(4, 52))
def test_a_mistyped_character_is_seen_without_the_database(random: bytes, place: int) -> None:
    text = generate(random).text
    wrong = "0" if text[place] != "0" else "1"
    assert not looks_valid(text[:place] + wrong + text[place + 1 :])


def test_too_little_randomness_is_refused() -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        generate(os.urandom(16))


@pytest.mark.django_db
def test_the_database_holds_no_usable_token(make_token: Callable[..., str], actor: Actor) -> None:
    text = make_token()
    row = ApiToken.objects.get()
    kept = " ".join(str(value) for value in row.__dict__.values())
    assert text not in kept
    assert row.prefix == text[:12]
    assert AuditEvent.objects.get(action="token.create").target_name == row.prefix


@pytest.mark.django_db
def test_an_unknown_scope_is_refused_with_the_list(make_token: Callable[..., str]) -> None:
    with pytest.raises(Invalid) as refusal:
        make_token(scopes=["workloads:read", "workload:write"])
    (problem,) = refusal.value.problems
    assert (problem.pointer, problem.code) == ("/scopes/1", "invalid_value")
    assert all(scope in problem.detail for scope in SCOPES)


@pytest.mark.django_db
@pytest.mark.parametrize("days", [0, -1, 367])
def test_a_token_ends_within_a_year_and_not_in_the_past(days: int, make_token: Callable[..., str]) -> None:
    with pytest.raises(Invalid, match="366 days"):
        make_token(expires_in_days=days)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("scopes", "tenants"),
    [
        (["workloads:write"], ["vision"]),
        ([], ["vision"]),
        (["tokens:write"], []),
    ],
)
def test_a_token_makes_none_that_reaches_further(
    scopes: list[str], tenants: list[str], actor: Actor, cast: Cast, ada: User
) -> None:
    join(cast.vision, ada)
    cut = Actor(**{**actor.__dict__, "scopes": frozenset({"tokens:write"}), "tenants": frozenset({"vision"})})
    wish = services.TokenWish("n", scopes, tenants, timezone.now() + timedelta(days=1))
    with pytest.raises(NotAllowed, match="reaches further"):
        services.make_token(actor=cut, wish=wish, now=timezone.now())
    assert ApiToken.objects.count() == 0


@pytest.mark.django_db
@pytest.mark.parametrize("cut", [None, {"vision"}])
def test_a_token_names_only_tenants_that_its_maker_sees(
    cut: set[str] | None, actor: Actor, cast: Cast, ada: User
) -> None:
    join(cast.vision, ada)
    maker = replace(actor, tenants=None if cut is None else frozenset(cut))
    told = []
    for other in ("speech", "nowhere"):
        wish = services.TokenWish("n", [], ["vision", other], timezone.now() + timedelta(days=1))
        with pytest.raises(Invalid) as refused:
            services.make_token(actor=maker, wish=wish, now=timezone.now())
        told += [
            (each.pointer, each.code, each.detail.replace(other, "it")) for each in refused.value.problems
        ]
    assert told == [("/tenants/1", "reference_not_found", "There is no tenant it.")] * 2


@urls
@pytest.mark.django_db
def test_a_token_makes_none_that_outlives_it(bearer: Bearer) -> None:
    client, (own,) = bearer(), ApiToken.objects.all()
    later = (own.expires_at + timedelta(seconds=1)).isoformat()
    body = {"name": "n", "expires_at": later}
    refused = client.post("/api/v1/tokens", body, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert ApiToken.objects.count() == 1
    for asked in ({}, {"expires_at": own.expires_at.isoformat()}):
        made = client.post("/api/v1/tokens", {"name": "n", **asked}, content_type="application/json")
        assert ApiToken.objects.get(pk=made.json()["id"]).expires_at == own.expires_at


@urls
@pytest.mark.django_db
def test_a_cut_token_lists_and_ends_only_tokens_that_reach_no_further(
    cast: Cast, ada: User, bearer: Bearer
) -> None:
    join(cast.vision, ada)
    join(cast.speech, ada)
    whole, cut = bearer(), bearer(tenants=["vision"])
    bearer(tenants=["vision", "speech"])
    listed = {token["id"]: token["tenants"] for token in whole.get("/api/v1/tokens").json()["items"]}
    seen = {token["id"]: token["tenants"] for token in cut.get("/api/v1/tokens").json()["items"]}
    assert list(seen.values()) == [["vision"]]
    answers = {
        token: cut.delete(f"/api/v1/tokens/{token}").status_code for token in listed if token not in seen
    }
    assert sorted(answers.values()) == [404, 404]


@pytest.mark.django_db
def test_a_token_may_make_one_that_reaches_as_far_or_reads_what_it_writes(actor: Actor) -> None:
    cut = Actor(**{**actor.__dict__, "scopes": frozenset({"tokens:write", "quotas:write"})})
    wish = services.TokenWish("n", ["quotas:read"], [], timezone.now() + timedelta(days=1))
    token, _ = services.make_token(actor=cut, wish=wish, now=timezone.now())
    assert token.scopes == ["quotas:read"]


@pytest.mark.django_db
def test_only_platform_engineers_make_people(actor: Actor) -> None:
    with pytest.raises(NotAllowed):
        services.create_user(
            actor=actor, username="eve", display_name="", password=None, platform_role="platform"
        )
    assert not User.objects.filter(username="eve").exists()


@urls
@pytest.mark.django_db
def test_a_token_opens_rest_until_it_is_revoked(bearer: Bearer) -> None:
    client = bearer(scopes=["tokens:write"])
    listed = client.get("/api/v1/tokens").json()["items"]
    assert [(item["name"], item["scopes"]) for item in listed] == [("test", ["tokens:write"])]
    assert client.delete(f"/api/v1/tokens/{listed[0]['id']}").status_code == 204
    refused = client.get("/api/v1/tokens")
    assert (refused.status_code, refused.json()["code"]) == (401, "invalid_token")
    assert AuditEvent.objects.filter(action="token.revoke").count() == 1


@urls
@pytest.mark.django_db
@pytest.mark.parametrize("harm", ["expired", "revoked", "disabled", "mistyped", "foreign", "basic", "empty"])
def test_every_credential_that_opens_nothing_gets_the_same_401(
    harm: str, make_token: Callable[..., str]
) -> None:
    text = make_token()
    now = timezone.now()
    if harm == "expired":
        ApiToken.objects.update(expires_at=now)
    elif harm == "revoked":
        ApiToken.objects.update(revoked_at=now)
    elif harm == "disabled":
        User.objects.update(is_active=False)
    header = {
        "mistyped": f"Bearer {text[:-1]}",
        "foreign": f"Bearer {generate(os.urandom(32)).text}",
        "basic": f"Basic {text}",
        "empty": "",
    }.get(harm, f"Bearer {text}")
    refused = Client(headers={"Authorization": header}).get("/api/v1/me")
    assert (refused.status_code, refused["WWW-Authenticate"]) == (401, 'Bearer realm="allotment"')
    assert refused["Content-Type"] == "application/problem+json"
    assert refused.json()["detail"] == "The token is missing, unknown, expired or revoked."


@urls
@pytest.mark.django_db
def test_without_a_credential_there_is_nothing() -> None:
    assert Client().get("/api/v1/me").status_code == 401


@urls
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("scopes", "method", "status"),
    [
        (["workloads:read"], "get", 200),
        (["workloads:write"], "get", 200),
        (["workloads:read"], "post", 403),
        (["quotas:write"], "get", 403),
        ([], "get", 200),
    ],
)
def test_scopes_cut_what_a_token_reaches(scopes: list[str], method: str, status: int, bearer: Bearer) -> None:
    answer = getattr(bearer(scopes=scopes), method)("/api/v1/things")
    assert answer.status_code == status
    if status == 403:
        verb = "read" if method == "get" else "write"
        assert answer.json()["code"] == "insufficient_scope"
        assert f"workloads:{verb}" in answer.json()["detail"]


@urls
@pytest.mark.django_db
def test_last_use_is_written_at_most_once_a_minute(bearer: Bearer) -> None:
    client = bearer()
    client.get("/api/v1/me")
    first = ApiToken.objects.get().last_used_at
    client.get("/api/v1/me")
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    client.get("/api/v1/me")
    assert ApiToken.objects.filter(last_used_at__gt=first).exists()


@urls
@pytest.mark.django_db
def test_a_token_made_over_rest_is_shown_once(bearer: Bearer) -> None:
    client = bearer(scopes=["tokens:write", "workloads:read"])
    body = {"name": "ci", "scopes": ["workloads:read"]}
    made, again = (
        client.post("/api/v1/tokens", body, "application/json", headers={"Idempotency-Key": "one"})
        for _ in (1, 2)
    )
    assert (made.status_code, again.json()["token"]) == (201, None)
    reader = Client(headers={"Authorization": f"Bearer {made.json()['token']}"})
    assert reader.get("/api/v1/things").status_code == 200
    assert "token" not in client.get(made["Location"]).json()


@urls
@pytest.mark.django_db
def test_someone_elses_token_is_as_unknown_as_one_that_never_was(bearer: Bearer) -> None:
    other = User.objects.create_user("eve")
    theirs = ApiToken.objects.create(user=other, name="x", prefix="x", digest="x", expires_at=timezone.now())
    client = bearer()
    foreign = client.get(f"/api/v1/tokens/{theirs.id}")
    unknown = client.get("/api/v1/tokens/00000000-0000-4000-8000-000000000000")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.content == unknown.content
    assert foreign.json()["instance"] is None
