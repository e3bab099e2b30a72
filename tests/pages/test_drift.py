"""The console's pages of drift and their REST: what differs, who wrote it, what a repair changes, how far it
is known; and how they read.
"""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from playwright.sync_api import Browser, ViewportSize
from pytest_django.live_server_helper import LiveServer

from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster, Drift, DriftCheck
from apps.cluster.reconciling.services import repairs
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene
from tests.pages.screens import RULES, in_each_look, page_of

pytestmark = pytest.mark.both_databases
PAGE, FLEET = "/console/drift/", "/console/"
PORT = {
    "path": 'spec.ports[port=8888,protocol="TCP"].targetPort', "ours": "8888", "theirs": "22",
    "manager": "kubectl-edit", "operation": "Update", "at": "2026-11-26T03:00:00Z",
}  # fmt: skip
LABEL = {
    "path": 'metadata.labels["allotment.dev/tenant"]', "ours": '"vision"', "theirs": None, "manager": None,
    "operation": None, "at": None,
}  # fmt: skip


@pytest.fixture
def petra(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.petra)


def drift(scene: Scene, name: str = "rag-dev-x", **given: Any) -> Drift:
    usual: dict[str, Any] = {
        "cluster": scene.cast.vision.cluster, "kind": "Service", "namespace": "vision-x", "name": name,
        "owner_kind": "workload", "owner_id": str(scene.running.pk), "tenant": "vision", "how": "changed",
        "fields": [PORT, LABEL], "found_at": scene.now, "seen_at": scene.now,
    }  # fmt: skip
    return Drift.objects.create(**(usual | given))


def compared(scene: Scene, at: datetime | None = None, **given: Any) -> None:
    cluster = scene.cast.vision.cluster
    for row in Cluster.objects.all():
        usual = {"tried_at": at, "ended_at": at, "objects_seen": 40, "done": 18, "of": 18}
        DriftCheck.objects.create(cluster=row, **(usual | (given if row == cluster else {})))


def text_of(client: Client, path: str = PAGE) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_nothing_differs_says_when_that_was_seen(scene: Scene, petra: Client) -> None:
    assert "Not compared yet." in text_of(petra)
    compared(scene, timezone.now() - timedelta(minutes=12))
    page = text_of(petra)
    assert re.search(r"Nothing differs\. Last look <time[^>]*>12 min", page)
    assert "Nothing had to be put back in the last 30 days" in page
    assert "older than it should be" not in page


def test_a_silent_cluster_is_not_one_without_drift(scene: Scene, petra: Client) -> None:
    compared(scene, timezone.now())
    cluster = scene.cast.vision.cluster
    Cluster.objects.filter(pk=cluster.pk).update(phase="Silent", silent_since=timezone.now())
    page = text_of(petra)
    assert "Not everything is known." in page
    assert f"{cluster.name} does not answer since" in page
    assert ">Nothing differs.<" not in page


def test_a_cluster_that_was_never_compared_is_told_beside_one_that_was(scene: Scene, petra: Client) -> None:
    compared(scene, timezone.now())
    factories.make_cluster("newcomer")
    page = text_of(petra)
    assert "Not everything is known." in page
    assert "was not compared yet: what differs there is not known." in page


def test_a_look_that_is_overdue_is_told(scene: Scene, petra: Client) -> None:
    compared(scene, timezone.now() - timedelta(hours=2))
    assert "see whether workers and the clock run" in text_of(petra)


def test_how_far_a_check_is_and_that_one_waits(scene: Scene, petra: Client) -> None:
    compared(scene, timezone.now(), begun_at=timezone.now(), done=3, objects_seen=120)
    assert "3 of 18 kinds compared, 120 objects" in text_of(petra)
    DriftCheck.objects.update(begun_at=None, asked_at=timezone.now(), asked_by="petra")
    assert "asked for by petra" in text_of(petra)


def test_what_differs_is_named_with_field_manager_and_reason(scene: Scene, petra: Client) -> None:
    drift(scene, times=4, message="kubectl-edit keeps changing fields that Allotment owns.")
    drift(scene, "gone-x", kind="NetworkPolicy", how="missing", fields=[], found_at=scene.now)
    drift(scene, "past-x", healed_at=scene.now)
    page = text_of(petra)
    assert "2 objects differ" in page
    now, past = page.split("Put back lately")
    assert all(
        word in now for word in ("targetPort", "kubectl-edit", "4 times", "keeps changing", "not recorded")
    )
    assert "gone-x" in now
    assert "past-x" in past
    assert "put back" in past
    assert "gone-x" not in past


def test_filters_stand_in_the_address(scene: Scene, petra: Client) -> None:
    drift(scene)
    drift(scene, "other-x", kind="Job", tenant="genomics")
    assert "other-x" not in text_of(petra, f"{PAGE}?tenant=vision")
    assert "rag-dev-x" not in text_of(petra, f"{PAGE}?kind=Job")
    assert "Nothing matches." in text_of(petra, f"{PAGE}?kind=Secret&tenant=nobody")
    assert "Repair all of vision" in text_of(petra, f"{PAGE}?tenant=vision")
    assert "2 objects differ" in text_of(petra, f"{PAGE}?kind=nonsense&cluster=nowhere")


