"""A team's quota page, its requests, the console's requests and one's messages, as people use them."""

import csv
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from apps.notices.models import Notice
from apps.quotas.allowances.services import granting
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.services import budgeting
from apps.quotas.budgets.services.budgeting import SpendSoFar
from apps.quotas.models import Grant, Quota, QuotaRequest, TenantQueue
from apps.quotas.specs import BudgetUnit
from apps.tenants.models import DepartmentManager
from tests.conftest import SignedIn, as_actor
from tests.factories import make_user
from tests.pages.conftest import Scene

QUOTA = "/t/vision/quota/"


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def ask(scene: Scene, signed_in: SignedIn, **typed: Any) -> Any:
    asked = {"offer": scene.cast.offer.slug, "kind": "guaranteed", "count": 2, "reason": "a paper", **typed}
    return signed_in(scene.cast.leon).post(QUOTA, asked)


def test_a_lead_asks_and_a_platform_engineer_approves_for_a_while(scene: Scene, signed_in: SignedIn) -> None:
    made = ask(scene, signed_in, hours=72)
    row = QuotaRequest.objects.get()
    assert (made.status_code, made["Location"]) == (303, f"{QUOTA}requests/{row.pk}/")
    petra = signed_in(scene.cast.petra)
    assert "1 waits for a decision" in text(petra.get("/console/requests/"))
    shown = text(petra.get(f"/console/requests/{row.pk}/"))
    assert "would be guaranteed" in shown
    assert "2 more H100 1g.10gb guaranteed for vision, for 3 days" in shown
    decided = petra.post(f"/console/requests/{row.pk}/", {"decision": "approve", "count": 1, "reason": "ok"})
    assert decided.status_code == 303
    assert Grant.objects.get().count == 1
    page = text(signed_in(scene.cast.rosa).get(QUOTA))
    assert "1 more H100 1g.10gb" in page
    assert "Approved" in page


def test_a_refusal_without_a_reason_comes_back_with_the_words(scene: Scene, signed_in: SignedIn) -> None:
    ask(scene, signed_in)
    url = f"/console/requests/{QuotaRequest.objects.get().pk}/"
    refused = signed_in(scene.cast.petra).post(url, {"decision": "decline"})
    assert refused.status_code == 422
    assert "Say why: the team reads it." in text(refused)
    assert QuotaRequest.objects.get().status == "open"


def test_a_member_sees_and_does_not_ask(scene: Scene, signed_in: SignedIn) -> None:
    rosa = signed_in(scene.cast.rosa)
    assert "A lead of Vision asks for more" in text(rosa.get(QUOTA))
    refused = rosa.post(
        QUOTA, {"offer": scene.cast.offer.slug, "kind": "guaranteed", "count": 1, "reason": "x"}
    )
    assert refused.status_code == 403
    assert signed_in(scene.cast.otto).get(QUOTA).status_code == 404


def test_the_bars_have_their_table_and_their_file_wherever_they_stand(
    scene: Scene, signed_in: SignedIn
) -> None:
    rosa = signed_in(scene.cast.rosa)
    for page in ("/", "/t/vision/", QUOTA):
        shown = rosa.get(page).content.decode()
        assert f'href="{QUOTA}quota.csv"' in shown
        assert "Show quota as table" in shown
    file = rosa.get(f"{QUOTA}quota.csv")
    assert file["Content-Disposition"] == 'attachment; filename="vision-quota.csv"'
    head, line = csv.reader(file.content.decode().splitlines())
    row = dict(zip(head, line, strict=True))
    quota = Quota.objects.get(tenant=scene.cast.vision)
    assert (row["offer"], row["guaranteed"]) == (scene.cast.offer.slug, str(quota.nominal_quota))
    assert (row["used"], row["waiting"], row["borrowed"]) == ("1", "1", "0")
    assert signed_in(scene.cast.otto).get(f"{QUOTA}quota.csv").status_code == 404


def test_a_manager_has_the_console_of_requests(scene: Scene, signed_in: SignedIn) -> None:
    ask(scene, signed_in)
    manager = make_user("mona")
    DepartmentManager.objects.create(department=scene.cast.vision.department, user=manager)
    assert "1 waits for a decision" in text(signed_in(manager).get("/console/requests/"))
    assert signed_in(scene.cast.leon).get("/console/requests/").status_code == 404


def test_what_is_said_and_withdrawn_is_in_the_history(scene: Scene, signed_in: SignedIn) -> None:
    ask(scene, signed_in)
    row = QuotaRequest.objects.get()
    url = f"{QUOTA}requests/{row.pk}/"
    assert signed_in(scene.cast.petra).post(url, {"text": "Until when?"}).status_code == 303
    leon = signed_in(scene.cast.leon)
    assert "Until when?" in text(leon.get(url))
    assert leon.post(f"{url}withdraw/").status_code == 303
    assert "Withdrawn" in text(leon.get(url))
    assert signed_in(scene.cast.rosa).post(url, {"text": "mine"}).status_code == 403


