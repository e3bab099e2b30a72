"""The console's pages of tenancy: who sees them, and that every change shows its effect before it is made."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.quotas.models import Grant, Offer, Price
from apps.quotas.specs import SharingMode
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import Suspend, TrustLevel
from apps.workloads.models import Workload
from apps.workloads.tenants.selectors.trust_moves import moves_for
from tests import factories
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def manager(cast: Cast) -> Client:
    """Otto, who manages the department of vision and speech."""
    research = cast.vision.department
    tenancy.set_managers(actor=as_actor(cast.petra), department=research, usernames=["outsider"], now=NOW)
    return browser_of(cast.otto)


def test_a_manager_has_the_console_of_the_own_department_alone(cast: Cast, manager: Client) -> None:
    page = manager.get("/console/tenants/").content.decode()
    assert "Vision" in page
    assert "Genomics" not in page
    assert manager.get("/console/tenants/vision/").status_code == 200
    assert manager.get("/console/tenants/genomics/").status_code == 404
    assert manager.get("/console/departments/research/").status_code == 200
    for path in ("/console/", "/console/users/", "/console/nodes/", "/console/queue/"):
        assert manager.get(path).status_code == 404
    assert "/console/tenants/" in manager.get("/").content.decode()


def test_a_manager_makes_tenants_of_standard_trust_there(cast: Cast, manager: Client) -> None:
    typed = {"name": "Robots", "department": "research", "trust_level": "standard"}
    assert manager.post("/console/tenants/", typed)["Location"] == "/console/tenants/robots/"
    trusted = manager.post("/console/tenants/", typed | {"name": "More", "trust_level": "trusted"})
    assert trusted.status_code == 403
    foreign = manager.post("/console/tenants/", typed | {"name": "More", "department": "bio"})
    assert foreign.status_code == 422
    assert set(Tenant.objects.values_list("slug", flat=True)) == {"vision", "speech", "genomics", "robots"}


def test_departments_are_made_renamed_and_deleted_when_empty(cast: Cast) -> None:
    petra = browser_of(cast.petra)
    assert petra.post("/console/departments/", {"name": "Physics", "managers": "lead"}).status_code == 303
    physics = Department.objects.get(slug="physics")
    assert [each.user.username for each in physics.managers.all()] == ["lead"]
    wrong = petra.post("/console/departments/physics/", {"name": "Matter", "managers": "nobody"})
    assert wrong.status_code == 422
    physics.refresh_from_db()
    assert physics.name == "Physics"
    petra.post("/console/departments/physics/", {"name": "Matter", "managers": ""})
    physics.refresh_from_db()
    assert (physics.name, physics.managers.count()) == ("Matter", 0)
    assert petra.post("/console/departments/research/delete/").status_code == 409
    assert petra.post("/console/departments/physics/delete/").status_code == 303
    physics.refresh_from_db()
    assert physics.deleting_at is not None


def test_suspending_says_what_it_does_first(cast: Cast) -> None:
    petra, path = browser_of(cast.petra), "/console/tenants/vision/change/suspend/"
    factories.make_workload(cast.vision, cast.rosa, cast.offer)
    page = petra.post(path, {"suspend": "drain"}).content.decode()
    assert "Nothing is running. 1 waiting workload and all new work wait until you resume the tenant." in page
    assert Tenant.objects.get(pk=cast.vision.pk).suspend == Suspend.NONE
    assert petra.post(path, {"suspend": "drain", "confirm": "yes"}).status_code == 303
    assert Tenant.objects.get(pk=cast.vision.pk).suspend == Suspend.DRAIN


def _with_shares(cast: Cast) -> None:
    """Two offers of shared GPUs, quota of each, and work on them; one workload more on a MIG slice."""
    flavor = cast.offer.flavor
    shared = factories.make_offer(flavor, "h100-shared", profile="", hourly="0.10")
    shared.sharing_mode, shared.gpu_memory_bytes = SharingMode.TIME_SLICING, 8 * factories.GIB
    shared.save()
    huge = factories.make_offer(flavor, "h100-shared-huge", profile="", hourly="0.20")
    huge.sharing_mode = SharingMode.MPS
    huge.save()
    for offer in (shared, huge):
        factories.make_quota(cast.vision, offer, nominal=1)
        factories.make_workload(cast.vision, cast.rosa, offer, slug=f"on-{offer.slug}")
    factories.make_workload(cast.vision, cast.rosa, cast.offer, slug="stays")
    Price.objects.update(valid_from=timezone.now() - timedelta(days=1))


def test_lower_trust_lists_what_becomes_illegal_and_where_it_moves(cast: Cast) -> None:
    _with_shares(cast)
    now = timezone.now()
    found = moves_for(cast.vision, TrustLevel.UNTRUSTED, now=now)
    assert {offer.slug for offer in found.offers} == {"h100-shared", "h100-shared-huge"}
    assert {quota.offer.slug for quota in found.quotas} == {"h100-shared", "h100-shared-huge"}
    moves = {move.workload.slug: move.target and move.target.slug for move in found.moves}
    assert moves == {"on-h100-shared": "h100-1g-10gb", "on-h100-shared-huge": None}
    assert moves_for(cast.vision, TrustLevel.STANDARD, now=now).moves == ()
    page = browser_of(cast.petra).post("/console/tenants/vision/change/trust/", {"trust_level": "untrusted"})
    assert "No legal offer with quota holds it" in page.content.decode()
    assert Tenant.objects.get(pk=cast.vision.pk).trust_level == TrustLevel.STANDARD


def test_lower_trust_lists_grants_and_what_kubectl_made_there_too(cast: Cast) -> None:
    _with_shares(cast)
    now, shared = timezone.now(), Offer.objects.get(slug="h100-shared")
    Grant.objects.create(
        tenant=cast.vision, offer=shared, count=3, starts_at=now, ends_at=now + timedelta(days=2)
    )
    Grant.objects.create(tenant=cast.vision, offer=shared, count=4, starts_at=now, ends_at=now)
    for name, offer in (("train", shared), ("legal", cast.offer)):
        _by_kubectl(cast.vision, name, offer)
    page = browser_of(cast.petra).post("/console/tenants/vision/change/trust/", {"trust_level": "untrusted"})
    shown = " ".join(page.content.decode().split())
    assert "Grants of them too: 3 × " in shown
    assert f'<li>train <span class="muted">on {shared.name}, waits for quota</span></li>' in shown
    assert "legal" not in shown.partition("Made with kubectl")[2].partition("</ul>")[0]
    lower = {"spec": {"trust_level": "untrusted"}}
    told = Rest(cast.petra).send("PATCH", "/tenants/vision?dry_run=true", lower, match="*").json()
    assert [grant["count"] for grant in told["illegal"]["grants"]] == [3]
    assert told["illegal"]["kubectl"] == [{"name": "train", "offer": "h100-shared", "state": "waits"}]
    assert "Made with kubectl, so the portal cannot move it: train (waits for quota)." in told["warnings"]


def _by_kubectl(tenant: Tenant, name: str, offer: Offer) -> None:
    """A Job of one device that waits, as the watcher saw its Kueue Workload."""
    container = {"name": "main", "resources": {"limits": {offer.resource_name: "1"}}}
    body = {
        "metadata": {
            "name": f"job-{name}-1", "namespace": tenant.object_name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-11-20T08:00:00Z",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"u-{name}"}],
        },
        "spec": {
            "active": True, "queueName": "gpu",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": []},
    }  # fmt: skip
    mirror_table.record_seen(tenant.cluster, [Sighting("Workload", body)], now=timezone.now())


def test_rest_rehearses_a_lower_trust_level_with_the_same_content(cast: Cast) -> None:
    _with_shares(cast)
    petra = Rest(cast.petra)
    lower = {"spec": {"trust_level": "untrusted"}}
    told = petra.send("PATCH", "/tenants/vision?dry_run=true", lower, match="*").json()
    assert [(m["name"], m["from"]["offer"], m["to"] and m["to"]["offer"]) for m in told["moves"]] == [
        ("on-h100-shared", "h100-shared", "h100-1g-10gb"), ("on-h100-shared-huge", "h100-shared-huge", None),
    ]  # fmt: skip
    assert told["moves"][0]["from"]["hourly"] == {"amount": "0.10", "currency": "EUR"}
    assert sorted(told["illegal"]["offers"]) == ["h100-shared", "h100-shared-huge"]
    assert [quota["nominal_quota"] for quota in told["illegal"]["quotas"]] == [1, 1]
    assert told["warnings"][-1] == "No legal offer with quota holds on-h100-shared-huge."
    assert told["result"]["spec"]["trust_level"] == "untrusted"
    assert Tenant.objects.get(pk=cast.vision.pk).trust_level == TrustLevel.STANDARD
    higher = {"spec": {"trust_level": "trusted"}}
    raised = petra.send("PATCH", "/tenants/vision?dry_run=true", higher, match="*").json()
    assert (raised["moves"], raised["warnings"]) == ([], [])
    assert petra.send("PATCH", "/tenants/vision", lower, match="*").status_code == 200
    assert Tenant.objects.get(pk=cast.vision.pk).trust_level == TrustLevel.UNTRUSTED


@pytest.mark.parametrize("by_rest", [False, True])
def test_a_confirmed_lower_trust_keeps_the_moves_for_the_next_starts(cast: Cast, by_rest: bool) -> None:  # noqa: FBT001
    _with_shares(cast)
    chosen = factories.make_workload(
        cast.vision, cast.rosa, Offer.objects.get(slug="h100-shared"), slug="chosen"
    )
    wide = factories.make_offer(cast.offer.flavor, "h100-3g", profile="3g.40gb")
    factories.make_quota(cast.vision, wide, nominal=1)
    Workload.objects.filter(pk=chosen.pk).update(next_offer=wide)
    if by_rest:
        lower = {"spec": {"trust_level": "untrusted"}}
        assert Rest(cast.petra).send("PATCH", "/tenants/vision", lower, match="*").status_code == 200
    else:
        typed = {"trust_level": "untrusted", "confirm": "yes"}
        browser_of(cast.petra).post("/console/tenants/vision/change/trust/", typed)
    assert Tenant.objects.get(pk=cast.vision.pk).trust_level == TrustLevel.UNTRUSTED
    found = Workload.objects.filter(tenant=cast.vision).values_list("slug", "next_offer__slug")
    assert dict(found) == {
        "on-h100-shared": "h100-1g-10gb", "on-h100-shared-huge": None, "chosen": "h100-3g", "stays": None,
    }  # fmt: skip
    kept = AuditEvent.objects.get(action="workload.resize", target_name="on-h100-shared")
    assert kept.changes == {"next_offer": [None, "h100-1g-10gb"]}
    assert kept.reason == "vision is now of trust level untrusted"
    moved = Workload.objects.get(slug="on-h100-shared")
    told = Rest(cast.rosa).get(f"/workloads/{moved.pk}").json()["status"]
    assert told["next_offer"] == "h100-1g-10gb"
    assert f"Stop it and start it again: it then takes {cast.offer.name}." in told["queue"]["message"]
    Workload.objects.filter(pk=moved.pk).update(spec=moved.spec | {"max_run_seconds": 3600})
    page = browser_of(cast.rosa).get(f"/t/vision/workloads/{moved.pk}/").content.decode()
    assert f"Its next start takes {cast.offer.name}." in page


def test_a_manager_may_not_change_trust_and_is_told_before_the_preview(cast: Cast, manager: Client) -> None:
    answer = manager.post("/console/tenants/vision/change/trust/", {"trust_level": "trusted"})
    assert answer.status_code == 403


def test_deleting_wants_the_slug_and_a_second_platform_engineer(cast: Cast) -> None:
    petra, paul = browser_of(cast.petra), browser_of(factories.make_user("paul", platform_role="platform"))
    path = "/console/tenants/speech/"
    assert petra.post(f"{path}delete/", {"slug": "spech"}).status_code == 422
    assert petra.post(f"{path}delete/", {"slug": "speech", "reason": "merged"}).status_code == 303
    assert "Approve deletion" not in petra.get(path).content.decode()
    assert petra.post(f"{path}act/approve-deletion/").status_code == 403
    assert "Approve deletion" in paul.get(path).content.decode()
    assert paul.post(f"{path}act/approve-deletion/").status_code == 303
    assert Tenant.objects.get(slug="speech").deletion_due_at is not None
    assert petra.post(f"{path}act/withdraw-deletion/").status_code == 303
    assert Tenant.objects.get(slug="speech").deletion_due_at is None
    assert petra.post(f"{path}act/explode/").status_code == 404