def test_a_repair_shows_what_it_changes_and_asks_the_reconcile(scene: Scene, petra: Client) -> None:
    row = drift(scene)
    page = text_of(petra, f"{PAGE}{row.pk}/")
    assert all(word in page for word in ("In the cluster", "After the repair", ">22<", ">8888<", ">gone<"))
    assert "2026-11-26T03:00:00+00:00" in page
    assert petra.post(f"{PAGE}{row.pk}/", {"reason": "edited by hand"}).status_code == 303
    assert re.search(r"Asked at \d\d:\d\d to put Service vision-x/rag-dev-x back\.", text_of(petra))
    row.refresh_from_db()
    assert (row.asked_by, row.asked_at is not None) == ("platform", True)
    scene.running.refresh_from_db()
    assert scene.running.due_at is not None
    event = AuditEvent.objects.get(action="drift.repair")
    assert (event.chain, event.actor, event.reason) == ("tenant:vision", "platform", "edited by hand")
    assert event.changes["fields"] == [PORT["path"], LABEL["path"]]


def test_a_repair_of_what_is_mended_is_refused_and_offers_none(scene: Scene, petra: Client) -> None:
    row = drift(scene, healed_at=scene.now)
    assert "<button" not in text_of(petra, f"{PAGE}{row.pk}/").partition("<main")[2]
    assert petra.post(f"{PAGE}{row.pk}/", {}).status_code == 409


def test_all_of_a_tenant_is_repaired_at_once(scene: Scene, petra: Client) -> None:
    drift(scene)
    drift(scene, "two-x")
    drift(scene, "other-x", tenant="genomics")
    page = text_of(petra, f"{PAGE}tenants/vision/")
    assert "two-x" in page
    assert "other-x" not in page
    assert petra.post(f"{PAGE}tenants/vision/", {}).status_code == 303
    assert re.search(
        rf"Asked at \d\d:\d\d to put 2 objects of {scene.cast.vision.name} back\.", text_of(petra)
    )
    assert set(Drift.objects.exclude(asked_by="").values_list("name", flat=True)) == {
        "rag-dev-x",
        "two-x",
    }


def test_of_more_than_fit_what_is_shown_is_repaired_and_then_the_next(
    scene: Scene, petra: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairs, "MOST_AT_ONCE", 2)
    for name in ("d-x", "b-x", "a-x", "c-x"):
        drift(scene, name)
    for names in ({"a-x", "b-x"}, {"c-x", "d-x"}):
        page = text_of(petra, f"{PAGE}tenants/vision/")
        before = set(Drift.objects.exclude(asked_by="").values_list("name", flat=True))
        assert {name for name in ("a-x", "b-x", "c-x", "d-x") if f"/{name}<" in page} == names
        assert petra.post(f"{PAGE}tenants/vision/", {}).status_code == 303
        after = set(Drift.objects.exclude(asked_by="").values_list("name", flat=True))
        assert after - before == names


def test_check_now_asks_for_every_cluster(scene: Scene, petra: Client) -> None:
    assert petra.post(f"{PAGE}check/").status_code == 303
    assert DriftCheck.objects.filter(asked_by="platform").count() == Cluster.objects.count()
    assert re.search(r"Asked at \d\d:\d\d to compare every cluster\.", text_of(petra))


def test_an_auditor_reads_and_is_offered_nothing_to_do(scene: Scene, signed_in: SignedIn) -> None:
    row, auditor = drift(scene), signed_in(factories.make_user("audra", platform_role="auditor"))
    for path in (PAGE, f"{PAGE}{row.pk}/", f"{PAGE}tenants/vision/"):
        assert 'method="post"' not in text_of(auditor, path).partition("<main")[2]


def test_fleet_says_that_something_differs(scene: Scene, petra: Client) -> None:
    assert "differ" not in text_of(petra, FLEET).partition("Needs you")[2].partition("</section>")[0]
    drift(scene)
    found = text_of(petra, FLEET).partition("Needs you")[2].partition("</section>")[0]
    assert '<a href="/console/drift/">1 object differs</a>' in found


def test_the_page_costs_the_same_for_many_objects_as_for_few(scene: Scene, petra: Client) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as found:
            text_of(petra)
        return len(found)

    drift(scene)
    count()
    few = count()
    for number in range(60):
        drift(scene, f"many-{number}")
    assert count() <= few <= 14
    assert "The newest 50 are shown" in text_of(petra)


def test_rest_lists_by_filter_and_rehearses_a_repair(scene: Scene, petra: Client) -> None:
    row = drift(scene)
    drift(scene, "past-x", healed_at=scene.now, kind="Job")
    drift(scene, "other-x", tenant="genomics")

    def names(query: str) -> set[str]:
        return {each["name"] for each in petra.get(f"/api/v1/drift{query}").json()["items"]}

    assert names("") == {"rag-dev-x", "other-x"}
    assert names("?state=healed") == {"past-x"}
    assert names("?state=all&kind=Job,Pod") == {"past-x"}
    assert names("?tenant=vision") == {"rag-dev-x"}
    assert names("?cluster=nowhere") == set()
    told = petra.post(f"/api/v1/drift/{row.pk}/repair?dry_run=true", {}, content_type="application/json")
    assert told.status_code == 200
    assert told.json()["result"]["fields"][0]["ours"] == "8888"
    row.refresh_from_db()
    assert row.asked_by == ""


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
@in_each_look
def test_the_pages_read_well(
    scene: Scene, chromium: Browser, live_server: LiveServer, size: ViewportSize, theme: str
) -> None:
    axe = Axe()
    compared(scene, timezone.now(), begun_at=timezone.now(), done=3)
    row = drift(scene, times=4, message="kubectl-edit keeps changing fields that Allotment owns.")
    drift(scene, "gone-x", kind="NetworkPolicy", how="missing", fields=[])
    drift(scene, "past-x", healed_at=scene.now)
    for path in (PAGE, f"{PAGE}{row.pk}/", f"{PAGE}tenants/vision/", f"{PAGE}?kind=Job"):
        with page_of(chromium, live_server, scene.cast.petra, size, theme) as page:
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} {size}"
            found = axe.run(page, options=RULES)
            assert found.violations_count == 0, found.generate_report()
