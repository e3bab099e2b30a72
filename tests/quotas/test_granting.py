"""Grants through services, reconcile and REST, on the in-process sandbox."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.specs import ObjectRef
from apps.errors import Invalid, NotAllowed, OfferNotAllowed
from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.quotas.allowances.selectors import standing
from apps.quotas.allowances.services import granting
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts, set_quota
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Grant, TenantQueue
from apps.tenants.models import DepartmentManager
from apps.tenants.specs import TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import make_user
from tests.quotas.conftest import Story
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def nominal(story: Story, resource: str) -> str | None:
    """What Kueue's ClusterQueue of vision guarantees of it."""
    body = story.gateway.get(ObjectRef("ClusterQueue", "", story.vision.object_name))
    assert body is not None
    for flavor in body["spec"]["resourceGroups"][0]["flavors"]:
        for each in flavor["resources"]:
            if each["name"] == resource and each["nominalQuota"] != "0":
                return str(each["nominalQuota"])
    return None


@pytest.fixture
def queue(story: Story) -> TenantQueue:
    offer = story.offer("h100-whole")
    set_quota(actor=story.petra, tenant=story.vision, offer=offer, amounts=Amounts(1), now=timezone.now())
    return TenantQueue.objects.get(tenant=story.vision)


def give(story: Story, count: int = 1, *, begins: timedelta = -HOUR, lasts: timedelta = 3 * DAY) -> Grant:
    now = timezone.now()
    wish = GrantWish(count, now + begins + lasts, now + begins, "a deadline")
    return granting.give_grant(
        actor=story.petra, tenant=story.vision, offer=story.offer("h100-whole"), wish=wish, now=now
    )


def test_a_grant_is_in_the_cluster_queue_while_it_lasts(story: Story, queue: TenantQueue) -> None:
    grant = give(story)
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert nominal(story, "allotment.dev/h100-whole") == "2"
    granting.end_grant(actor=story.petra, grant=grant, now=timezone.now())
    reconcile_queue(queue.pk, gateway=story.gateway)
    assert nominal(story, "allotment.dev/h100-whole") == "1"


def test_the_queue_is_due_when_a_grant_begins_and_when_it_ends(story: Story, queue: TenantQueue) -> None:
    grant = give(story, begins=HOUR)
    reconcile_queue(queue.pk, gateway=story.gateway)
    queue.refresh_from_db()
    assert nominal(story, "allotment.dev/h100-whole") == "1"
    assert queue.due_at == grant.starts_at
    Grant.objects.filter(pk=grant.pk).update(starts_at=timezone.now() - HOUR)
    reconcile_queue(queue.pk, gateway=story.gateway)
    queue.refresh_from_db()
    assert nominal(story, "allotment.dev/h100-whole") == "2"
    assert queue.due_at == grant.ends_at


def test_a_grant_alone_makes_an_offer_the_tenants(story: Story) -> None:
    give(story, 2)
    assert standing.allowed_offer(story.vision, "h100-whole", now=timezone.now()).slug == "h100-whole"
    (bar,) = standing.quota_bars(story.petra, story.vision, now=timezone.now())
    assert (bar.guaranteed, bar.borrow_limit, bar.free) == (2, 0, 2)
    assert stock.promised(story.offer("h100-whole"), now=timezone.now()) == 2


def test_a_manager_gives_no_more_than_there_is_and_a_platform_engineer_may(story: Story) -> None:
    manager = make_user("mona")
    DepartmentManager.objects.create(department=story.vision.department, user=manager)
    now, offer = timezone.now(), story.offer("h100-whole")
    for count, actor in ((2, as_actor(manager)), (1, story.petra)):
        wish = GrantWish(count, now + DAY)
        granting.give_grant(actor=actor, tenant=story.vision, offer=offer, wish=wish, now=now)
    with pytest.raises(NotAllowed, match="4 H100 whole would be guaranteed, but there are only 2"):
        granting.give_grant(
            actor=as_actor(manager), tenant=story.vision, offer=offer, wish=GrantWish(1, now + DAY), now=now
        )


def test_a_manager_plans_no_more_than_there_is_at_any_moment_of_it(story: Story) -> None:
    manager = make_user("mona")
    DepartmentManager.objects.create(department=story.vision.department, user=manager)
    now, offer, actor = timezone.now(), story.offer("h100-whole"), as_actor(manager)

    def plan(begins: int, ends: int) -> None:
        wish = GrantWish(2, now + ends * DAY, now + begins * DAY)
        granting.give_grant(actor=actor, tenant=story.speech, offer=offer, wish=wish, now=now)

    plan(3, 5)
    plan(1, 3)
    for begins, ends in ((0, 2), (4, 6), (0, 7)):
        with pytest.raises(NotAllowed, match="4 H100 whole would be guaranteed, but there are only 2"):
            plan(begins, ends)
    plan(0, 1)
    plan(5, 6)
    with pytest.raises(NotAllowed):
        granting.require_stock(actor, story.vision, offer, 1, since=now + 6 * DAY - HOUR)
    granting.require_stock(actor, story.vision, offer, 2, since=now + 6 * DAY)


