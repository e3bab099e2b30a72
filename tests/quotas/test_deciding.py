"""Quota requests: asked by leads, decided by others, told to everybody concerned."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts import people
from apps.accounts.models import User
from apps.accounts.services import TokenWish
from apps.audit.models import AuditEvent
from apps.errors import NotAllowed
from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.quotas.allowances.services import granting
from apps.quotas.models import Grant, Quota, QuotaRequest
from apps.quotas.requests.services import deciding
from apps.tenants.models import DepartmentManager, Tenant
from apps.tenants.people.services import service_accounts
from apps.tenants.people.services.service_accounts import AccountWish
from apps.tenants.specs import Role
from tests.conftest import Cast, as_actor
from tests.factories import join, make_user
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases

DAY = timedelta(days=1)


@pytest.fixture
def leon(cast: Cast) -> Rest:
    return Rest(cast.leon)


@pytest.fixture
def petra(cast: Cast) -> Rest:
    return Rest(cast.petra)


@pytest.fixture
def mona(cast: Cast) -> Rest:
    """The manager of research."""
    manager = make_user("mona")
    DepartmentManager.objects.create(department=cast.vision.department, user=manager)
    return Rest(manager)


def asked(cast: Cast, rest: Rest, **spec: Any) -> Any:
    body = {"tenant": "vision", "spec": {"offer": cast.offer.slug, "count": 2, "reason": "a paper", **spec}}
    return rest.send("POST", "/quota-requests", body)


def messages(user: User, kind: Kind) -> list[str]:
    return [notice.message for notice in Notice.objects.filter(user=user, kind=kind)]


def test_a_lead_asks_and_those_who_decide_are_told(cast: Cast, mona: Rest, leon: Rest) -> None:
    made = asked(cast, leon)
    assert made.status_code == 201
    status = made.json()["status"]
    assert (status["phase"], status["age_seconds"], status["history"][0]["what"]) == ("Open", 0, "asked")
    assert status["effect"]["promised_after"] == status["effect"]["promised_before"] + 2
    for name in ("mona", "platform"):
        (message,) = messages(User.objects.get(username=name), Kind.QUOTA_ASKED)
        assert message == "lead asks for 2 more H100 1g.10gb guaranteed for vision: a paper"
    assert not messages(cast.leon, Kind.QUOTA_ASKED)


def test_an_approved_request_without_an_end_changes_the_quota(cast: Cast, leon: Rest, petra: Rest) -> None:
    path = f"/quota-requests/{asked(cast, leon).json()['id']}"
    decided = petra.send("POST", f"{path}/approve", {"reason": "well argued"}).json()["status"]
    assert (decided["phase"], decided["given"], decided["decided_by"]) == ("Approved", 2, "platform")
    assert decided["effect"] is None
    assert Quota.objects.get(tenant=cast.vision).nominal_quota == 4
    assert messages(cast.leon, Kind.QUOTA_DECIDED) == [
        "platform approved 2 more H100 1g.10gb guaranteed for vision: well argued"
    ]
    assert petra.send("POST", f"{path}/approve", {}).json()["code"] == "wrong_phase"


def test_an_approved_request_with_a_duration_becomes_a_grant(cast: Cast, leon: Rest, petra: Rest) -> None:
    path = f"/quota-requests/{asked(cast, leon, duration_seconds=3 * 86400).json()['id']}"
    decided = petra.send("POST", f"{path}/approve", {"count": 1}).json()["status"]
    grant = Grant.objects.get()
    assert (decided["grant"], decided["given"], grant.count) == (str(grant.pk), 1, 1)
    assert grant.ends_at - grant.starts_at == 3 * DAY
    assert Quota.objects.get(tenant=cast.vision).nominal_quota == 2


def test_borrowing_is_asked_for_too(cast: Cast, leon: Rest, petra: Rest) -> None:
    assert asked(cast, leon, kind="borrow", duration_seconds=7200).status_code == 422
    path = f"/quota-requests/{asked(cast, leon, kind='borrow').json()['id']}"
    assert petra.send("POST", f"{path}/approve", {}).status_code == 200
    quota = Quota.objects.get(tenant=cast.vision)
    assert (quota.nominal_quota, quota.borrowing_limit) == (2, 4)


def test_nobody_decides_on_ones_own_request(cast: Cast, petra: Rest) -> None:
    path = f"/quota-requests/{asked(cast, petra).json()['id']}"
    for act in ("approve", "decline"):
        refused = petra.send("POST", f"{path}/{act}", {"reason": "mine"})
        assert (refused.status_code, refused.json()["code"]) == (403, "own_request")
    assert QuotaRequest.objects.get().status == "open"


def test_neither_a_service_account_nor_the_hand_behind_one_decides(
    cast: Cast, mona: Rest, petra: Rest
) -> None:
    now, manager = timezone.now(), User.objects.get(username="mona")
    wish = AccountWish(cast.vision, "asker", "", "lead")
    robot = service_accounts.create_account(actor=as_actor(manager), wish=wish, now=now)
    token = TokenWish("t", [], [], now + DAY)
    service_accounts.create_token(actor=as_actor(manager), account=robot, wish=token, now=now)
    asking = QuotaRequest(
        tenant=cast.vision, offer=cast.offer, kind="borrow", count=1, asked_by=robot.user, created_at=now
    )
    asking.save()
    refused = mona.send("POST", f"/quota-requests/{asking.pk}/approve", {})
    assert (refused.status_code, refused.json()["code"]) == (403, "own_request")
    wide = AccountWish(None, "decider", "", "platform")
    decider = service_accounts.create_account(actor=as_actor(cast.petra), wish=wide, now=now)
    with pytest.raises(NotAllowed, match="only people approve"):
        deciding.approve(actor=as_actor(decider.user), request=asking, count=1, reason="", now=now)
    assert petra.send("POST", f"/quota-requests/{asking.pk}/approve", {}).status_code == 200
    kept = AuditEvent.objects.get(action="quota_request.approve")
    assert (kept.actor, kept.changes["asked_by"][0]) == ("platform", robot.user.username)


def test_an_engineer_decides_for_whom_he_invited(cast: Cast, petra: Rest) -> None:
    now, actor = timezone.now(), as_actor(cast.petra)
    kim, _ = people.invite(actor=actor, wish=people.PersonWish("kim"), now=now)
    join(cast.vision, kim, Role.LEAD)
    path = f"/quota-requests/{asked(cast, Rest(kim), kind='borrow').json()['id']}"
    assert petra.send("POST", f"{path}/approve", {}).status_code == 200


def test_a_manager_decides_within_what_there_is(cast: Cast, leon: Rest, mona: Rest) -> None:
    path = f"/quota-requests/{asked(cast, leon).json()['id']}"
    refused = mona.send("POST", f"{path}/approve", {})
    assert refused.json()["detail"] == "7 H100 1g.10gb would be guaranteed, but there are only 0."
    borrow = f"/quota-requests/{asked(cast, leon, kind='borrow').json()['id']}"
    assert mona.send("POST", f"{borrow}/approve", {}).json()["status"]["decided_by"] == "mona"
    assert Quota.objects.get(tenant=cast.vision).borrowing_limit == 4
    acts = dict(AuditEvent.objects.filter(chain="tenant:vision").values_list("action", "actor"))
    assert acts["quota_request.approve"] == "mona"


def test_a_refusal_needs_a_reason_which_the_asker_reads(cast: Cast, leon: Rest, petra: Rest) -> None:
    path = f"/quota-requests/{asked(cast, leon).json()['id']}"
    assert petra.send("POST", f"{path}/decline", {}).json()["errors"][0]["pointer"] == "#/reason"
    assert (
        petra.send("POST", f"{path}/decline", {"reason": "yours idle"}).json()["status"]["phase"]
        == "Declined"
    )
    assert messages(cast.leon, Kind.QUOTA_DECIDED)[0].endswith(": yours idle")
    assert Quota.objects.get(tenant=cast.vision).nominal_quota == 2


def test_who_may_what(cast: Cast, leon: Rest) -> None:
    rosa, otto = Rest(cast.rosa), Rest(cast.otto)
    assert asked(cast, rosa).json()["code"] == "not_allowed"
    assert asked(cast, otto).json()["errors"][0]["code"] == "reference_not_found"
    path = f"/quota-requests/{asked(cast, leon).json()['id']}"
    assert rosa.get(path).status_code == 200
    assert otto.get(path).status_code == 404
    for act in ("approve", "decline"):
        assert leon.send("POST", f"{path}/{act}", {"reason": "x"}).status_code == 403
    assert rosa.send("POST", f"{path}/withdraw", {}).status_code == 403
    assert leon.send("POST", f"{path}/withdraw", {}).json()["status"]["phase"] == "Withdrawn"
    assert leon.get("/quota-requests?phase=Open").json()["items"] == []


def test_what_is_said_is_kept_and_told_to_the_other_side(cast: Cast, leon: Rest, petra: Rest) -> None:
    path = f"/quota-requests/{asked(cast, leon).json()['id']}"
    petra.send("POST", f"{path}/comment", {"text": "Until when?"})
    history = leon.send("POST", f"{path}/comment", {"text": "Friday."}).json()["status"]["history"]
    assert [(each["author"], each["what"]) for each in history] == [
        ("lead", "asked"), ("platform", "said"), ("lead", "said"),
    ]  # fmt: skip
    assert messages(cast.leon, Kind.QUOTA_SAID)[0].endswith(": Until when?")
    (answer,) = Notice.objects.filter(user=cast.petra, kind=Kind.QUOTA_SAID)
    assert answer.url.startswith("/console/requests/")
    assert petra.send("POST", f"{path}/comment", {"text": ""}).status_code == 422


def test_an_old_request_reminds_every_two_days(cast: Cast, leon: Rest) -> None:
    asked(cast, leon)
    now = timezone.now()
    told = [deciding.remind(now + days * DAY) for days in (1, 2.1, 3, 4.2)]
    assert told == [0, 1, 0, 1]
    assert len(messages(cast.petra, Kind.QUOTA_ASKED)) == 3


@pytest.mark.parametrize("gone", [("deleting_at",), ("deleting_at", "deleted_at")], ids=["going", "gone"])
def test_nobody_is_reminded_of_a_deleted_team(cast: Cast, leon: Rest, gone: tuple[str, ...]) -> None:
    asked(cast, leon)
    now = timezone.now()
    Grant.objects.create(
        tenant=cast.vision, offer=cast.offer, count=1, starts_at=now - DAY, ends_at=now + 3.5 * DAY
    )
    Tenant.objects.filter(pk=cast.vision.pk).update(**dict.fromkeys(gone, now))
    later = now + 3 * DAY
    assert (deciding.remind(later), granting.warn_of_ends(later)) == (0, 0)


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"count": 0}, "#/spec/count"),
        ({"reason": ""}, "#/spec/reason"),
        ({"duration_seconds": 60}, "#/spec/duration_seconds"),
        ({"offer": "nowhere"}, "#/spec/offer"),
        ({"kind": "lend"}, "#/spec/kind"),
    ],
)
def test_a_wrong_field_is_named(cast: Cast, leon: Rest, spec: dict[str, Any], pointer: str) -> None:
    refused = asked(cast, leon, **spec)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
