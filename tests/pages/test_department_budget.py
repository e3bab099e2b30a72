"""The console's page of a department's budget, as those who may see it use it."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from apps.quotas.budgets.rules import budget
from apps.quotas.budgets.services import budgeting
from apps.quotas.budgets.services.budgeting import SpendSoFar
from apps.quotas.models import Budget, TenantQueue
from apps.tenants.models import DepartmentManager
from tests.conftest import SignedIn
from tests.factories import make_user
from tests.pages.conftest import Scene

PAGE = "/console/departments/research/budget/"


def text(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


@pytest.fixture
def mina(scene: Scene, signed_in: SignedIn) -> Client:
    """The manager of research."""
    user = make_user("mina")
    DepartmentManager.objects.create(department=scene.cast.vision.department, user=user)
    return signed_in(user)


def spend(scene: Scene, money: str) -> None:
    so_far = SpendSoFar(budget.month_of(scene.now), Decimal(money), Decimal(7))
    TenantQueue.objects.get_or_create(
        tenant=scene.cast.vision, defaults={"cluster": scene.cast.vision.cluster}
    )
    budgeting.record_spend({scene.cast.vision: so_far}, now=scene.now)


def test_a_platform_engineer_sets_it_and_every_tenant_is_bound(scene: Scene, signed_in: SignedIn) -> None:
    petra = signed_in(scene.cast.petra)
    assert PAGE in text(petra.get("/console/departments/research/"))
    assert "No budget" in text(petra.get(PAGE))
    made = petra.post(PAGE, {"unit": "money", "soft": "50", "hard": "100"})
    assert (made.status_code, made["Location"]) == (303, PAGE)
    spend(scene, "40")
    shown = text(petra.get(PAGE))
    assert "40.00 EUR of 100.00 EUR" in shown
    assert 'data-label="EUR" class="figure">40.00<' in shown
    assert 'data-label="EUR" class="figure">0.00<' in shown  # speech has spent nothing
    spend(scene, "100")
    assert "new work of every tenant is held" in text(petra.get(PAGE))
    assert TenantQueue.objects.get(tenant=scene.cast.vision).hold_reason == "budget"


def test_both_limits_empty_take_it_away(scene: Scene, signed_in: SignedIn) -> None:
    petra = signed_in(scene.cast.petra)
    petra.post(PAGE, {"unit": "gpu_hours", "hard": "10"})
    assert Budget.objects.get().hard_limit == 10
    petra.post(PAGE, {"unit": "gpu_hours"})
    assert not Budget.objects.exists()


def test_what_is_wrong_comes_back_with_the_words_and_what_was_typed(
    scene: Scene, signed_in: SignedIn
) -> None:
    answer = signed_in(scene.cast.petra).post(PAGE, {"unit": "money", "soft": "90", "hard": "10"})
    assert answer.status_code == 422
    assert "cannot be above the hard one" in text(answer)
    assert 'value="90"' in text(answer)
    assert not Budget.objects.exists()


def test_a_manager_reads_it_and_learns_who_sets_it(scene: Scene, mina: Client) -> None:
    shown = text(mina.get(PAGE))
    assert "A platform engineer sets a department" in shown
    assert "Set the budget" not in shown
    refused = mina.post(PAGE, {"unit": "money", "hard": "100"})
    assert refused.status_code == 403
    body = {"department": "research", "spec": {"hard_limit": {"amount": "9", "currency": "EUR"}}}
    told = mina.post("/api/v1/budgets", body, content_type="application/json")
    assert (told.status_code, told.json()["code"]) == (403, "not_allowed")
    assert not Budget.objects.exists()


def test_another_department_is_not_there(scene: Scene, mina: Client, signed_in: SignedIn) -> None:
    assert mina.get("/console/departments/bio/budget/").status_code == 404
    assert signed_in(scene.cast.leon).get(PAGE).status_code == 404
