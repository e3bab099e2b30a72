"""Help me choose: the questions, the ranked answer, "Use this"; and less of what waits, in one step."""

import itertools
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.cluster.models import MirrorObject
from apps.errors import Conflict, NotAllowed
from apps.quotas.budgets.services import holding
from apps.quotas.models import Offer, Price, Quota
from apps.workloads.advice.rules.situations import ISOLATED
from apps.workloads.lifecycle.selectors.admission_check import PriceMoved
from apps.workloads.lifecycle.services import resizing
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.smaller import Smaller
from portal.api.workloads.advice_bodies import AdviceSerializer
from portal.pages.team.advice.advice_form import AdviceForm
from tests import factories
from tests.conftest import SignedIn, as_actor
from tests.controlplane.fleet import H100, L4, FleetNode, Gpu
from tests.pages import fleet
from tests.pages.conftest import Scene

PAGE = "/t/vision/advice/"
NEED = {"kind": "notebook", "gpu_memory": "8Gi", "at_once": "1", "hours": "3"}
ROOM_OF_AN_OFFER, ITS_RUNS = 4, 1
"""Statements that one more offer that waits may cost."""
REST = {"tenant": "vision", "kind": "notebook", "gpu_memory": "8Gi"}


@pytest.fixture
def rosa(scene: Scene, signed_in: SignedIn) -> Client:
    return signed_in(scene.cast.rosa)


