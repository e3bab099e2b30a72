"""Departments, tenants and members over REST."""

from typing import Any

import pytest

from apps.tenants.models import Membership, Tenant
from tests.conftest import Cast, generation
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases


@pytest.fixture
def petra(cast: Cast) -> Rest:
    return Rest(cast.petra)


def new(slug: str = "robotics", **spec: Any) -> dict[str, Any]:
    return {"slug": slug, "name": "Robotics", "spec": {"department": "research", **spec}}


def test_a_tenant_is_made_shown_and_listed(cast: Cast, petra: Rest) -> None:
    made = petra.send("POST", "/tenants", new(trust_level="trusted"))
    assert (made.status_code, generation(made)) == (201, 1)
    body = made.json()
    assert made["Location"] == f"/api/v1/tenants/{body['id']}"
    assert body["spec"] == {
        "department": "research",
        "clusters": ["north"],
        "isolation": "namespace",
        "trust_level": "trusted",
        "suspend": "none",
        "egress": {"mode": "none", "allow": []},
        "shell": False,
        "vcluster": None,
    }
    assert (body["status"]["phase"], body["created_by"]) == ("Pending", "platform")
    assert petra.get("/tenants/robotics").json() == body
    listed = petra.get("/tenants?include_total=true&sort=slug").json()
    assert (listed["total"], [item["slug"] for item in listed["items"]][:2]) == (4, ["genomics", "robotics"])


def test_the_same_idempotency_key_makes_one_tenant(cast: Cast, petra: Rest) -> None:
    first, again = (petra.send("POST", "/tenants", new(), key="k1") for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert Tenant.objects.filter(slug="robotics").count() == 1


def test_a_dry_run_refuses_alike_and_stores_nothing(cast: Cast, petra: Rest) -> None:
    rehearsed = petra.send("POST", "/tenants?dry_run=true", new())
    assert (rehearsed.status_code, rehearsed.json()["dry_run"]) == (200, True)
    assert [m["kind"] for m in rehearsed.json()["manifests"]][:2] == ["Namespace", "ResourceQuota"]
    assert not Tenant.objects.filter(slug="robotics").exists()
    assert petra.send("POST", "/tenants?dry_run=true", new("vision")).status_code == 409


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"slug": "x", "spec": {}}, "#/spec/department", "required"),
        ({"slug": "x", "spec": {"department": "nowhere"}}, "#/spec/department", "reference_not_found"),
        ({"slug": "kube-x", "spec": {"department": "bio"}}, "#/slug", "reserved_name"),
        (
            {"slug": "x", "spec": {"department": "bio", "trustlevel": "x"}},
            "#/spec/trustlevel",
            "unknown_field",
        ),
        (
            {"slug": "x", "spec": {"department": "bio", "trust_level": "x"}},
            "#/spec/trust_level",
            "invalid_value",
        ),
        (
            {"slug": "x", "spec": {"department": "bio", "clusters": ["south"]}},
            "#/spec/clusters",
            "invalid_value",
        ),
        ({"slug": "x", "spec": None}, "#/spec", "invalid_value"),
    ],
)
def test_a_wrong_field_is_named(
    cast: Cast, petra: Rest, body: dict[str, Any], pointer: str, code: str
) -> None:
    refused = petra.send("POST", "/tenants", body)
    assert refused.status_code == 422
    assert (pointer, code) in [(error["pointer"], error["code"]) for error in refused.json()["errors"]]


def test_a_change_needs_the_present_etag(cast: Cast, petra: Rest) -> None:
    patch = {"spec": {"suspend": "hold"}}
    assert petra.send("PATCH", "/tenants/vision", patch).status_code == 428
    assert petra.send("PATCH", "/tenants/vision", patch, match='"9"').status_code == 412
    changed = petra.send("PATCH", "/tenants/vision", patch, match='"1"')
    assert (changed.status_code, generation(changed)) == (200, 2)
    assert changed.json()["spec"]["suspend"] == "hold"


