"""The page of a tenant's isolation: what it says in each state, and who finds the button."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.tenants.models import IsolationAttestation, Tenant
from tests.conftest import Cast
from tests.factories import NOW

URL = "/t/vision/isolation/"
AT = datetime(2026, 11, 19, 8, 30, tzinfo=UTC)


def page(person: User, url: str = URL) -> str:
    client = Client()
    client.force_login(person)
    return client.get(url).content.decode()


def attested(tenant: Tenant, **verdicts: str) -> IsolationAttestation:
    results = [
        {"key": key, "title": f"Check {key}", "verdict": verdict, "words": "Because."}
        for key, verdict in {"one": "passed", "two": "passed", **verdicts}.items()
    ]
    counts = {
        name: sum(each["verdict"] == name for each in results) for name in ("passed", "failed", "not_checked")
    }
    return IsolationAttestation.objects.create(tenant=tenant, at=AT, generation=1, results=results, **counts)


def test_before_the_first_check_the_page_says_so(cast: Cast) -> None:
    assert "has not been checked yet" in page(cast.rosa)


def test_an_attested_tenant_says_since_when_and_what_was_checked(cast: Cast) -> None:
    attested(cast.vision)
    shown = page(cast.rosa)
    assert "Isolation attested on 19 November 2026" in shown
    assert "2 of 2 checks passed" in shown
    assert "Check two" in shown


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("failed", "Isolation is broken"), ("not_checked", "1 could not be checked here")],
)
def test_what_did_not_pass_is_said_first(cast: Cast, verdict: str, words: str) -> None:
    attested(cast.vision, two=verdict)
    shown = page(cast.rosa)
    assert words in shown
    assert "Isolation attested on" not in shown


def test_only_the_newest_check_counts(cast: Cast) -> None:
    attested(cast.vision, two="failed")
    IsolationAttestation.objects.update(at=datetime(2026, 11, 18, tzinfo=UTC))
    attested(cast.vision)
    assert "Isolation is broken" not in page(cast.rosa)


def test_the_button_is_there_for_who_may_ask_and_asks(cast: Cast) -> None:
    assert "Check again" not in page(cast.rosa)
    assert "Check again" in page(cast.leon)
    client = Client()
    client.force_login(cast.leon)
    answer = client.post(f"{URL}check/")
    assert (answer.status_code, answer["Location"]) == (303, URL)
    assert Tenant.objects.get(pk=cast.vision.pk).attestation_due_at is not None


def test_the_tenants_own_page_links_to_it(cast: Cast) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(attested_at=NOW)
    shown = page(cast.rosa, "/t/vision/")
    assert f'href="{URL}"' in shown
    assert "Attested on 20 November 2026" in shown
