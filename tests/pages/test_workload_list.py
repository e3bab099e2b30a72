"""The list of workloads: search, filters, order in the address; waste and SM per row; the same statements."""

import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from portal.pages.parts.pictures.sparkline import sparkline
from portal.pages.team.workloads import workload_list
from tests import factories
from tests.conftest import SignedIn
from tests.metering import rolled
from tests.pages.conftest import Scene

URL = "/t/vision/workloads/"


def names(html: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', html)


def make(scene: Scene, owner: User, slug: str, **given: Any) -> Workload:
    row = factories.make_workload(
        scene.cast.vision, owner, scene.cast.offer, slug=slug, spec=scene.running.spec
    )
    Workload.objects.filter(pk=row.pk).update(**given)
    return row


def shown(scene: Scene, signed_in: SignedIn, query: str = "") -> str:
    answer = signed_in(scene.cast.rosa).get(f"{URL}{query}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_every_word_of_a_search_is_found_in_name_offer_or_member(scene: Scene, signed_in: SignedIn) -> None:
    make(scene, scene.cast.leon, "bert-eval")
    assert names(shown(scene, signed_in, "?q=RAG")) == ["rag-dev"]
    assert names(shown(scene, signed_in, f"?q=bert+{scene.cast.leon.username}")) == ["bert-eval"]
    assert names(shown(scene, signed_in, f"?q=bert+{scene.cast.rosa.username}")) == []
    assert "Nothing matches." in shown(scene, signed_in, "?q=secret-run"), "another team's work is not found"


def test_filters_of_state_kind_and_member_narrow_together(scene: Scene, signed_in: SignedIn) -> None:
    leon = scene.cast.leon.username
    make(scene, scene.cast.leon, "bert-eval", kind="job", phase=Phase.RUNNING)
    assert names(shown(scene, signed_in, f"?phase=Running&owner={leon}")) == ["bert-eval"]
    assert names(shown(scene, signed_in, "?kind=job")) == ["bert-eval"]
    assert set(names(shown(scene, signed_in, "?owner=me"))) == {"rag-dev", "next-one"}
    everybody = shown(scene, signed_in)
    assert f'<option value="{leon}">' in everybody
    assert scene.cast.otto.username not in everybody, "members of other teams are not named"


def test_an_order_is_an_address_and_a_head_of_a_column(scene: Scene, signed_in: SignedIn) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(cost_waste=Decimal(3))
    make(scene, scene.cast.leon, "alpha", cost_waste=Decimal(9), cost_effective=Decimal(1))
    html = shown(scene, signed_in, "?sort=waste&q=a")
    assert names(html)[:2] == ["alpha", "rag-dev"]
    assert 'aria-sort="descending"><a href="?q=a&amp;sort=">' in html
    assert names(shown(scene, signed_in, "?sort=name"))[0] == "alpha"
    assert len(names(shown(scene, signed_in, "?sort=nonsense&phase=nonsense"))) == 3, (
        "an old bookmark still works"
    )


def test_the_next_stop_is_the_earlier_of_lease_and_idle_policy_of_what_runs(
    scene: Scene, signed_in: SignedIn
) -> None:
    soon = scene.now + timedelta(minutes=5)
    make(scene, scene.cast.leon, "idle", phase=Phase.RUNNING, idle_stops_at=soon)
    make(scene, scene.cast.leon, "rests", phase=Phase.STOPPED, stops_at=soon - timedelta(minutes=4))
    assert names(shown(scene, signed_in, "?sort=stop"))[:2] == ["idle", "rag-dev"]


def test_pages_of_any_order_hold_each_row_once(scene: Scene, signed_in: SignedIn) -> None:
    for number in range(workload_list.PAGE):
        make(scene, scene.cast.leon, f"run-{number:02d}")
    first, second = (shown(scene, signed_in, f"?sort=waste{more}") for more in ("", "&skip=50"))
    assert "?sort=waste&amp;skip=50" in first
    found = names(first) + names(second)
    assert len(found) == len(set(found)) == workload_list.PAGE + 2
    assert 'href="?sort=waste"' in second


def test_htmx_gets_an_address_without_what_was_left_empty(scene: Scene, signed_in: SignedIn) -> None:
    rosa = signed_in(scene.cast.rosa)
    answer = rosa.get(f"{URL}?q=rag&phase=&kind=&owner=&sort=", headers={"HX-Request": "true"})
    assert answer["HX-Replace-Url"] == f"{URL}?q=rag"


def test_a_row_has_its_waste_and_what_its_devices_did(scene: Scene, signed_in: SignedIn) -> None:
    now = rolled.floor(scene.now)
    rolled.hold(scene.running, ("gpu-01", "GPU-0000-aaaa"), now - timedelta(hours=8), now)
    rolled.reach(scene.cast.vision.cluster, now - timedelta(days=1), now)
    Workload.objects.filter(pk=scene.running.pk).update(
        cost_waste=Decimal("1.25"), cost_effective=Decimal("0.5"), cost_unknown=Decimal(0)
    )
    html = shown(scene, signed_in, "?q=rag-dev")
    assert re.search(r'<td data-label="Wasted, EUR" class="figure">\s*1\.25', html)
    assert re.search(r'<svg class="spark".*?</svg><span>\d+ %', html)
    waiting = shown(scene, signed_in, "?q=next-one")
    assert '<svg class="spark"' not in waiting, "what held nothing has no curve"


def test_what_is_unknown_is_a_gap_of_the_curve() -> None:
    assert 'd="M0 0.50H1V0.00H2M3 1.00H4"' in sparkline([0.5, 1.0, None, 0.0])
    assert 'd=""' in sparkline([None, None])


def test_five_hundred_workloads_cost_as_many_statements_as_five(scene: Scene, signed_in: SignedIn) -> None:
    now = rolled.floor(scene.now)
    rolled.hold(scene.running, ("gpu-01", "GPU-0000-aaaa"), now - timedelta(hours=2), now)
    rolled.reach(scene.cast.vision.cluster, now - timedelta(days=1), now)
    people = [factories.make_user(f"p{number}") for number in range(5)]
    rosa = signed_in(scene.cast.rosa)

    def statements() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert rosa.get(f"{URL}?q=r&sort=waste&owner=").status_code == 200
        return len(asked)

    several(scene, people, 5)
    statements()  # what a process reads once
    few = statements()
    several(scene, people, 495)
    assert statements() == few


def several(scene: Scene, people: Sequence[User], count: int) -> None:
    like = scene.running
    so_far = Workload.objects.count()
    Workload.objects.bulk_create(
        Workload(
            tenant=like.tenant, cluster=like.cluster, owner=people[at % len(people)], offer=like.offer,
            slug=f"r-{at}", name=f"r-{at}", kind="job", spec=like.spec, object_name=f"wl-r-{at}",
            phase=Phase.RUNNING, started_at=like.started_at,
        )
        for at in range(so_far, so_far + count)
    )  # fmt: skip
