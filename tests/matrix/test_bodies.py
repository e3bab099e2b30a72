"""Ids of others inside bodies and queries: refused as if they did not exist, and never acted on."""

import json
from typing import Any

import pytest

from apps.accounts.models import ApiToken
from apps.quotas.models import Quota
from apps.tenants.models import Membership, Tenant
from apps.workloads.models import Workload
from tests.matrix import asking
from tests.matrix.scene import Scene, Side, undone
from tests.matrix.table import filled_body

pytestmark = pytest.mark.django_db
NOBODYS = "00000000-0000-4000-8000-000000000000"
SPEC = {"kind": "notebook", "offer": "{offer}", "image": "jupyter/pytorch:1", "memory": "16Gi", "cpu": "2"}
Ask = tuple[str, str, str, dict[str, Any]]

ATTACKS: dict[str, Ask] = {
    "make a workload in": (
        "member",
        "POST",
        "workloads",
        {"tenant": "{them}", "spec": {**SPEC, "offer": "{mine}"}},
    ),
    "make a workload on": (
        "member",
        "POST",
        "workloads",
        {"tenant": "{us}", "spec": {**SPEC, "offer": "{them}"}},
    ),
    "rehearse a workload in": (
        "lead",
        "POST",
        "workloads?dry_run=true",
        {"tenant": "{them}", "spec": {**SPEC, "offer": "{mine}"}},
    ),
    "replace the offer by": ("member", "PUT", "workloads/{own}", {"spec": {**SPEC, "offer": "{them}"}}),
    "patch the offer to": ("member", "PATCH", "workloads/{own}", {"spec": {"offer": "{them}"}}),
    "move a workload to": ("lead", "PATCH", "workloads/{own}", {"tenant": "{them}"}),
    "copy a workload onto": ("member", "POST", "workloads/{own}/duplicate", {"spec": {"offer": "{them}"}}),
    "name several offers of": (
        "member",
        "PATCH",
        "workloads/{own}",
        {"spec": {"offers": ["{mine}", "{them}"]}},
    ),
    "grant oneself quota of": (
        "lead",
        "POST",
        "quotas",
        {"tenant": "{them}", "spec": {"offer": "{mine}", "nominal_quota": 9}},
    ),
    "move a quota to": ("platform", "PATCH", "quotas/{quota}", {"spec": {"offer": "{them}"}}),
    "move a tenant into": ("platform", "PATCH", "tenants/{us}", {"spec": {"department": "{them}"}}),
}
"""Role, method, address and body; {them} is what the attack is about."""


def names_of(side: Side, attack: str) -> tuple[str, str]:
    """What {them} means: slug and id of the tenant, the offer or the department."""
    row: Any = side.tenant
    if "offer" in attack or attack.endswith((" on", " onto")) or "a quota" in attack:
        row = side.offer
    if "move a tenant" in attack:
        row = side.tenant.department
    return row.slug, str(row.pk)


def asked(scene: Scene, ask: Ask, them: str) -> Any:
    role, method, path, body = ask
    here = scene.here
    place = {
        "us": here.tenant.slug, "mine": here.offer.slug, "own": str(here.own.pk), "them": them,
        "quota": str(here.tenant.quotas.get(offer=here.offer).pk),
    }  # fmt: skip
    sent = json.dumps(filled_body(body, place))
    address = filled_body(f"/api/v1/{path}", place)
    with undone():
        return scene.api[role].generic(method, address, sent, "application/json", headers={"If-Match": "*"})


def without(answer: Any, them: str) -> bytes:
    """The answer without the id of the request and without what was asked for."""
    return asking.identity(answer)[1].replace(them.encode(), b"?")


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_foreign_id_in_a_body_is_refused_as_an_unknown_one(scene: Scene, attack: str) -> None:
    for foreign in names_of(scene.there, attack):
        unknown = NOBODYS if foreign.count("-") == 4 else "nowhere"
        theirs, nobodys = (asked(scene, ATTACKS[attack], name) for name in (foreign, unknown))
        assert theirs.status_code == 422, theirs.content
        assert theirs.json()["errors"][0]["pointer"].startswith("#/")
        assert without(theirs, foreign) == without(nobodys, unknown)