def test_what_was_got_can_be_put_back_and_changes_nothing(cast: Cast, petra: Rest) -> None:
    got = petra.get("/tenants/vision")
    put = petra.send("PUT", "/tenants/vision", got.json(), match=got["ETag"])
    assert (put.status_code, put["ETag"]) == (200, got["ETag"])


def test_put_sets_omitted_fields_back_to_their_defaults(cast: Cast, petra: Rest) -> None:
    petra.send("PATCH", "/tenants/vision", {"spec": {"suspend": "drain"}}, match="*")
    put = petra.send("PUT", "/tenants/vision", {"spec": {"department": "research"}}, match="*")
    assert (put.json()["spec"]["suspend"], put.json()["name"]) == ("none", "vision")


def test_what_is_fixed_cannot_be_changed(cast: Cast, petra: Rest) -> None:
    refused = petra.send("PATCH", "/tenants/vision", {"spec": {"department": "bio"}}, match="*")
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "read_only_field")


def test_a_lead_may_not_change_the_tenant_and_is_told_who_may(cast: Cast) -> None:
    leon = Rest(cast.leon)
    refused = leon.send("PATCH", "/tenants/vision", {"spec": {"suspend": "hold"}})
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert leon.send("DELETE", "/tenants/vision", match="*").status_code == 403


def test_the_invisible_looks_like_the_unknown(cast: Cast) -> None:
    rosa = Rest(cast.rosa)
    unknown = rosa.get("/tenants/no-such")
    for path in (f"/tenants/{cast.genomics.pk}", "/tenants/genomics", "/tenants/genomics/members"):
        answer = rosa.get(path)
        assert (answer.status_code, answer.content) == (404, unknown.content)


def test_deleting_answers_with_the_object_on_its_way_out(cast: Cast, petra: Rest) -> None:
    gone = petra.send("DELETE", "/tenants/speech", match='"1"')
    assert gone.status_code == 202
    assert gone.json()["status"]["deletion"]["asked_by"] == "platform"


def test_members_are_set_listed_and_removed_by_the_lead(cast: Cast) -> None:
    leon = Rest(cast.leon)
    put = leon.send("PUT", "/tenants/vision/members/auditor", {"role": "member"})
    assert (put.status_code, put.json()["role"]) == (200, "member")
    members = leon.get("/tenants/vision/members").json()["items"]
    assert [m["username"] for m in members] == ["auditor", "lead", "researcher"]
    assert leon.get("/tenants/vision/members/auditor").status_code == 200
    # A body of any kind says nothing here.
    gone = leon.client.delete("/api/v1/tenants/vision/members/auditor", "<no/>", content_type="text/xml")
    assert gone.status_code == 204
    assert not Membership.objects.filter(tenant=cast.vision, user=cast.ann).exists()
    assert leon.get("/tenants/vision/members/auditor").status_code == 404


def test_a_dry_run_of_a_membership_keeps_the_role(cast: Cast) -> None:
    rehearsed = Rest(cast.leon).send(
        "PUT", "/tenants/vision/members/researcher?dry_run=true", {"role": "lead"}
    )
    assert rehearsed.json()["result"]["role"] == "lead"
    assert Membership.objects.get(tenant=cast.vision, user=cast.rosa).role == "member"


def test_departments_show_only_the_tenants_one_sees(cast: Cast, petra: Rest) -> None:
    (research,) = Rest(cast.rosa).get("/departments").json()["items"]
    assert (research["slug"], research["status"]["tenants"]) == ("research", ["vision"])
    assert petra.get("/departments/research").json()["status"]["tenants"] == ["speech", "vision"]


def test_a_token_without_the_scope_is_refused(cast: Cast) -> None:
    reader = Rest(cast.petra, scopes=("tenants:read",))
    assert reader.get("/tenants").status_code == 200
    assert reader.send("POST", "/tenants", new()).json()["code"] == "insufficient_scope"
