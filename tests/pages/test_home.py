"""Home: what is live is shown, what is over is folded, and who has no quota is told where it comes from."""

from datetime import timedelta

import pytest
from django.template.loader import render_to_string

from apps.quotas.budgets.rules import budget as months
from apps.quotas.models import Budget, Quota, Spend
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from portal.pages.account import home
from portal.pages.parts.pictures.charts import QuotaBar
from portal.pages.parts.quota_bars import Bar
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene


def test_what_is_over_is_folded_and_hides_nothing_that_runs(scene: Scene, signed_in: SignedIn) -> None:
    for number in range(home.MOST):
        row = factories.make_workload(
            scene.cast.vision,
            scene.cast.rosa,
            scene.cast.offer,
            slug=f"old-{number}",
            spec=scene.running.spec,
        )
        ended = scene.now - timedelta(minutes=number)
        Workload.objects.filter(pk=row.pk).update(phase=Phase.SUCCEEDED, ended_at=ended)
    html = signed_in(scene.cast.rosa).get("/").content.decode()
    shown, folded = html.split('<details class="more aside" id="over">')
    for live in ("rag-dev", "next-one"):
        assert f">{live}</a>" in shown
        assert f">{live}</a>" not in folded
    assert ">old-49</a>" in folded
    assert ">old-49</a>" not in shown
    assert f"<summary>{home.MOST - 2} stopped or ended</summary>" in folded


def test_where_nothing_is_live_the_page_says_so(scene: Scene, signed_in: SignedIn) -> None:
    Workload.objects.filter(owner=scene.cast.rosa).update(phase=Phase.STOPPED, suspended=True)
    html = signed_in(scene.cast.rosa).get("/").content.decode()
    assert "Nothing runs or waits." in html
    assert "<summary>2 stopped or ended</summary>" in html


def test_who_can_give_quota_and_who_can_ask_for_it_each_get_their_link(
    scene: Scene, signed_in: SignedIn
) -> None:
    Quota.objects.filter(tenant=scene.cast.vision).delete()
    for url in ("/t/vision/", "/t/vision/new/notebook/"):
        asked = signed_in(scene.cast.rosa).get(url).content.decode()
        assert '<a href="/t/vision/quota/">Ask for some</a>' in asked, url
        given = signed_in(scene.cast.petra).get(url).content.decode()
        assert 'No quota yet. <a href="/console/quotas/">Give Vision some</a>.' in given, url


def test_what_is_left_of_the_months_money_stands_on_the_first_pages(
    scene: Scene, signed_in: SignedIn
) -> None:
    month = months.month_of(scene.now)
    Budget.objects.create(tenant=scene.cast.vision, unit="money", hard_limit=900, created_by="petra")
    Spend.objects.create(tenant=scene.cast.vision, month=month, money=100, gpu_hours=5, as_of=scene.now)
    for person, url in ((scene.cast.rosa, "/"), (scene.cast.leon, "/t/vision/")):
        html = signed_in(person).get(url).content.decode()
        assert "<strong>800.00 EUR left</strong>: 100.00 EUR of 900.00 EUR" in html, url
    Spend.objects.update(money=910)
    html = signed_in(scene.cast.rosa).get("/").content.decode()
    assert "<strong>10.00 EUR over it</strong>" in html
    assert "Spent." in html


@pytest.mark.parametrize(
    ("used", "fold", "summary"),
    [
        ((2, 0, 0), True, "Nothing used of 2 more"),
        ((0, 0, 0), True, "Nothing used of 3"),
        ((2, 1, 1), True, ""),
        ((2, 0, 0), False, ""),
    ],
)
def test_offers_that_nothing_is_used_of_are_folded_where_the_page_says_so(
    scene: Scene, used: tuple[int, ...], fold: object, summary: str
) -> None:
    bars = [
        Bar(f"offer-{place}", QuotaBar(f"offer-{place}", 4, n, 0, 0, 0), 4, "")
        for place, n in enumerate(used)
    ]
    html = render_to_string("parts/bars.html", {"bars": bars, "fold": fold, "tenant": scene.cast.vision})
    open_part, _, folded = html.partition("<details")
    assert " ".join(folded.partition("<summary>")[2].split())[: len(summary)] == summary
    for place, count in enumerate(used):
        assert (f"offer-{place}" in open_part) == (bool(count) or not fold)
        assert f"offer-{place}" in html
