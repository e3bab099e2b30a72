"""Flavors, offers, prices and quotas over REST."""

import pytest
from django.db.models import F

from apps.accounts.models import User
from apps.quotas.allowances.services import quota_changes
from apps.quotas.models import Quota, TenantQueue
from tests.conftest import generation
from tests.factories import NOW
from tests.quotas.conftest import Story
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


@pytest.fixture
def petra(story: Story) -> Rest:
    return Rest(User.objects.get(username="platform"))


@pytest.fixture
def rosa(story: Story) -> Rest:
    return Rest(User.objects.get(username="researcher"))


def test_an_offer_says_what_it_is_isolates_costs_and_how_much_is_free(story: Story, rosa: Rest) -> None:
    offer = rosa.get("/offers/h100-3g-40gb").json()
    assert offer["spec"] == {
        "flavor": "h100",
        "sharing_mode": "mig",
        "profile": "3g.40gb",
        "gpu_memory": "40448Mi",
        "compute_share": "3/7",
        "min_trust_level": "untrusted",
        "mechanism": "dra",
        "enabled": True,
        "description": "",
        "cpu": "27",
        "memory": "219Gi",
    }
    status = offer["status"]
    assert status["isolation_level"] == {"memory": True, "faults": True, "across_tenants": True}
    assert status["price"] == {"hourly": {"amount": "1.26", "currency": "EUR"}}
    assert (status["capacity"], status["free"], status["allowed"]) == (1, 1, None)


def test_offers_for_a_tenant_say_which_it_may_use(story: Story, rosa: Rest) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    story.vision.quotas.filter(offer__slug="l4-whole").delete()
    items = rosa.get("/offers?tenant=vision").json()["items"]
    told = {item["slug"]: (item["status"]["allowed"], item["status"]["blocked_reason"]) for item in items}
    assert told["h100-whole"] == (True, None)
    assert told["l4-whole"][0] is False
    assert told["l4-whole"][1].startswith("vision has no quota of L4 whole.")
    refused = rosa.get("/offers?tenant=speech")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_parameter")


def test_flavors_show_model_and_devices(story: Story, rosa: Rest) -> None:
    items = {item["slug"]: item["status"] for item in rosa.get("/flavors").json()["items"]}
    assert (items["h100"]["model"], items["h100"]["devices"]) == ("NVIDIA H100 80GB HBM3", 4)
    assert items["l4"]["gpu_memory"] == "23034Mi"


def test_prices_are_listed_by_offer(story: Story, rosa: Rest) -> None:
    (price,) = rosa.get("/prices?offer=l4-whole").json()["items"]
    assert price["spec"]["hourly"] == {"amount": "0.70", "currency": "EUR"}
    assert rosa.get("/prices?include_total=true").json()["total"] == 4
    assert rosa.get(f"/prices/{price['id']}").json() == price
    assert rosa.get("/prices/none").status_code == 404


def test_a_quota_is_given_changed_and_taken(story: Story, petra: Rest, rosa: Rest) -> None:
    body = {"tenant": "vision", "spec": {"offer": "h100-whole", "nominal_quota": 1, "borrowing_limit": 1}}
    made = petra.send("POST", "/quotas", body)
    assert (made.status_code, generation(made)) == (201, 1)
    assert made.json()["spec"]["lending_limit"] is None
    assert made.json()["status"]["used"] == 0
    path = f"/quotas/{made.json()['id']}"
    changed = petra.send("PATCH", path, {"spec": {"nominal_quota": 2, "borrowing_limit": None}}, match='"1"')
    assert (changed.status_code, generation(changed)) == (200, 2)
    assert changed.json()["spec"]["borrowing_limit"] is None
    assert rosa.get("/quotas?tenant=vision").json()["items"][0]["spec"]["nominal_quota"] == 2
    assert petra.send("POST", "/quotas", body).json()["code"] == "already_exists"
    assert petra.send("DELETE", path, match='"1"').status_code == 412
    assert petra.send("DELETE", path, match='"2"').status_code == 204
    assert petra.get(path).status_code == 404


