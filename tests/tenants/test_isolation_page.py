"""The page of a tenant's isolation: what it says in each state, and who finds the button."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.tenants.models import DepartmentManager, IsolationAttestation, Tenant
from apps.tenants.specs import Isolation
from tests.conftest import Cast
from tests.factories import NOW, make_user

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


@pytest.fixture
def virtual(cast: Cast) -> Tenant:
    Tenant.objects.filter(pk=cast.vision.pk).update(isolation=Isolation.VCLUSTER)
    return Tenant.objects.get(pk=cast.vision.pk)


@pytest.mark.parametrize("who", ["leon", "petra", "mina"])
def test_who_leads_sends_a_virtual_cluster_to_sleep_and_is_told_first_what_that_does(
    cast: Cast, virtual: Tenant, who: str
) -> None:
    mina = make_user("mina")
    DepartmentManager.objects.create(department=cast.vision.department, user=mina)
    person = {"leon": cast.leon, "petra": cast.petra, "mina": mina}[who]
    assert f"{URL}sleep/" in page(person)
    shown = page(person, f"{URL}sleep/")
    assert "nobody reaches its API. 0 pods of the tenant are there now" in shown
    assert "work that runs is stopped, and nothing new starts" in shown
    assert not Tenant.objects.get(pk=virtual.pk).vcluster.get("asleep"), "asking changes nothing"

    client = Client()
    client.force_login(person)
    assert client.post(f"{URL}sleep/").status_code == 303
    assert Tenant.objects.get(pk=virtual.pk).vcluster["asleep"] is True
    assert f"{URL}wake/" in page(person)
    assert "It sleeps already: nothing changes." in page(person, f"{URL}sleep/")
    client.post(f"{URL}wake/")
    assert Tenant.objects.get(pk=virtual.pk).vcluster["asleep"] is False


def test_members_find_no_button_and_the_console_has_it(cast: Cast, virtual: Tenant) -> None:
    assert f"{URL}sleep/" not in page(cast.rosa)
    assert f"{URL}sleep/" in page(cast.petra, "/console/tenants/vision/")
    assert f"{URL}sleep/" not in page(cast.ann, "/console/tenants/vision/")


def test_without_a_virtual_cluster_there_is_nothing_to_send_to_sleep(cast: Cast) -> None:
    assert f"{URL}sleep/" not in page(cast.leon)
