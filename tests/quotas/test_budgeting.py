"""Budgets by services and REST: marks are told once, a reached hard limit holds, a raised one lets go."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.cluster.specs import ObjectRef
from apps.notices.models import Notice
from apps.notices.specs import Kind
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.allowances.services import weighing
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import grant_everything
from apps.quotas.allowances.services.weighing import DepartmentShare
from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.services import budgeting, holding
from apps.quotas.budgets.services.budgeting import SpendSoFar
from apps.quotas.models import Budget, TenantQueue
from apps.quotas.specs import BudgetUnit, HoldReason
from apps.tenants.models import DepartmentManager, Tenant
from apps.tenants.specs import QUEUE_NAME
from tests.conftest import Cast, as_actor, generation
from tests.factories import make_user, notebook_body
from tests.quotas.conftest import Story
from tests.tenants.rest import Rest

pytestmark = pytest.mark.both_databases

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def money(soft: int | None, hard: int | None) -> Limits:
    return Limits(BudgetUnit.MONEY, *(None if each is None else Decimal(each) for each in (soft, hard)))


def give(cast: Cast, soft: int | None, hard: int | None) -> Budget:
    return budgeting.set_budget(
        actor=as_actor(cast.petra), owner=cast.vision, limits=money(soft, hard), now=NOW
    )


def spend(tenant: Tenant, amount: int | str, *, hours: int = 0, now: datetime = NOW) -> None:
    so_far = SpendSoFar(budget.month_of(now), Decimal(amount), Decimal(hours))
    budgeting.record_spend({tenant: so_far}, now=now)


def queue(tenant: Tenant) -> TenantQueue:
    return TenantQueue.objects.get_or_create(tenant=tenant, defaults={"cluster": tenant.cluster})[0]


def told(kind: Kind) -> list[str]:
    return [n.message for n in Notice.objects.filter(kind=kind).order_by("created_at", "pk")]


def test_each_mark_is_told_once_a_month(cast: Cast) -> None:
    give(cast, 100, 200)
    for minute, amount in enumerate((10, 50, 60, 79, 85, 85, 100, 130)):
        spend(cast.vision, amount, now=NOW + timedelta(minutes=minute))
    messages = told(Kind.BUDGET_SOFT)
    assert [message.split(" %")[0].split()[-1] for message in messages] == ["50", "80", "100"]
    assert messages[1] == (
        "vision has spent 80 % of its soft limit for November: 85.00 EUR of 100.00 EUR. "
        "At 200.00 EUR new work is held."
    )
    assert {n.user_id for n in Notice.objects.all()} == {cast.leon.pk}
    spend(cast.vision, 55, now=NOW + timedelta(days=20))
    assert len(told(Kind.BUDGET_SOFT)) == 4


def test_a_reached_hard_limit_holds_and_a_raised_one_lets_go(cast: Cast) -> None:
    queue(cast.vision)
    give(cast, None, 900)
    spend(cast.vision, "899.99")
    assert queue(cast.vision).hold_reason == HoldReason.NONE
    spend(cast.vision, "900.01")
    held = queue(cast.vision)
    assert (held.hold_reason, held.generation) == (HoldReason.BUDGET, 2)
    assert "once a manager of the department or a platform engineer raises it" in held.hold_detail
    assert entitlements.queue_spec(held, namespace_is_there=True, now=NOW).held
    assert {n.user_id for n in Notice.objects.filter(kind=Kind.BUDGET_HARD)} == {
        cast.rosa.pk, cast.leon.pk, cast.petra.pk,
    }  # fmt: skip
    (message,) = set(told(Kind.BUDGET_HARD))
    assert message == (
        "The budget of vision for November, 900.00 EUR, is spent. New work is held until 1 December or until "
        "a manager of the department or a platform engineer raises it; running work continues."
    )
    for amount in ("900.02", "903"):
        spend(cast.vision, amount)
    assert queue(cast.vision).generation == 2
    give(cast, None, 950)
    assert (queue(cast.vision).hold_reason, queue(cast.vision).generation) == (HoldReason.NONE, 3)
    acts = AuditEvent.objects.filter(chain="tenant:vision").values_list("action", "actor")
    assert list(acts) == [
        ("budget.set", "platform"), ("queue.hold", "system:budget"),
        ("queue.release", "platform"), ("budget.set", "platform"),
    ]  # fmt: skip


def test_a_new_month_lets_go_though_nothing_runs(cast: Cast) -> None:
    queue(cast.vision)
    give(cast, None, 900)
    spend(cast.vision, 900)
    assert entitlements.next_change(queue(cast.vision), NOW) == datetime(2026, 12, 1, tzinfo=UTC)
    budgeting.judge_all(datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    assert queue(cast.vision).hold_reason == HoldReason.BUDGET
    budgeting.judge_all(datetime(2026, 12, 1, tzinfo=UTC))
    assert queue(cast.vision).hold_reason == HoldReason.NONE


def test_a_departments_budget_counts_all_its_tenants_and_holds_all_of_them(cast: Cast) -> None:
    tenants = (cast.vision, cast.speech, cast.genomics)
    for tenant in tenants:
        queue(tenant)
    department = cast.vision.department
    budgeting.set_budget(
        actor=as_actor(cast.petra),
        owner=department,
        limits=Limits(BudgetUnit.GPU_HOURS, None, Decimal(10)),
        now=NOW,
    )
    spend(cast.vision, 1, hours=6)
    spend(cast.genomics, 1, hours=60)
    assert {queue(tenant).hold_reason for tenant in tenants} == {HoldReason.NONE}
    spend(cast.speech, 1, hours=4)
    assert [queue(tenant).hold_reason for tenant in tenants] == ["budget", "budget", "none"]
    assert "of department research, 10.00 GPU-hours, is spent" in queue(cast.vision).hold_detail
    messages = told(Kind.BUDGET_HARD)
    assert {"or until a platform engineer raises it" in words for words in messages} == {True}


def test_a_refund_lets_go_again(cast: Cast) -> None:
    queue(cast.vision)
    give(cast, None, 100)
    spend(cast.vision, 100)
    spend(cast.vision, 97)
    assert queue(cast.vision).hold_reason == HoldReason.NONE


def test_taking_a_budget_away_takes_its_hold_away(cast: Cast) -> None:
    queue(cast.vision)
    row = give(cast, None, 100)
    spend(cast.vision, 100)
    budgeting.delete_budget(actor=as_actor(cast.petra), row=row, now=NOW)
    assert queue(cast.vision).hold_reason == HoldReason.NONE


def test_a_hold_by_hand_outlives_a_budget_and_says_so(cast: Cast) -> None:
    queue(cast.vision)
    petra = as_actor(cast.petra)
    holding.hold_queue(actor=petra, tenant=cast.vision, reason="audit of the disks", now=NOW)
    give(cast, None, 100)
    spend(cast.vision, 100)
    assert queue(cast.vision).hold_reason == HoldReason.BUDGET
    assert "Held by platform since 20 Nov 12:00: audit of the disks." in queue(cast.vision).hold_detail
    give(cast, None, 200)
    assert queue(cast.vision).hold_reason == HoldReason.MANUAL
    holding.release_queue(actor=petra, tenant=cast.vision, reason="", now=NOW)
    assert queue(cast.vision).hold_reason == HoldReason.NONE


def stop_policy(story: Story) -> str:
    found = story.gateway.get(ObjectRef("LocalQueue", story.vision.object_name, QUEUE_NAME))
    assert found is not None
    return str(found["spec"]["stopPolicy"])


def test_the_local_queue_is_stopped_and_started(story: Story) -> None:
    now = timezone.now()
    grant_everything(actor=story.petra, tenant=story.vision, now=now)
    row = TenantQueue.objects.get(tenant=story.vision)
    reconcile_queue(row.pk, gateway=story.gateway)
    assert stop_policy(story) == "None"
    limits = money(None, 5)
    budgeting.set_budget(actor=story.petra, owner=story.vision, limits=limits, now=now)
    spend(story.vision, 5, now=now)
    reconcile_queue(row.pk, gateway=story.gateway)
    row.refresh_from_db()
    assert (stop_policy(story), row.hold_reason) == ("Hold", HoldReason.BUDGET)
    assert row.due_at == budget.bounds(budget.month_of(now))[1]
    calls = len(story.gateway.calls)
    reconcile_queue(row.pk, gateway=story.gateway)
    assert len(story.gateway.calls) == calls
    budgeting.set_budget(actor=story.petra, owner=story.vision, limits=money(None, 50), now=now)
    reconcile_queue(row.pk, gateway=story.gateway)
    assert stop_policy(story) == "None"


def test_a_suspension_reaches_the_local_queue_too(story: Story) -> None:
    grant_everything(actor=story.petra, tenant=story.vision, now=timezone.now())
    row = TenantQueue.objects.get(tenant=story.vision)
    Tenant.objects.filter(pk=story.vision.pk).update(suspend="hold")
    reconcile_queue(row.pk, gateway=story.gateway)
    row.refresh_from_db()
    assert (stop_policy(story), row.hold_reason) == ("Hold", HoldReason.SUSPENDED)


def eur(amount: str) -> dict[str, str]:
    return {"amount": amount, "currency": "EUR"}


def test_budgets_over_rest(cast: Cast) -> None:
    petra, leon, otto = Rest(cast.petra), Rest(cast.leon), Rest(cast.otto)
    body: dict[str, Any] = {"tenant": "vision", "spec": {"soft_limit": eur("800"), "hard_limit": eur("900")}}
    assert leon.send("POST", "/budgets", body).json()["code"] == "not_allowed"
    made = petra.send("POST", "/budgets", body)
    assert (made.status_code, generation(made)) == (201, 1)
    assert petra.send("POST", "/budgets", body).json()["code"] == "already_exists"
    path = f"/budgets/{made.json()['id']}"
    spend(cast.vision, "450", now=timezone.now())
    status = leon.get(path).json()["status"]
    assert (status["spent"], status["marked"], status["holds"]) == (eur("450"), 50, False)
    assert leon.get("/budgets?tenant=vision").json()["items"][0]["id"] == made.json()["id"]
    assert (otto.get(path).status_code, otto.get("/budgets").json()["items"]) == (404, [])
    patch = {"spec": {"hard_limit": eur("950")}}
    assert petra.send("PATCH", path, patch, match='"9"').status_code == 412
    changed = petra.send("PATCH", path, patch, match='"1"').json()
    assert changed["spec"]["soft_limit"] == eur("800")
    assert (changed["spec"]["hard_limit"], changed["generation"]) == (eur("950"), 2)
    again = petra.send("PUT", path, petra.get(path).json(), match="*")
    assert (again.status_code, generation(again)) == (200, 2)
    assert petra.send("DELETE", path, match="*").status_code == 204
    assert petra.get(path).status_code == 404


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({}, "#/spec/hard_limit"),
        ({"soft_limit": eur("9"), "hard_limit": eur("8")}, "#/spec/soft_limit"),
        ({"hard_limit": eur("0")}, "#/spec/hard_limit"),
        ({"hard_limit": {"amount": "9", "currency": "USD"}}, "#/spec/hard_limit/currency"),
        ({"soft_limit": eur("1"), "hard_limit": {"amount": "9", "unit": "gpu_hours"}}, "#/spec/soft_limit"),
        ({"hard_limit": {"amount": "nan", "currency": "EUR"}}, "#/spec/hard_limit/amount"),
        ({"hard_limit": eur("9"), "period": "week"}, "#/spec/period"),
    ],
)
def test_a_wrong_budget_is_refused_by_field(cast: Cast, spec: dict[str, Any], pointer: str) -> None:
    refused = Rest(cast.petra).send("POST", "/budgets", {"tenant": "vision", "spec": spec})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)


def test_the_unit_of_a_budget_is_fixed(cast: Cast) -> None:
    path = f"/budgets/{give(cast, None, 9).pk}"
    patch = {"spec": {"hard_limit": {"amount": "9", "unit": "gpu_hours", "currency": None}}}
    refused = Rest(cast.petra).send("PATCH", path, patch, match="*")
    assert refused.json()["errors"][0]["code"] == "read_only_field"


def test_a_departments_budget_binds_the_departments_below_it_while_they_are(cast: Cast) -> None:
    tenants, petra = (cast.vision, cast.genomics), as_actor(cast.petra)
    for tenant in tenants:
        queue(tenant)
    bio, research = cast.genomics.department, cast.vision.department
    budgeting.set_budget(actor=petra, owner=research, limits=money(None, 100), now=NOW)
    spend(cast.vision, 60)
    spend(cast.genomics, 50)
    assert [queue(tenant).hold_reason for tenant in tenants] == ["none", "none"]
    weighing.set_share(actor=petra, department=bio, share=DepartmentShare(research), now=NOW)
    assert [queue(tenant).hold_reason for tenant in tenants] == ["budget", "budget"]
    assert "of department research" in queue(cast.genomics).hold_detail
    weighing.set_share(actor=petra, department=bio, share=DepartmentShare(None), now=NOW)
    assert [queue(tenant).hold_reason for tenant in tenants] == ["none", "none"]


def test_a_manager_sets_the_budgets_of_tenants_and_not_that_of_the_department(cast: Cast) -> None:
    manager = make_user("mona")
    DepartmentManager.objects.create(department=cast.vision.department, user=manager)
    spec = {"hard_limit": eur("9")}
    mona = Rest(manager)
    assert mona.send("POST", "/budgets", {"tenant": "vision", "spec": spec}).status_code == 201
    refused = mona.send("POST", "/budgets", {"department": "research", "spec": spec})
    assert refused.json()["detail"] == "Only a platform engineer sets a department's budget."
    assert Rest(cast.leon).get("/budgets").json()["items"][0]["tenant"] == "vision"


def test_a_queue_is_held_and_released_over_rest(cast: Cast) -> None:
    petra, leon = Rest(cast.petra), Rest(cast.leon)
    assert leon.get("/tenants/vision/queue").json()["status"]["hold_reason"] == "none"
    assert leon.send("POST", "/tenants/vision/hold", {"reason": "x"}).status_code == 403
    assert petra.send("POST", "/tenants/vision/hold", {}).json()["errors"][0]["pointer"] == "#/reason"
    rehearsed = petra.send("POST", "/tenants/vision/hold?dry_run=true", {"reason": "power works"}).json()
    assert rehearsed["manifests"][-1]["spec"]["stopPolicy"] == "Hold"
    assert leon.get("/tenants/vision/queue").json()["spec"]["hold"] is None
    held = petra.send("POST", "/tenants/vision/hold", {"reason": "power works"}).json()
    assert held["status"]["hold_reason"] == "manual"
    assert leon.get("/tenants/vision/queue").json()["spec"]["hold"].endswith(": power works.")
    assert told(Kind.QUEUE_HELD)[0].startswith("vision is held by platform since")
    released = petra.send("POST", "/tenants/vision/release", {}).json()
    assert (released["status"]["hold_reason"], released["spec"]["hold"]) == ("none", None)
    assert len(told(Kind.QUEUE_RELEASED)) == 2


def test_a_dry_run_says_that_a_held_queue_holds(cast: Cast) -> None:
    holding.hold_queue(actor=as_actor(cast.petra), tenant=cast.vision, reason="power works", now=NOW)
    body = {"tenant": "vision", "spec": notebook_body(cast.offer.slug)}
    told_now = Rest(cast.rosa).send("POST", "/workloads?dry_run=true", body).json()
    assert told_now["fit"]["verdict"] == "held"
    assert "power works" in told_now["fit"]["message"]
    assert told_now["alternatives"] == []
