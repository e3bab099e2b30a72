"""A manager moves guarantee between two tenants of a department: its sum stays, the effect is shown first."""

import html
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.errors import NotAllowed
from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.quotas.allowances.selectors import effect
from apps.quotas.allowances.selectors.effect import Effect, Moved
from apps.quotas.allowances.services import moving
from apps.quotas.allowances.services.moving import Move
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Offer, Quota, TenantQueue
from apps.tenants.models import DepartmentManager, Tenant
from apps.tenants.specs import Role, TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import join, make_tenant, make_user
from tests.quotas.conftest import Story
from tests.quotas.effects import give, shared, work
from tests.tenants.rest import Rest

__all__ = ["shared"]
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
WHOLE = "h100-whole"


@pytest.fixture
def mona(cast: Cast) -> Rest:
    """The manager of research, where vision and speech are guaranteed 2 each."""
    manager = make_user("mona")
    DepartmentManager.objects.create(department=cast.vision.department, user=manager)
    return Rest(manager)


def guaranteed(*tenants: Tenant) -> list[int]:
    return [Quota.objects.get(tenant=tenant).nominal_quota for tenant in tenants]


def quota_of(tenant: Tenant) -> str:
    return str(Quota.objects.get(tenant=tenant).pk)


def asked(rest: Rest, cast: Cast, to: str = "speech", count: int = 1, dry: str = "", **how: Any) -> Any:
    body = {"to": to, "count": count, "reason": "a deadline"}
    return rest.send("POST", f"/quotas/{quota_of(cast.vision)}/move{dry}", body, **how)


def test_a_manager_moves_and_the_sum_stays(cast: Cast, mona: Rest) -> None:
    Quota.objects.filter(tenant=cast.vision).update(lending_limit=2)
    answer = asked(mona, cast)
    assert answer.status_code == 200, answer.content
    spec = answer.json()["spec"]
    assert (answer.json()["tenant"], spec["nominal_quota"], spec["lending_limit"]) == ("vision", 1, 1)
    assert spec["borrowing_limit"] == 2, "what it may borrow stays"
    assert guaranteed(cast.vision, cast.speech) == [1, 3]
    kept = AuditEvent.objects.filter(action="quota.move").order_by("chain")
    assert [(e.actor, e.target_name, e.reason) for e in kept] == [
        ("mona", f"speech/{cast.offer.slug}", "a deadline"),
        ("mona", f"vision/{cast.offer.slug}", "a deadline"),
    ]
    assert kept[0].changes == {"tenant": ["vision", "speech"], "count": [None, 1]}


def test_the_leads_of_both_teams_are_told_what_they_had_and_have(cast: Cast, mona: Rest) -> None:
    ida = make_user("ida")
    join(cast.speech, ida, Role.LEAD)
    assert asked(mona, cast, dry="?dry_run=true").status_code == 200
    assert not Notice.objects.exists(), "a rehearsal tells nobody"
    assert asked(mona, cast).status_code == 200
    moved = f"mona moved 1 {cast.offer.name} guaranteed from vision to speech: a deadline."
    told = Notice.objects.order_by("tenant").values_list("user__username", "kind", "tenant", "message", "url")
    assert list(told) == [
        ("ida", Kind.QUOTA_MOVED, "speech",
         f"{moved} speech is guaranteed 3 now, 2 before.", "/t/speech/quota/"),
        (cast.leon.username, Kind.QUOTA_MOVED, "vision",
         f"{moved} vision is guaranteed 1 now, 2 before.", "/t/vision/quota/"),
    ]  # fmt: skip


def test_who_moves_is_not_told_of_it(cast: Cast, mona: Rest) -> None:
    join(cast.speech, User.objects.get(username="mona"), Role.LEAD)
    assert asked(mona, cast).status_code == 200
    assert [each.user for each in Notice.objects.all()] == [cast.leon]


def test_a_team_to_which_an_offer_was_closed_gives_what_it_has_of_it(cast: Cast, mona: Rest) -> None:
    Offer.objects.filter(pk=cast.offer.pk).update(min_trust_level=TrustLevel.STANDARD)
    Tenant.objects.filter(pk=cast.vision.pk).update(trust_level=TrustLevel.UNTRUSTED)
    assert asked(mona, cast).status_code == 200
    assert guaranteed(cast.vision, cast.speech) == [1, 3]
    path, petra = f"/quotas/{quota_of(cast.vision)}", Rest(cast.petra)
    answers = [
        petra.send("PATCH", path, {"spec": change}, match="*").json().get("code")
        for change in ({"nominal_quota": 0}, {"nominal_quota": 1}, {"borrowing_limit": None})
    ]
    assert answers == [None, "offer_not_allowed", "offer_not_allowed"]


def test_a_neighbour_without_quota_gets_its_first(cast: Cast, mona: Rest) -> None:
    audio = make_tenant(cast.vision.department, "audio")
    assert asked(mona, cast, to="audio", count=2).status_code == 200
    assert guaranteed(cast.vision, audio) == [0, 2]
    assert Quota.objects.get(tenant=audio).borrowing_limit == 0
    assert TenantQueue.objects.filter(tenant=audio).exists(), "its queue is made"


