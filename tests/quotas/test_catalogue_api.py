"""Flavors, offers, prices and sharing, written over REST."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.specs import ObjectRef
from apps.quotas.allowances.services import granting
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts, set_quota
from apps.quotas.catalogue.services.offer_reconcile import reconcile_flavor, reconcile_offer
from apps.quotas.models import Flavor, Offer, Price, Quota, TenantQueue
from apps.tenants.lifecycle.services.reconcile import reconcile_department
from apps.tenants.models import Department, Tenant
from tests.factories import NOW, make_department, make_user
from tests.quotas.conftest import Story
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


@pytest.fixture
def petra(story: Story) -> Rest:
    return Rest(User.objects.get(username="platform"))


@pytest.fixture
def rosa(story: Story) -> Rest:
    return Rest(User.objects.get(username="researcher"))


def new_offer(**spec: Any) -> dict[str, Any]:
    wanted = {"flavor": "h100", "profile": "2g.20gb", "gpu_memory": "20Gi", "cpu": "6", "memory": "60Gi"}
    return {"slug": "h100-2g-20gb", "name": "H100 2g.20gb MIG slice", "spec": {**wanted, **spec}}


def test_an_offer_that_nobody_found_is_made_by_hand(story: Story, petra: Rest) -> None:
    made = petra.send("POST", "/offers", new_offer(description="For larger notebooks."), key="o-1")
    assert made.status_code == 201, made.content
    spec = made.json()["spec"]
    assert (spec["sharing_mode"], spec["compute_share"], spec["gpu_memory"]) == ("mig", "2/7", "20Gi")
    assert made.json()["created_by"] == "platform"
    offer = Offer.objects.get(slug="h100-2g-20gb")
    reconcile_offer(offer.pk, gateway=story.gateway)
    (found,) = story.gateway.list("DeviceClass", label_selector=f"allotment.dev/uid={offer.pk}")[0]
    assert found["spec"]["extendedResourceName"] == "allotment.dev/h100-2g-20gb"
    assert AuditEvent.objects.filter(action="offer.create", target_name="h100-2g-20gb").exists()


def test_the_same_key_makes_one_offer(petra: Rest) -> None:
    first = petra.send("POST", "/offers", new_offer(), key="o-1")
    again = petra.send("POST", "/offers", new_offer(), key="o-1")
    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert Offer.objects.filter(slug="h100-2g-20gb").count() == 1


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        (new_offer(flavor="b200"), 422, "#/spec/flavor"),
        (new_offer(profile="huge"), 422, "#/spec/profile"),
        (new_offer(gpu_memory="much"), 422, "#/spec/gpu_memory"),
        (new_offer(gpu_memory=None), 422, "#/spec/gpu_memory"),
        (new_offer(sharing_mode="mps"), 422, "#/spec/sharing_mode"),
        (new_offer(profile=None), 409, ""),
    ],
)
def test_a_wrong_offer_is_refused_where_it_is_wrong(
    petra: Rest, body: dict[str, Any], status: int, where: str
) -> None:
    answer = petra.send("POST", "/offers", body)
    assert answer.status_code == status, answer.content
    assert [error["pointer"] for error in answer.json().get("errors", [])] == ([where] if where else [])


def test_only_platform_engineers_change_the_catalogue(rosa: Rest) -> None:
    assert rosa.send("POST", "/offers", new_offer()).status_code == 403
    assert rosa.send("PATCH", "/offers/h100-whole", {"name": "Mine"}, match="*").status_code == 403
    assert rosa.send("POST", "/flavors", {"slug": "x", "spec": {}}).status_code == 403
    assert rosa.send("POST", "/prices", {"spec": {}}).status_code == 403


def test_what_comes_with_a_device_moves_the_queues_that_have_it(story: Story, petra: Rest) -> None:
    offer = story.offer("h100-whole")
    set_quota(actor=story.petra, tenant=story.vision, offer=offer, amounts=Amounts(2, 0), now=NOW)
    queue = TenantQueue.objects.get(tenant=story.vision)
    etag = petra.get("/offers/h100-whole")["ETag"]
    answer = petra.send("PATCH", "/offers/h100-whole", {"spec": {"cpu": "10", "enabled": False}}, match=etag)
    assert answer.status_code == 200, answer.content
    assert (answer.json()["spec"]["cpu"], answer.json()["spec"]["enabled"]) == ("10", False)
    reconcile_queue(queue.pk, gateway=story.gateway)
    body = story.gateway.get(ObjectRef("ClusterQueue", "", story.vision.object_name))
    assert body is not None
    cpu = body["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    assert (cpu["name"], cpu["nominalQuota"]) == ("cpu", "20")


def test_an_offer_can_be_put_back_as_it_was_read(petra: Rest) -> None:
    shown = petra.get("/offers/h100-whole")
    body = {"name": shown.json()["name"], "spec": shown.json()["spec"]}
    again = petra.send("PUT", "/offers/h100-whole", body, match=shown["ETag"])
    assert (again.status_code, again["ETag"]) == (200, shown["ETag"])


def test_an_offer_with_quota_stays(story: Story, petra: Rest) -> None:
    offer = story.offer("h100-whole")
    set_quota(actor=story.petra, tenant=story.vision, offer=offer, amounts=Amounts(1), now=NOW)
    refused = petra.send("DELETE", "/offers/h100-whole", match="*")
    assert (refused.status_code, refused.json()["code"]) == (409, "has_dependents")
    gone = petra.send("DELETE", "/offers/l4-whole", match="*")
    assert gone.status_code == 202
    reconcile_offer(story.offer("l4-whole").pk, gateway=story.gateway)
    assert petra.get("/offers/l4-whole").status_code == 404


def test_an_offer_outlives_no_grant_and_no_open_request(story: Story, petra: Rest) -> None:
    offer, path, now = story.offer("h100-whole"), "/offers/h100-whole", timezone.now()
    wish = GrantWish(1, now + timedelta(days=2), now + timedelta(days=1))
    grant = granting.give_grant(actor=story.petra, tenant=story.vision, offer=offer, wish=wish, now=now)
    refused = petra.send("DELETE", path, match="*").json()
    assert (refused["code"], refused["detail"]) == (
        "has_dependents",
        "Tenants with a grant of h100-whole: vision.",
    )
    granting.end_grant(actor=story.petra, grant=grant, now=timezone.now())
    spec = {"offer": "h100-whole", "count": 1, "reason": "a paper"}
    asked = petra.send("POST", "/quota-requests", {"tenant": "speech", "spec": spec}).json()
    refused = petra.send("DELETE", path, match="*").json()
    assert refused["detail"] == "Tenants with an open request of h100-whole: speech."
    assert petra.send("POST", f"/quota-requests/{asked['id']}/withdraw").status_code == 200
    assert petra.send("DELETE", path, match="*").status_code == 202
    asked_late = petra.send("POST", "/quota-requests", {"tenant": "speech", "spec": spec})
    assert "is being deleted" in asked_late.content.decode()


def test_an_offer_goes_though_a_deleted_team_had_quota_of_it(story: Story, petra: Rest) -> None:
    offer = story.offer("h100-whole")
    set_quota(actor=story.petra, tenant=story.vision, offer=offer, amounts=Amounts(1), now=NOW)
    Tenant.objects.filter(pk=story.vision.pk).update(deleting_at=NOW, deleted_at=NOW)
    assert petra.send("DELETE", "/offers/h100-whole", match="*").status_code == 202


def test_a_request_of_an_offer_that_is_gone_is_read_and_gives_nothing(story: Story, petra: Rest) -> None:
    spec = {"offer": "h100-whole", "count": 1, "reason": "a paper"}
    asked = petra.send("POST", "/quota-requests", {"tenant": "speech", "spec": spec}).json()
    Offer.objects.filter(slug="h100-whole").update(deleting_at=NOW, deleted_at=NOW)
    path = f"/quota-requests/{asked['id']}"
    assert petra.get(path).status_code == 200
    assert petra.send("POST", f"{path}/comment", {"text": "it is gone"}).status_code == 200
    other = Rest(make_user("paul", platform_role="platform"))
    assert other.send("POST", f"{path}/approve", {}).status_code == 422
    assert not Quota.objects.exists()
    assert other.send("POST", f"{path}/decline", {"reason": "gone"}).status_code == 200


def test_the_backstop_lets_nothing_pass_of_an_offer_without_quota(story: Story, petra: Rest) -> None:
    offer = story.offer("h100-whole")
    set_quota(actor=story.petra, tenant=story.vision, offer=offer, amounts=Amounts(1, 0), now=NOW)
    queue = TenantQueue.objects.get(tenant=story.vision)
    petra.send("POST", "/offers", new_offer())
    reconcile_queue(queue.pk, gateway=story.gateway)
    quotas, _ = story.gateway.list("ResourceQuota", label_selector="allotment.dev/owner=queue")
    (backstop,) = [body["spec"]["hard"] for body in quotas]
    assert backstop["requests.allotment.dev/h100-whole"] == "3001"
    assert backstop["requests.allotment.dev/h100-2g-20gb"] == "0"
    assert backstop["requests.allotment.dev/l4-whole"] == "0"


def test_a_flavor_is_made_changed_and_removed(story: Story, petra: Rest) -> None:
    body = {
        "slug": "t4",
        "name": "T4",
        "spec": {"cluster": "north", "model": "Tesla T4", "node_labels": {"gpu": "t4"}},
    }
    made = petra.send("POST", "/flavors", body)
    assert made.status_code == 201, made.content
    changed = petra.send("PATCH", "/flavors/t4", {"spec": {"node_labels": {"gpu": "T4"}}}, match=made["ETag"])
    assert changed.json()["spec"]["node_labels"] == {"gpu": "T4"}
    flavor = Flavor.objects.get(slug="t4")
    reconcile_flavor(flavor.pk, gateway=story.gateway)
    (found,) = story.gateway.list("ResourceFlavor", label_selector=f"allotment.dev/uid={flavor.pk}")[0]
    assert found["spec"]["nodeLabels"] == {"gpu": "T4"}
    assert petra.send("DELETE", "/flavors/h100", match="*").json()["code"] == "has_dependents"
    assert petra.send("DELETE", "/flavors/t4", match="*").status_code == 202


def test_a_cluster_has_one_flavor_of_cores(petra: Rest) -> None:
    def made(slug: str, **labels: str) -> dict[str, Any]:
        spec = {"cluster": "north", "model": "", "node_labels": labels}
        answer: dict[str, Any] = petra.send("POST", "/flavors", {"slug": slug, "spec": spec}).json()
        return answer

    spot = {"karpenter.sh/capacity-type": "spot"}
    assert "serve everybody and are not spot" in made("cheap", **spot)["detail"]
    assert made("cpu", pool="cpu")["slug"] == "cpu"
    assert "cpu sells the cores of north already" in made("more", pool="more")["detail"]
    assert petra.send("PATCH", "/flavors/cpu", {"spec": {"node_labels": spot}}, match="*").status_code == 409


def test_a_price_is_dated_and_the_past_never_changes(petra: Rest) -> None:
    later = (timezone.now() + timedelta(days=3)).isoformat()
    body = {
        "spec": {"offer": "h100-whole", "hourly": {"amount": "3.10", "currency": "EUR"}, "valid_from": later}
    }
    made = petra.send("POST", "/prices", body)
    assert made.status_code == 201, made.content
    assert made.json()["spec"]["hourly"] == {"amount": "3.10", "currency": "EUR"}
    assert petra.get("/offers/h100-whole").json()["status"]["price"]["hourly"]["amount"] == "2.94"
    current = Price.objects.filter(offer__slug="h100-whole").order_by("valid_from").first()
    assert current is not None
    assert petra.send("DELETE", f"/prices/{current.pk}").status_code == 409
    assert petra.send("DELETE", f"/prices/{made.json()['id']}").status_code == 204


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"hourly": {"amount": "1", "currency": "USD"}}, "#/spec/hourly/currency"),
        ({"hourly": {"amount": "-1", "currency": "EUR"}}, "#/spec/hourly/amount"),
        ({"valid_from": "2020-01-01T00:00:00Z"}, "#/spec/valid_from"),
        ({"offer": "none-such"}, "#/spec/offer"),
    ],
)
def test_a_wrong_price_is_refused_where_it_is_wrong(petra: Rest, spec: dict[str, Any], where: str) -> None:
    whole = {"offer": "h100-whole", "hourly": {"amount": "1", "currency": "EUR"}}
    answer = petra.send("POST", "/prices", {"spec": {**whole, **spec}})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [where]


def test_a_weight_reaches_the_queue(story: Story, petra: Rest) -> None:
    set_quota(
        actor=story.petra, tenant=story.vision, offer=story.offer("h100-whole"), amounts=Amounts(1), now=NOW
    )
    answer = petra.send("PUT", "/tenants/vision/sharing", {"spec": {"fair_weight": "2.5"}})
    assert (answer.status_code, answer.json()["spec"]) == (200, {"fair_weight": "2.5"})
    assert petra.send("PUT", "/tenants/vision/sharing", {"spec": {"fair_weight": 2.5}}).json()["spec"] == {
        "fair_weight": "2.5"
    }, "a number says it too"
    assert answer.json()["status"]["fair_sharing"] is False
    reconcile_queue(TenantQueue.objects.get(tenant=story.vision).pk, gateway=story.gateway)
    (body,) = story.gateway.list("ClusterQueue", label_selector="allotment.dev/tenant=vision")[0]
    assert body["spec"]["fairSharing"] == {"weight": "2.5"}


def test_a_department_below_another_one_lends_within_its_bounds(story: Story, petra: Rest) -> None:
    make_department(story.cluster, "science")
    bound = {"offer": "h100-whole", "borrowing_limit": 4, "lending_limit": 1}
    spec = {"parent": "science", "fair_weight": "2", "bounds": [bound]}
    answer = petra.send("PUT", "/departments/research/sharing", {"spec": spec})
    assert (answer.status_code, answer.json()["spec"]) == (200, spec), answer.content
    research = Department.objects.get(slug="research")
    reconcile_department(research.pk, gateway=story.gateway)
    (body,) = story.gateway.list("Cohort", label_selector=f"allotment.dev/uid={research.pk}")[0]
    assert body["spec"]["parentName"] == Department.objects.get(slug="science").object_name
    (group,) = body["spec"]["resourceGroups"]
    (resource,) = group["flavors"][0]["resources"]
    assert (resource["borrowingLimit"], resource["lendingLimit"], resource["nominalQuota"]) == ("4", "1", "0")


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"parent": "research"}, "#/spec/parent"),
        ({"parent": "nowhere"}, "#/spec/parent"),
        ({"bounds": [{"offer": "h100-whole", "lending_limit": 1}]}, "#/spec/bounds"),
        ({"parent": None, "fair_weight": "2000"}, "#/spec/fair_weight"),
        ({"parent": None, "bounds": [{"offer": "none-such"}]}, "#/spec/bounds/0/offer"),
    ],
)
def test_an_impossible_place_is_refused(petra: Rest, spec: dict[str, Any], where: str) -> None:
    answer = petra.send("PUT", "/departments/research/sharing", {"spec": spec})
    assert (answer.status_code, [e["pointer"] for e in answer.json()["errors"]]) == (422, [where])


def test_no_department_is_below_itself_by_a_detour(story: Story, petra: Rest) -> None:
    make_department(story.cluster, "science")
    assert (
        petra.send("PUT", "/departments/research/sharing", {"spec": {"parent": "science"}}).status_code == 200
    )
    refused = petra.send("PUT", "/departments/science/sharing", {"spec": {"parent": "research"}})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/spec/parent")