@pytest.fixture
def whole(scene: Scene) -> Offer:
    """Two whole GPUs on one node, both free."""
    offer = factories.make_offer(scene.cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    factories.make_quota(scene.cast.vision, offer)
    Price.objects.update(valid_from=scene.now - timedelta(days=1))
    return offer


def shown(client: Client, status: int = 200, **changed: str) -> str:
    answer = client.get(PAGE, {**NEED, **changed})
    assert answer.status_code == status
    return " ".join(unescape(answer.content.decode()).split())


def asked(client: Client, **changed: Any) -> Any:
    answer = client.post("/api/v1/advice", {**REST, **changed}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_the_questions_are_there_before_anything_is_asked(rosa: Client) -> None:
    page = rosa.get(f"{PAGE}?kind=job").content.decode()
    assert 'value="job" selected' in page
    assert "What suits, the best first" not in page
    for step in ("/t/vision/new/", "/t/vision/new/notebook/"):
        assert f'href="{PAGE}' in rosa.get(step).content.decode(), step


def test_the_best_is_first_and_the_whole_h100_is_warned_of(rosa: Client, whole: Offer) -> None:
    page = shown(rosa)
    assert "2 offers would do; 2 start now." in page.replace("<strong>", "").replace("</strong>", "")
    assert page.index(">1 × H100 1g.10gb") < page.index(">1 × H100 whole")
    assert "8 GiB of its 80 GiB are needed, and all of it is paid for." in page
    assert "1.26 EUR for 3 h" in page


def test_use_this_fills_in_offer_devices_and_of_what_is_leased_the_time(rosa: Client, whole: Offer) -> None:
    page = shown(rosa, gpu_memory="150Gi", hours="90m")
    assert "Your program has to spread over 2 GPUs of one node." in page
    use = "/t/vision/new/notebook/h100-whole/?count=2&run_hours=90m"
    assert f'href="{use}"' in page
    form = rosa.get(use).content.decode()
    assert 'name="count" value="2"' in form
    assert '<option value="90m" selected>' in form
    served = shown(rosa, kind="service", gpu_memory="150Gi", hours="90m")
    assert 'href="/t/vision/new/service/h100-whole/?count=2"' in served


def test_several_become_the_items_of_an_array_or_are_made_one_by_one(rosa: Client) -> None:
    use = "/t/vision/new/job/h100-1g-10gb/?count=1&completions=2&parallelism=2"
    assert f'href="{use}"' in shown(rosa, kind="job", at_once="2")
    form = rosa.get(use).content.decode()
    assert [f'name="{name}" value="2"' in form for name in ("completions", "parallelism")] == [True, True]
    assert "fill it in 2 times" in shown(rosa, at_once="2")


def test_a_workload_of_another_kind_is_no_pattern_for_what_is_chosen(scene: Scene, rosa: Client) -> None:
    like = str(scene.running.pk)
    assert f'like={like}"' in shown(rosa, like=like)
    for pattern in (like, "nonsense"):
        page = shown(rosa, kind="job", like=pattern)
        assert '/t/vision/new/job/h100-1g-10gb/?count=1"' in page


def test_isolated_is_said_alike_on_both_surfaces() -> None:
    says = (AdviceForm(None).fields["isolated"].label, AdviceSerializer().fields["isolated"].help_text)
    assert says == (ISOLATED.rstrip("."),) * 2


def test_a_model_is_counted_in_the_open(rosa: Client, whole: Offer) -> None:
    page = shown(rosa, gpu_memory="", billions="7", task="full", precision="bf16")
    assert (
        "About 125.2 GiB: 13 GiB of weights (2 bytes for each parameter), 91.3 GiB that training keeps"
        in page
    )
    assert ">2 × H100 whole" in page


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"gpu_memory": ""}, "Say how much GPU memory, or which model: one of the two."),
        ({"billions": "7"}, "Say how much GPU memory, or which model: one of the two."),
        ({"gpu_memory": "much"}, "Not a quantity of memory, such as 20Gi."),
        ({"gpu_memory": "0"}, "From 1Mi to 1Pi, such as 20Gi."),
        ({"gpu_memory": "", "billions": "seven"}, "Not a number, such as 7 or 0.5."),
        ({"gpu_memory": "", "billions": "NaN"}, "Not a number, such as 7 or 0.5."),
        ({"gpu_memory": "", "billions": "3000"}, "billion parameters."),
        ({"gpu_memory": "", "billions": "7", "task": "full", "precision": "int4"}, "take LoRA, or bf16."),
        ({"hours": "soon"}, "From 1m to 366 days, such as 3 or 90m."),
        ({"at_once": "0"}, "greater than or equal to 1"),
        ({"at_once": "65", "kind": "service"}, "A service has at most 64 replicas."),
        ({"at_once": "257", "kind": "training"}, "A training has at most 256 nodes."),
        ({"kind": "spaceship"}, "Select a valid choice"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_field(
    rosa: Client, typed: dict[str, str], words: str
) -> None:
    page = shown(rosa, 422, **typed)
    assert words in page
    assert "There is a problem" in page
    assert "What suits, the best first" not in page


@pytest.mark.parametrize(
    ("typed", "asked_bytes", "device_mib"),
    [
        ("80", 80 * 10**9, H100.memory),
        ("24", 24 * 10**9, L4.memory),
        ("16", 16 * 10**9, 15_360),
        ("20 GB", 20 * 10**9, 20_096),
        ("10gb", 10**10, 9_984),
        (" 79.5 GiB ", 79 * 2**30 + 2**29, H100.memory),
        ("79.5Gi", 79 * 2**30 + 2**29, H100.memory),
    ],
)
def test_memory_as_gpus_are_sold_fits_the_gpu_that_is_sold_so(
    typed: str, asked_bytes: int, device_mib: int
) -> None:
    form = AdviceForm({**NEED, "gpu_memory": typed})
    assert form.is_valid(), form.errors
    assert form.need is not None
    assert form.need.memory_bytes == asked_bytes <= device_mib * 2**20


def test_nothing_fits_says_what_comes_closest_and_where_to_ask(rosa: Client, whole: Offer) -> None:
    page = shown(rosa, at_once="9", kind="job")
    assert "Nothing that Vision may have would do." in page
    assert "It takes 9; vision can hold at most" in page
    assert ">Request quota</a>" in page
    assert "no NVLink between them" in shown(rosa, gpu_memory="500Gi")


@pytest.mark.parametrize("quota", [2, 0])
def test_more_quota_is_not_offered_where_no_node_is_wide_enough(
    scene: Scene, rosa: Client, whole: Offer, quota: int
) -> None:
    fleet.show_fleet(scene.cast.vision.cluster, now=scene.now, seen=(FleetNode("gpu-11", (Gpu(H100),)),))
    Quota.objects.filter(offer=whole).update(nominal_quota=quota, borrowing_limit=0)
    page = shown(rosa, gpu_memory="230Gi")
    assert "It takes 3 of them on one node; no node has more than 2." in page
    assert "Request quota" not in page


def test_nothing_starts_now_while_the_queue_is_held(scene: Scene, rosa: Client) -> None:
    petra = as_actor(scene.cast.petra)
    holding.hold_queue(actor=petra, tenant=scene.cast.vision, reason="works", now=scene.now)
    page = shown(rosa)
    assert "0 start now." in page.replace("<strong>", "").replace("</strong>", "")
    assert f"Held by {petra.username}" in page


def test_who_may_not_submit_sees_the_advice_without_the_button(
    scene: Scene, signed_in: SignedIn, whole: Offer
) -> None:
    page = shown(signed_in(scene.cast.ann))
    assert ">1 × H100 1g.10gb" in page
    assert "Use this" not in page


def test_rest_says_the_same_and_stores_nothing(rosa: Client, whole: Offer) -> None:
    before = Workload.objects.count()
    found = asked(rosa)
    first = found["items"][0]
    assert (first["offer"], first["start"], first["devices"]) == ("h100-1g-10gb", "now", 1)
    assert (first["hourly"], first["total"]["amount"]) == ({"amount": "0.42", "currency": "EUR"}, "1.26")
    assert [bool(each["warnings"]) for each in found["items"]] == [False, True]
    assert found["comparison"]["items"][0]["offer"] == "h100-1g-10gb"
    assert Workload.objects.count() == before


def test_rest_foretells_what_waits_and_names_holders_only_to_who_may_know(scene: Scene, rosa: Client) -> None:
    Quota.objects.filter(tenant=scene.cast.vision).update(nominal_quota=1, borrowing_limit=0)
    ahead = scene.waiting.spec | {"max_run_seconds": 3600}
    Workload.objects.filter(pk=scene.waiting.pk).update(spec=ahead)
    (item,) = asked(rosa, for_seconds=3600)["items"]
    assert item["start"] == "later"
    assert item["eta"]["p10"] <= item["eta"]["p50"] <= item["eta"]["p90"]
    assert [(each["tenant"], each["count"]) for each in item["holders"]] == [("vision", 1), (None, 1)]
    assert "Held by vision 1 (first ends by" in item["start_message"]
    assert "genomics" not in str(item)


def test_no_start_is_foretold_where_enough_is_free_and_not_together(
    scene: Scene, rosa: Client, whole: Offer
) -> None:
    apart = tuple(FleetNode(name, (Gpu(H100),)) for name in ("gpu-11", "gpu-12"))
    fleet.show_fleet(scene.cast.vision.cluster, now=scene.now, seen=apart)
    Quota.objects.filter(offer=whole).update(nominal_quota=4)
    (item,) = asked(rosa, kind="training", gpu_memory="150Gi", at_once=2)["items"]
    assert (item["offer"], item["devices"], item["start"], item["eta"]) == (whole.slug, 4, "unknown", None)
    assert item["start_message"].startswith("Enough is free, but not together.")


def test_three_starts_are_foretold_and_the_department_is_read_once_for_all_of_them(
    scene: Scene, rosa: Client
) -> None:
    read = []
    names = ["h100-a", "h100-b", "h100-c", "h100-d"]
    for name in names:
        offer = factories.make_offer(scene.cast.offer.flavor, name, profile="", hourly="2.94")
        factories.make_quota(scene.cast.vision, offer)
        offers = dict.fromkeys(Offer.objects.exclude(pk=scene.cast.offer.pk), 2)
        MirrorObject.objects.filter(kind="ClusterQueue").delete()
        fleet.reserve(scene.cast.vision, offers, now=scene.now)
        with CaptureQueriesContext(connection) as statements:
            found = asked(rosa, gpu_memory="60Gi")["items"]
        read.append(len(statements))
    assert sorted(each["eta"] is not None for each in found) == [False, True, True, True]
    assert {each["start"] for each in found} == {"later", "unknown"}
    more = [after - before for before, after in itertools.pairwise(read)]
    assert max(more) <= ROOM_OF_AN_OFFER + ITS_RUNS, read


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"gpu_memory": None}, "#/gpu_memory"),
        ({"model": {"billions": "7"}}, "#/gpu_memory"),
        (
            {"gpu_memory": None, "model": {"billions": "7", "precision": "int4", "task": "full"}},
            "#/model/precision",
        ),
        ({"tenant": "genomics"}, "#/tenant"),
        ({"at_once": 1001}, "#/at_once"),
        ({"at_once": 65, "kind": "service"}, "#/at_once"),
        ({"for_seconds": 59}, "#/for_seconds"),
        ({"memory": "8Gi"}, "#/memory"),
    ],
)
def test_rest_refuses_what_makes_no_sense(rosa: Client, body: dict[str, Any], pointer: str) -> None:
    answer = rosa.post("/api/v1/advice", {**REST, **body}, content_type="application/json")
    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