@pytest.mark.parametrize(
    ("to", "count", "pointer"),
    [("vision", 1, "#/to"), ("genomics", 1, "#/to"), ("nobody", 1, "#/to"), ("speech", 3, "#/count")],
)
def test_what_would_change_the_departments_sum_is_refused(
    cast: Cast, mona: Rest, to: str, count: int, pointer: str
) -> None:
    answer = asked(mona, cast, to=to, count=count)
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
    assert guaranteed(cast.vision, cast.speech, cast.genomics) == [2, 2, 1]


def test_between_departments_not_even_a_platform_engineer_moves(cast: Cast) -> None:
    assert asked(Rest(cast.petra), cast, to="genomics").status_code == 422
    assert asked(Rest(cast.petra), cast).status_code == 200


def test_a_lead_and_an_auditor_move_nothing(cast: Cast) -> None:
    assert [asked(Rest(user), cast).status_code for user in (cast.leon, cast.ann)] == [403, 403]
    assert asked(Rest(cast.otto), cast).status_code == 404
    assert guaranteed(cast.vision, cast.speech) == [2, 2]


def test_who_manages_one_side_alone_moves_neither_from_nor_to_the_other(cast: Cast, mona: Rest) -> None:
    there = mona.send("POST", f"/quotas/{quota_of(cast.genomics)}/move", {"to": "vision", "count": 1})
    assert there.status_code == 404
    manager = as_actor(User.objects.get(username="mona"))
    for giver, taker in ((cast.vision, cast.genomics), (cast.genomics, cast.vision)):
        move = Move(giver, taker, cast.offer, 1)
        with pytest.raises(NotAllowed):
            moving.move_quota(actor=manager, move=move, now=timezone.now())
    assert guaranteed(cast.vision, cast.genomics) == [2, 1]


def test_a_stale_etag_moves_nothing(cast: Cast, mona: Rest) -> None:
    assert asked(mona, cast, match='"7"').status_code == 412
    assert asked(mona, cast, match='"1"').status_code == 200


def test_a_rehearsal_tells_who_starts_and_keeps_nothing(shared: Story) -> None:
    give(shared, shared.vision, Amounts(0, 0))
    reconcile_queue(shared.vision.queue.pk, gateway=shared.gateway)
    work(shared, shared.vision, "sweep")
    manager = make_user("mona")
    DepartmentManager.objects.create(department=shared.vision.department, user=manager)
    rest, events = Rest(manager), AuditEvent.objects.count()
    address = f"/quotas/{quota_of(shared.speech)}/move?dry_run=true"
    told = rest.send("POST", address, {"to": "vision", "count": 1}).json()
    assert (told["effect"]["promised_before"], told["effect"]["promised"]) == (2, 2)
    assert [(each["tenant"], each["name"]) for each in told["effect"]["starts"]] == [("vision", "job-sweep")]
    assert told["result"]["spec"]["nominal_quota"] == 1
    assert guaranteed(shared.speech, shared.vision) == [2, 0]
    assert AuditEvent.objects.count() == events


def test_the_page_shows_the_effect_and_moves_once_it_is_confirmed(shared: Story) -> None:
    give(shared, shared.vision, Amounts(0, 0))
    reconcile_queue(shared.vision.queue.pk, gateway=shared.gateway)
    work(shared, shared.vision, "sweep")
    manager, client = make_user("mona"), Client()
    DepartmentManager.objects.create(department=shared.vision.department, user=manager)
    client.force_login(manager)
    address = "/t/speech/quota/move/"
    assert f'href="{address}"' in client.get("/t/speech/quota/").content.decode()
    typed = {"offer": WHOLE, "to": "vision", "count": 1, "reason": "a deadline"}
    shown = html.unescape(client.post(address, typed).content.decode())
    assert "1 waiting workload starts" in shown
    assert "job-sweep" in shown
    assert "Move 1" in shown
    assert guaranteed(shared.speech, shared.vision) == [2, 0]
    done = client.post(address, typed | {"confirm": "yes"})
    assert (done.status_code, done["Location"]) == (303, "/t/speech/quota/")
    assert guaranteed(shared.speech, shared.vision) == [1, 1]


def test_who_has_no_neighbour_is_told_so(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.petra)
    page = client.get("/t/genomics/quota/move/").content.decode()
    assert "is alone in Bio: there is nothing to move" in page
    assert '<form method="post" class="column">' not in page


def test_the_work_of_other_departments_is_counted_and_never_named() -> None:
    lost = Moved("genomics", "secret", 2, "H100", to="vision", uid="u")
    near = Moved("speech", "thesis", 1, "H100", to="vision", uid="u")
    won = Moved("vision", "sweep", 1, "H100", to="genomics")
    told = effect.masked(
        Effect(owned=4, promised_before=4, promised=4, starts=(won,), loses=(lost, near)),
        {"vision"},
        {"vision", "speech"},
    )
    assert told.loses == (
        Moved("another department", "a workload", 2, "H100", to="vision"),
        Moved("speech", "a workload", 1, "H100", to="vision"),
    )
    assert told.starts == (Moved("vision", "sweep", 1, "H100", to="another department"),)


@pytest.mark.parametrize("match", ["", '"1"'], ids=["as it is", "as it was read"])
def test_the_same_move_twice_by_one_key_moves_once(cast: Cast, mona: Rest, match: str) -> None:
    answers = [asked(mona, cast, match=match, key="once") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert guaranteed(cast.vision, cast.speech) == [1, 3]