@pytest.mark.parametrize(
    "wish",
    [
        lambda now: GrantWish(0, now + DAY),
        lambda now: GrantWish(1, now - HOUR),
        lambda now: GrantWish(1, now + HOUR, now + 2 * HOUR),
        lambda now: GrantWish(1, now + 400 * DAY),
    ],
)
def test_a_senseless_grant_is_refused(cast: Cast, wish: Callable[[datetime], GrantWish]) -> None:
    now = timezone.now()
    with pytest.raises(Invalid):
        granting.give_grant(
            actor=as_actor(cast.petra),
            tenant=cast.vision,
            offer=cast.offer,
            wish=wish(now),
            now=now,
        )
    assert not Grant.objects.exists()


def test_no_grant_gets_past_the_trust_level(cast: Cast) -> None:
    cast.offer.min_trust_level = TrustLevel.TRUSTED
    cast.offer.save()
    now = timezone.now()
    with pytest.raises(OfferNotAllowed):
        granting.give_grant(
            actor=as_actor(cast.petra),
            tenant=cast.vision,
            offer=cast.offer,
            wish=GrantWish(1, now + DAY),
            now=now,
        )


def test_the_end_is_announced_once_and_a_day_before(cast: Cast) -> None:
    now = timezone.now()
    granting.give_grant(
        actor=as_actor(cast.petra),
        tenant=cast.vision,
        offer=cast.offer,
        wish=GrantWish(8, now + 3 * DAY),
        now=now,
    )
    told = Notice.objects.filter(kind=Kind.GRANT_ENDING)
    assert granting.warn_of_ends(now + 2 * DAY - HOUR) == 0
    assert granting.warn_of_ends(now + 2 * DAY) == 1
    assert granting.warn_of_ends(now + 2 * DAY + HOUR) == 0
    assert {each.user_id for each in told} == {cast.rosa.pk, cast.leon.pk}
    assert "loses 8 H100 1g.10gb" in told[0].message


def test_giving_and_ending_are_audited(cast: Cast) -> None:
    now, petra = timezone.now(), as_actor(cast.petra)
    wish = GrantWish(1, now + DAY)
    grant = granting.give_grant(actor=petra, tenant=cast.vision, offer=cast.offer, wish=wish, now=now)
    granting.end_grant(actor=petra, grant=grant, now=now)
    acts = AuditEvent.objects.filter(chain="tenant:vision").values_list("action", flat=True)
    assert list(acts) == ["grant.give", "grant.end"]


def test_grants_over_rest(cast: Cast) -> None:
    petra, leon, otto = (Rest(User.objects.get(username=name)) for name in ("platform", "lead", "outsider"))
    ends = (timezone.now() + DAY).isoformat()
    body = {"tenant": "vision", "spec": {"offer": cast.offer.slug, "count": 8, "ends_at": ends}}
    assert leon.send("POST", "/grants", body).json()["code"] == "not_allowed"
    rehearsed = petra.send("POST", "/grants?dry_run=true", body).json()
    assert rehearsed["result"]["status"]["phase"] == "Active"
    promised = rehearsed["effect"]["promised_before"]
    assert rehearsed["effect"]["promised"] == promised + 8
    assert not Grant.objects.exists()
    made = petra.send("POST", "/grants", body, key="friday")
    assert (made.status_code, made.json()["status"]["phase"]) == (201, "Active")
    assert petra.send("POST", "/grants", body, key="friday").json()["id"] == made.json()["id"]
    path = f"/grants/{made.json()['id']}"
    assert leon.get(path).json()["spec"]["count"] == 8
    assert leon.get("/quotas?tenant=vision").json()["items"][0]["spec"]["nominal_quota"] == 2
    assert otto.get(path).status_code == 404
    assert leon.send("POST", f"{path}/end").status_code == 403
    ending = petra.send("POST", f"{path}/end?dry_run=true").json()["effect"]
    assert (ending["promised_before"], ending["promised"]) == (promised + 8, promised)
    assert petra.send("POST", f"{path}/end").json()["status"]["phase"] == "Ended"
    assert petra.send("POST", f"{path}/end").json()["code"] == "wrong_phase"
    assert [each["id"] for each in leon.get("/grants?tenant=vision").json()["items"]] == [made.json()["id"]]


def test_the_same_end_twice_by_one_key_ends_once(cast: Cast) -> None:
    now, petra = timezone.now(), Rest(cast.petra)
    grant = granting.give_grant(
        actor=as_actor(cast.petra),
        tenant=cast.vision,
        offer=cast.offer,
        wish=GrantWish(1, now + DAY),
        now=now,
    )
    path = f"/grants/{grant.pk}/end"
    assert petra.send("POST", path, match='"7"').status_code == 412
    answers = [petra.send("POST", path, match='"1"', key="once") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert AuditEvent.objects.filter(action="grant.end").count() == 1