def test_what_was_got_can_be_put_back_and_changes_nothing(story: Story, petra: Rest) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    got = petra.get(f"/quotas/{Quota.objects.get(offer__slug='l4-whole').pk}")
    put = petra.send("PUT", f"/quotas/{got.json()['id']}", got.json(), match=got["ETag"])
    assert (put.status_code, put["ETag"]) == (200, got["ETag"])


def test_a_dry_run_shows_the_queue_it_would_make_and_stores_nothing(story: Story, petra: Rest) -> None:
    body = {"tenant": "vision", "spec": {"offer": "h100-whole", "nominal_quota": 1}}
    rehearsed = petra.send("POST", "/quotas?dry_run=true", body).json()
    assert [m["kind"] for m in rehearsed["manifests"]] == ["ClusterQueue", "ResourceQuota", "LocalQueue"]
    assert not Quota.objects.exists()


@pytest.mark.parametrize(
    ("spec", "pointer", "code"),
    [
        ({"offer": "h100-hole", "nominal_quota": 1}, "#/spec/offer", "reference_not_found"),
        ({"offer": "h100-whole", "nominal_quota": -1}, "#/spec/nominal_quota", "out_of_range"),
        (
            {"offer": "h100-whole", "nominal_quota": 1, "lending_limit": 2},
            "#/spec/lending_limit",
            "out_of_range",
        ),
        ({"offer": "h100-whole"}, "#/spec/nominal_quota", "required"),
        ({"offer": "h100-whole", "nominal_quota": 1, "nominal": 1}, "#/spec/nominal", "unknown_field"),
    ],
)
def test_a_wrong_field_is_named(
    story: Story, petra: Rest, spec: dict[str, object], pointer: str, code: str
) -> None:
    refused = petra.send("POST", "/quotas", {"tenant": "vision", "spec": spec})
    assert refused.status_code == 422
    assert (pointer, code) in [(error["pointer"], error["code"]) for error in refused.json()["errors"]]


def test_a_member_reads_quota_and_may_not_change_it(story: Story, rosa: Rest) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    quota_changes.grant_everything(actor=story.petra, tenant=story.speech, now=NOW)
    mine, foreign = (Quota.objects.filter(tenant=t).first() for t in (story.vision, story.speech))
    assert mine is not None
    assert foreign is not None
    assert rosa.get(f"/quotas/{mine.pk}").status_code == 200
    patch = {"spec": {"nominal_quota": 99}}
    assert rosa.send("PATCH", f"/quotas/{mine.pk}", patch, match="*").status_code == 403
    assert rosa.send("PATCH", f"/quotas/{foreign.pk}", patch, match="*").status_code == 404
    assert rosa.get(f"/quotas/{foreign.pk}").content == rosa.get("/quotas/no-such").content


def test_a_quota_is_observed_once_the_queue_that_carries_it_is(story: Story, petra: Rest) -> None:
    body = {"tenant": "vision", "spec": {"offer": "h100-whole", "nominal_quota": 1}}
    made = petra.send("POST", "/quotas", body).json()
    assert (made["status"]["observed_generation"], made["status"]["conditions"]) == (0, [])

    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "since": None}
    TenantQueue.objects.filter(tenant=story.vision).update(
        observed_generation=F("generation"), conditions=[ready | {"observed_generation": 7}]
    )
    status = petra.get(f"/quotas/{made['id']}").json()["status"]
    assert status["observed_generation"] == made["generation"]
    assert status["conditions"] == [ready | {"observed_generation": made["generation"]}]


def test_who_may_not_give_quota_is_told_so_before_what_is_there(story: Story, rosa: Rest) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    body = {"tenant": "vision", "spec": {"offer": "l4-whole", "nominal_quota": 9}}
    refused = rosa.send("POST", "/quotas", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