def test_an_offer_of_another_cluster_is_none_of_the_tenants(scene: Scene) -> None:
    body = {"tenant": "{us}", "spec": {"offer": "{them}", "nominal_quota": 1}}
    answer = asked(scene, ("platform", "POST", "quotas", body), scene.there.offer.slug)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/spec/offer")


def test_the_attacks_are_refused_for_the_id_alone(scene: Scene) -> None:
    own = {
        "make a workload in": "optics",
        "make a workload on": "h100-slice",
        "patch the offer to": "h100-slice",
    }
    for attack, mine in own.items():
        assert asked(scene, ATTACKS[attack], mine).status_code in (200, 201)


def test_nothing_of_the_other_side_was_touched(scene: Scene) -> None:
    kinds = (Workload, Quota, Membership, Tenant)
    before = [list(kind.objects.order_by("pk").values()) for kind in kinds]
    for attack, ask in ATTACKS.items():
        for foreign in names_of(scene.there, attack):
            asked(scene, ask, foreign)
    assert [list(kind.objects.order_by("pk").values()) for kind in kinds] == before


def test_a_token_for_a_foreign_tenant_is_refused_as_one_for_none(scene: Scene) -> None:
    told = []
    for slug in (scene.there.tenant.slug, "nowhere"):
        body = {"name": "wide", "scopes": [], "tenants": [slug]}
        answer = scene.api["member"].post("/api/v1/tokens", body, content_type="application/json")
        told.append((answer.status_code, str(answer.json()["errors"]).replace(slug, "it")))
    assert told[0] == told[1]
    assert "reference_not_found" in told[0][1]


def test_a_token_for_a_tenant_that_its_owner_left_opens_nothing_of_it(scene: Scene) -> None:
    client = scene.api["member"]
    body = {"name": "wide", "scopes": [], "tenants": [scene.there.tenant.slug]}
    with undone():
        joined = Membership.objects.create(tenant=scene.there.tenant, user=scene.here.owner, role="lead")
        made = client.post("/api/v1/tokens", body, content_type="application/json").json()
        joined.delete()
        headers = {"Authorization": f"Bearer {made['token']}"}
        lists = ("tenants", "workloads", "quotas", "offers", "departments", "allocations")
        seen = {name: client.get(f"/api/v1/{name}", headers=headers).json()["items"] for name in lists}
        assert seen == {name: [] for name in lists}
        assert client.get(f"/api/v1/workloads/{scene.there.own.pk}", headers=headers).status_code == 404


def test_a_token_cut_to_one_tenant_reaches_no_other_of_its_owner(scene: Scene) -> None:
    with undone():
        Membership.objects.create(tenant=scene.there.tenant, user=scene.here.owner, role="lead")
        client, body = scene.api["member"], {"name": "cut", "scopes": [], "tenants": [scene.here.tenant.slug]}
        made = client.post("/api/v1/tokens", body, content_type="application/json").json()
        headers = {"Authorization": f"Bearer {made['token']}"}
        path = f"/api/v1/workloads/{scene.there.own.pk}"
        assert client.get(path).status_code == 200
        assert client.get(path, headers=headers).status_code == 404
        assert (
            client.post(f"{path}/stop", {}, content_type="application/json", headers=headers).status_code
            == 404
        )


def test_a_token_makes_no_token_that_reaches_further(scene: Scene) -> None:
    before = ApiToken.objects.count()
    with undone():
        cut = {"name": "cut", "scopes": ["tokens:write"], "tenants": [scene.here.tenant.slug]}
        client = scene.api["member"]
        made = client.post("/api/v1/tokens", cut, content_type="application/json").json()
        headers = {"Authorization": f"Bearer {made['token']}"}
        for what, wider, code in (
            ("scopes", [], "not_allowed"),
            ("scopes", ["workloads:write"], "not_allowed"),
            ("tenants", [], "not_allowed"),
            ("tenants", ["genomics"], "validation_failed"),
        ):
            body = {**cut, what: wider}
            answer = client.post("/api/v1/tokens", body, content_type="application/json", headers=headers)
            assert answer.json()["code"] == code, wider
    assert ApiToken.objects.count() == before


def test_a_form_cannot_name_another_tenants_offer(scene: Scene) -> None:
    client, here = scene.pages["member"], scene.here
    url = f"/t/{here.tenant.slug}/workloads/"
    for offer in (scene.there.offer.slug, "nowhere"):
        with undone():
            assert client.post(url, {"kind": "notebook", "offer": offer}).status_code == 404