@pytest.fixture
def wide(scene: Scene) -> Workload:
    """A job of rosa's that runs four pods at once, where the team may have two slices more."""
    spec = parsing.as_json(
        parsing.parse(
            {"kind": "job", "offer": scene.cast.offer.slug, "image": "busybox", "count": 1, "cpu": "4",
             "memory": "32Gi", "job": {"completions": 6, "parallelism": 4}}
        )
    )  # fmt: skip
    row = factories.make_workload(
        scene.cast.vision, scene.cast.rosa, scene.cast.offer, slug="sweep", spec=spec
    )
    fleet.wait(row, now=scene.now)
    Quota.objects.filter(tenant=scene.cast.vision).update(nominal_quota=3, borrowing_limit=0)
    return row


def test_what_waits_says_how_much_less_would_start_now_and_one_press_asks_for_it(
    scene: Scene, rosa: Client, wide: Workload
) -> None:
    page = " ".join(rosa.get(scene.url(wide)).content.decode().split())
    assert "2 at once would start now." in page
    assert "Shrink to 2 at once and start now, 0.84 EUR/h" in page
    told = rosa.get(f"/api/v1/workloads/{wide.pk}").json()["status"]["queue"]["smaller"]
    assert told == {"count": 1, "pods": 2, "hourly": {"amount": "0.84", "currency": "EUR"}}
    answer = rosa.post(scene.url(wide, "shrink/"), {"count": "1", "pods": "2", "seen_hourly": "0.84000000"})
    assert (answer.status_code, answer["Location"]) == (303, scene.url(wide))
    wide.refresh_from_db()
    spec = reading.spec_of(wide)
    assert (spec.job and (spec.job.parallelism, spec.job.completions), spec.count, wide.phase) == (
        (2, 6),
        1,
        "Pending",
    )


