"""An array on pages: asked for in the form, its progress in page and list, and what failed run again."""

from uuid import uuid4

import pytest

from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import CompletionMode, JobBlock, Kind, Phase
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene

ASKED = {
    "name": "fold", "image": "registry.example/team/fold:1", "command": "python fold.py", "completions": "20",
    "parallelism": "4", "retries": "1", "max_failed_indexes": "5",
}  # fmt: skip
STEP = "/t/vision/new/job/h100-1g-10gb/"


@pytest.fixture
def array(scene: Scene) -> Workload:
    """20 items, of which 3 and 7 to 9 have failed and 12 is left."""
    body = {
        "kind": "job", "offer": scene.cast.offer.slug, "image": "registry.example/team/fold:1", "cpu": "4",
        "memory": "16Gi", "command": ["python", "fold.py"], "job": {"completions": 20, "parallelism": 4},
    }  # fmt: skip
    spec = parsing.as_json(parsing.parse(body))
    row = factories.make_workload(
        scene.cast.vision, scene.cast.rosa, scene.cast.offer, slug="fold", spec=spec
    )
    row.kind, row.phase, row.started_at = Kind.JOB, Phase.RUNNING, scene.now
    row.items = {"total": 20, "done": "0-2,4-6,10,11,13-19", "failed": "3,7-9"}
    row.save()
    return row


def test_the_form_asks_for_an_array(scene: Scene, signed_in: SignedIn) -> None:
    rosa = signed_in(scene.cast.rosa)
    asked = {**ASKED, "kind": "job", "offer": "h100-1g-10gb", "key": str(uuid4())}
    assert rosa.post("/t/vision/workloads/", asked).status_code == 303
    spec = parsing.parse(Workload.objects.get(name="fold").spec)
    assert spec.job == JobBlock(20, 4, 1, CompletionMode.ITEMS, 5)


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"completions": "1001"}, "completions"),
        ({"parallelism": "21"}, "parallelism"),
        ({"retries": "many"}, "retries"),
        ({"max_failed_indexes": "21"}, "max_failed_indexes"),
        ({"items": "9-3"}, "items"),
        ({"items": "3", "command": ""}, "items"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field(
    scene: Scene, signed_in: SignedIn, typed: dict[str, str], field: str
) -> None:
    html = signed_in(scene.cast.rosa).post(f"{STEP}review/", {**ASKED, **typed}).content.decode()
    assert f'id="id_{field}_error"' in html


def test_its_page_says_how_far_it_is_and_what_failed(
    scene: Scene, array: Workload, signed_in: SignedIn
) -> None:
    html = signed_in(scene.cast.rosa).get(scene.url(array)).content.decode()
    assert "15 of 20 items done" in html
    assert "1 left" in html
    assert '<progress id="items-done" max="20" value="15">' in html
    assert ">3, 7-9<" in html
    assert 'id="rerun-failed"' not in html, "it still runs"


def test_its_row_says_how_far_it_is(scene: Scene, array: Workload, signed_in: SignedIn) -> None:
    html = signed_in(scene.cast.rosa).get("/t/vision/workloads/").content.decode()
    assert html.count("<progress") == 1
    assert "15 of 20" in html
    assert "4 failed" in html


def test_what_failed_runs_again_in_one_click(scene: Scene, array: Workload, signed_in: SignedIn) -> None:
    Workload.objects.filter(pk=array.pk).update(phase=Phase.FAILED)
    rosa, url = signed_in(scene.cast.rosa), scene.url(array)
    assert 'id="rerun-failed"' in rosa.get(url).content.decode()
    answer = rosa.post(f"{url}rerun-failed/")
    made = Workload.objects.get(name="fold (failed items)")
    assert (answer.status_code, answer["Location"]) == (303, scene.url(made))
    job = parsing.parse(made.spec).job
    assert job
    assert job.items == (3, 7, 8, 9, 12)
    shown = rosa.get(scene.url(made)).content.decode()
    assert "to run the failed items of fold again." in shown
    assert "0 of 5 items done" in shown
    assert "python fold.py" in shown


def test_who_may_not_submit_is_not_offered_it(scene: Scene, array: Workload, signed_in: SignedIn) -> None:
    Workload.objects.filter(pk=array.pk).update(phase=Phase.FAILED)
    ann, url = signed_in(scene.cast.ann), scene.url(array)
    assert 'id="rerun-failed"' not in ann.get(url).content.decode()
    assert ann.post(f"{url}rerun-failed/").status_code == 403


def test_new_like_this_asks_for_the_same_items(scene: Scene, array: Workload, signed_in: SignedIn) -> None:
    spec = parsing.parse({**array.spec, "command": ["sh", "-c", "fold"], "job": {"items": "3,7-9"}})
    Workload.objects.filter(pk=array.pk).update(phase=Phase.SUCCEEDED, spec=parsing.as_json(spec), items=None)
    rosa = signed_in(scene.cast.rosa)
    like = rosa.get(f"{scene.url(array)}duplicate/", follow=True)
    assert 'value="3,7-9"' in like.content.decode()
