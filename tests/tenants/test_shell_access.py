"""The policy "Shell access": off by default, set by platform engineers, shown to the team."""

import pytest

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.errors import NotAllowed
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Tenant
from apps.tenants.specs import Isolation
from portal import story
from tests.conftest import Cast, as_actor, client_of
from tests.factories import NOW, make_user
from tests.tenants.rest import Rest

CHANGE = "/console/tenants/vision/change/shell/"


def is_on(cast: Cast) -> bool:
    return Tenant.objects.get(pk=cast.vision.pk).has_shell


@pytest.fixture
def manager(cast: Cast) -> User:
    """Otto, who manages the department of vision."""
    research = cast.vision.department
    tenancy.set_managers(actor=as_actor(cast.petra), department=research, usernames=["outsider"], now=NOW)
    return cast.otto


@pytest.mark.both_databases
def test_a_platform_engineer_turns_it_on_and_the_record_keeps_it(cast: Cast) -> None:
    assert not is_on(cast)
    before = cast.vision.generation
    change = TenantChange(has_shell=True)
    for _ in range(2):
        row = tenancy.update_tenant(actor=as_actor(cast.petra), tenant=cast.vision, change=change, now=NOW)
    assert (row.has_shell, row.generation) == (True, before + 1)
    event = AuditEvent.objects.get(action="tenant.update")
    assert (event.changes, event.actor) == ({"has_shell": [False, True]}, "platform")


@pytest.mark.parametrize("who", ["manager", "lead"])
def test_nobody_else_turns_it_on_or_off(cast: Cast, manager: User, who: str) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=True)
    person = {"manager": manager, "lead": cast.leon}[who]
    for change in (TenantChange(has_shell=False), TenantChange(name="Eyes", has_shell=False)):
        with pytest.raises(NotAllowed, match="platform engineer"):
            tenancy.update_tenant(actor=as_actor(person), tenant=cast.vision, change=change, now=NOW)
    assert is_on(cast)


def test_what_does_not_name_it_leaves_it_as_it_is(cast: Cast, manager: User) -> None:
    """A manager goes on to rename and suspend a team that has it."""
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=True)
    patched = Rest(manager).send("PATCH", "/tenants/vision", {"spec": {"suspend": "hold"}}, match="*")
    assert (patched.status_code, patched.json()["spec"]["shell"]) == (200, True)


def test_rest_takes_and_shows_it(cast: Cast) -> None:
    petra, on = Rest(cast.petra), {"spec": {"shell": True}}
    rehearsed = petra.send("PATCH", "/tenants/vision?dry_run=true", on, match="*")
    assert (rehearsed.json()["result"]["spec"]["shell"], is_on(cast)) == (True, False)
    assert petra.send("PATCH", "/tenants/vision", on, match="*").json()["spec"]["shell"] is True
    got = petra.get("/tenants/vision")
    assert petra.send("PUT", "/tenants/vision", got.json(), match=got["ETag"])["ETag"] == got["ETag"]
    bare = petra.send("PUT", "/tenants/vision", {"spec": {"department": "research"}}, match="*")
    assert (bare.json()["spec"]["shell"], is_on(cast)) == (False, False)
    wrong = petra.send("PATCH", "/tenants/vision", {"spec": {"shell": "sometimes"}}, match="*")
    assert wrong.json()["errors"][0]["pointer"] == "#/spec/shell"
    body = {"slug": "robots", "spec": {"department": "research", "shell": True}}
    created = petra.send("POST", "/tenants", body)
    assert (created.status_code, created.json()["spec"]["shell"]) == (201, True)


def test_a_manager_makes_no_tenant_with_it(manager: User) -> None:
    body = {"slug": "robots", "spec": {"department": "research", "shell": True}}
    refused = Rest(manager).send("POST", "/tenants", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert not Tenant.objects.filter(slug="robots").exists()


@pytest.mark.parametrize(
    ("was", "typed", "effect"),
    [
        (
            False,
            "on",
            "running workloads by SSH or a terminal in the page, as their own account",
        ),
        (True, "off", "Open connections are cut within a second."),
    ],
)
def test_the_console_says_the_effect_before_it_changes_anything(
    cast: Cast, *, was: bool, typed: str, effect: str
) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=was)
    petra = client_of(cast.petra)
    assert f'action="{CHANGE}"' in petra.get("/console/tenants/vision/").content.decode()
    assert effect in petra.post(CHANGE, {"shell": typed}).content.decode()
    assert is_on(cast) is was
    assert petra.post(CHANGE, {"shell": "maybe"}).status_code == 422
    assert petra.post(CHANGE, {"shell": typed, "confirm": "yes"}).status_code == 303
    assert is_on(cast) is not was


def test_a_manager_sees_the_fact_and_no_way_to_change_it(manager: User) -> None:
    browser = client_of(manager)
    page = browser.get("/console/tenants/vision/").content.decode()
    assert "<dt>Shell access</dt><dd>off" in page
    assert CHANGE not in page
    assert browser.post(CHANGE, {"shell": "on"}).status_code == 403


def test_the_demo_turns_it_on_for_its_first_team_alone(cluster: Cluster) -> None:
    for name in ("researcher", "lead"):
        make_user(name)
    story.tell(cluster, NOW)
    teams = Tenant.objects.filter(has_shell=True).values_list("slug", flat=True)
    assert list(teams) == [story.TEAMS[0].slug]


def test_beside_a_virtual_cluster_that_nothing_fences_the_pages_say_that_nobody_has_one(cast: Cast) -> None:
    Tenant.objects.filter(pk=cast.vision.pk).update(isolation=Isolation.VCLUSTER)
    lacks = "North does not enforce what keeps people out of the control plane of Vision."
    assert lacks in client_of(cast.petra).post(CHANGE, {"shell": "on"}).content.decode()
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=True)
    page = client_of(cast.rosa).get("/t/vision/isolation/").content.decode()
    assert f"Nobody has a shell in a workload: {lacks}" in page


def test_the_team_sees_it_among_the_facts_of_its_isolation(cast: Cast) -> None:
    rosa = client_of(cast.rosa)
    assert "<dt>Shell access</dt><dd>off" in rosa.get("/t/vision/isolation/").content.decode()
    Tenant.objects.filter(pk=cast.vision.pk).update(has_shell=True)
    assert "<dt>Shell access</dt><dd>on" in rosa.get("/t/vision/isolation/").content.decode()