def test_one_pod_gets_fewer_devices_and_the_cpu_that_came_with_them_goes_too(
    scene: Scene, rosa: Client
) -> None:
    row = scene.waiting
    body = factories.notebook_body(scene.cast.offer.slug, count=3, cpu=None, memory=None)
    Workload.objects.filter(pk=row.pk).update(
        spec=parsing.kept(reading.completed(parsing.parse(body), row.offer))
    )
    Quota.objects.filter(tenant=scene.cast.vision).update(nominal_quota=3, borrowing_limit=0)
    assert "Shrink to 2 devices and start now, 0.84 EUR/h" in " ".join(
        rosa.get(scene.url(row)).content.decode().split()
    )
    rosa.post(scene.url(row, "shrink/"), {"count": "2", "pods": ""})
    row.refresh_from_db()
    spec = reading.completed(reading.spec_of(row), row.offer)
    assert (spec.count, spec.cpu_millis) == (2, 2 * row.offer.cpu_millis)


def test_less_is_refused_to_others_for_more_at_another_price_and_once_it_runs(
    scene: Scene, rosa: Client, wide: Workload
) -> None:
    cast, less = scene.cast, Smaller(1, 2, None)
    with pytest.raises(NotAllowed):
        resizing.shrink_waiting(actor=as_actor(cast.ann), workload=wide, to=less, now=scene.now)
    for much in (Smaller(1, 4, None), Smaller(2, 2, None)):
        with pytest.raises(Conflict, match="is not less"):
            resizing.shrink_waiting(actor=as_actor(cast.rosa), workload=wide, to=much, now=scene.now)
    with pytest.raises(PriceMoved):
        resizing.shrink_waiting(
            actor=as_actor(cast.rosa), workload=wide, to=less, now=scene.now, seen_hourly=Decimal("0.5")
        )
    Workload.objects.filter(pk=wide.pk).update(phase=Phase.RUNNING)
    with pytest.raises(Conflict, match="does not wait any more"):
        resizing.shrink_waiting(actor=as_actor(cast.rosa), workload=wide, to=less, now=scene.now)
    assert rosa.post(scene.url(wide, "shrink/"), {"count": "x"}).status_code == 422


def test_another_offer_is_only_named_where_the_pods_of_what_waits_find_room(
    scene: Scene, rosa: Client, wide: Workload
) -> None:
    fleet.show_fleet(wide.cluster, now=scene.now, seen=(FleetNode("gpu-11", (Gpu(L4),)),))
    flavor = factories.make_flavor(wide.cluster, "l4", "NVIDIA L4")
    flavor.node_labels = {"nvidia.com/gpu.present": "true"}
    flavor.save()
    factories.make_quota(
        scene.cast.vision, factories.make_offer(flavor, "l4-whole", profile="", hourly="0.70")
    )
    for together, is_named in ((1, True), (2, False)):
        spec = wide.spec | {"count": together, "job": wide.spec["job"] | {"parallelism": 2 // together}}
        Workload.objects.filter(pk=wide.pk).update(spec=spec)
        queue = rosa.get(f"/api/v1/workloads/{wide.pk}").json()["status"]["queue"]
        assert (["l4-whole"] if is_named else []) == [each["offer"] for each in queue["alternatives"]]


def test_of_replicas_that_queue_one_by_one_nothing_less_is_told(
    scene: Scene, rosa: Client, wide: Workload
) -> None:
    body = {"kind": "service", "offer": scene.cast.offer.slug, "image": "busybox", "service": {"replicas": 4}}
    spec = parsing.as_json(parsing.parse(body))
    row = factories.make_workload(scene.cast.vision, scene.cast.rosa, scene.cast.offer, slug="llm", spec=spec)
    fleet.wait(row, now=scene.now)
    told = [rosa.get(f"/api/v1/workloads/{each.pk}").json()["status"]["queue"] for each in (wide, row)]
    assert [each["smaller"] is None for each in told] == [False, True]
