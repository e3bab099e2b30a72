"""/me/tokens/ without JavaScript."""

import re

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, User
from tests.conftest import Cast
from tests.factories import join

pytestmark = [pytest.mark.urls("tests.web.urls"), pytest.mark.django_db]


@pytest.fixture
def client(ada: User) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def test_a_token_for_a_tenant_that_one_does_not_see_is_refused_by_name(client: Client, cast: Cast) -> None:
    for slug in ("vision", "nowhere"):
        page = client.post(
            "/me/tokens/", {"name": "n", "days": "1", "reach_workloads": "read", "tenants": slug}
        )
        assert page.status_code == 422
        assert f"There is no tenant {slug}." in page.content.decode()
    assert ApiToken.objects.count() == 0


def test_a_token_is_made_shown_once_and_revoked(client: Client, cast: Cast, ada: User) -> None:
    join(cast.vision, ada)
    join(cast.speech, ada)
    asked = {"name": "nightly", "days": "30", "reach_workloads": "write", "tenants": "vision, speech"}
    page = client.post("/me/tokens/", asked)
    text = re.search(r"alt_\w{49}", page.content.decode())
    token = ApiToken.objects.get()
    assert text is not None
    assert (token.scopes, token.tenants) == (["workloads:write"], ["speech", "vision"])
    assert text.group() not in client.get("/me/tokens/").content.decode()
    assert client.post(f"/me/tokens/{token.id}/revoke/").status_code == 303
    assert "No token yet." in client.get("/me/tokens/").content.decode()
    assert ApiToken.objects.get().revoked_at is not None


def test_a_form_that_reaches_nothing_is_returned_with_what_was_typed(client: Client) -> None:
    page = client.post("/me/tokens/", {"name": "my name", "days": "30"})
    assert page.status_code == 422
    assert "Choose what the token may reach." in page.content.decode()
    assert 'value="my name"' in page.content.decode()
    assert ApiToken.objects.count() == 0


def test_signed_out_leads_to_the_sign_in_and_back() -> None:
    answer = Client().get("/me/tokens/?x=1")
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=%2Fme%2Ftokens%2F%3Fx%3D1")


def test_the_pages_carry_no_inline_script_or_style(client: Client) -> None:
    for page in (client.get("/me/tokens/"), Client().get("/sign-in/")):
        html = page.content.decode()
        assert page.status_code == 200
        assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|javascript:", html)
        assert "unsafe-inline" not in page["Content-Security-Policy"]