def test_budget_and_hold_are_told_in_figures(scene: Scene, signed_in: SignedIn) -> None:
    now, petra, vision = timezone.now(), as_actor(scene.cast.petra), scene.cast.vision
    TenantQueue.objects.create(tenant=vision, cluster=vision.cluster)
    limits = Limits(BudgetUnit.MONEY, Decimal(800), Decimal(900))
    budgeting.set_budget(actor=petra, owner=vision, limits=limits, now=now)
    spend = SpendSoFar(budget.month_of(now), Decimal("900.50"), Decimal(1))
    budgeting.record_spend({vision: spend}, now=now)
    page = text(signed_in(scene.cast.rosa).get(QUOTA))
    assert "900.50 EUR of 900.00 EUR; warns at 800.00 EUR" in page
    assert "New work waits." in page
    assert "or once a manager of the department or a platform engineer raises it" in page


def test_messages_are_counted_in_the_header_and_read(scene: Scene, signed_in: SignedIn) -> None:
    now = timezone.now()
    wish = GrantWish(1, now + timedelta(days=1))
    granting.give_grant(
        actor=as_actor(scene.cast.petra), tenant=scene.cast.vision, offer=scene.cast.offer, wish=wish, now=now
    )
    rosa = signed_in(scene.cast.rosa)
    assert '<span class="count">1</span>' in text(rosa.get("/"))
    assert "vision has 1 more H100 1g.10gb until" in text(rosa.get("/notices/"))
    assert rosa.post("/notices/").status_code == 303
    assert "All read." in text(rosa.get("/notices/"))
    assert Notice.objects.filter(user=scene.cast.leon, read_at=None).count() == 1


@pytest.mark.parametrize("part", ["hold", "quota", "grants", "budget", "rows"])
def test_every_part_of_the_quota_page_refreshes_alone(scene: Scene, signed_in: SignedIn, part: str) -> None:
    answer = signed_in(scene.cast.rosa).get(f"{QUOTA}?part={part}", headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert f'id="{part}"' in text(answer)
    assert "<html" not in text(answer)


def test_who_decides_gives_holds_and_sets_the_budget_on_pages(scene: Scene, signed_in: SignedIn) -> None:
    petra, change = signed_in(scene.cast.petra), f"{QUOTA}change"
    until = (timezone.now() + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    typed = {"offer": scene.cast.offer.slug, "count": 8, "ends_at": until, "reason": "Friday"}
    shown = text(petra.post(f"{change}/grant/", typed))
    promised = sum(quota.nominal_quota for quota in Quota.objects.all())
    assert f"{promised + 8} of 9 devices are promised ({promised} before)" in shown
    assert not Grant.objects.exists(), "shown, not given"
    assert petra.post(f"{change}/grant/", typed | {"confirm": "yes"}).status_code == 303
    assert petra.post(f"{change}/budget/", {"unit": "money", "soft": "80", "hard": "90"}).status_code == 303
    assert petra.post(f"{change}/hold/", {"reason": "power works"}).status_code == 303
    page = text(petra.get(QUOTA))
    assert "8 more H100 1g.10gb" in page
    assert "0.00 EUR of 90.00 EUR" in page
    assert "power works. A manager of the department or a platform engineer releases it." in page
    assert petra.post(f"{change}/release/", {"reason": "over"}).status_code == 303
    ending = f"{QUOTA}grants/{Grant.objects.get().pk}/end/"
    assert f"{promised} of 9 devices are promised ({promised + 8} before)" in text(petra.post(ending))
    assert "8 more H100 1g.10gb" in text(petra.get(QUOTA)), "shown, not ended"
    assert petra.post(ending, {"confirm": "yes"}).status_code == 303
    assert petra.post(f"{change}/budget/", {"unit": "money"}).status_code == 303
    after = text(petra.get(QUOTA))
    assert "No grant runs or is to come" in after
    assert "No budget yet: there is no warning" in after
    assert "New work waits" not in after


def test_a_refused_budget_comes_back_with_the_words(scene: Scene, signed_in: SignedIn) -> None:
    refused = signed_in(scene.cast.petra).post(
        f"{QUOTA}change/budget/", {"unit": "money", "soft": "9", "hard": "8"}
    )
    assert refused.status_code == 422
    assert "The soft limit cannot be above the hard one" in text(refused)
    assert signed_in(scene.cast.leon).get(f"{QUOTA}change/budget/").status_code == 403
