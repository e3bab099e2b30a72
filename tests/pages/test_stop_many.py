"""Several workloads stopped at once: the question names what stops, and each answers for itself."""

from typing import Any

from apps.audit.models import AuditEvent
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene

URL = "/t/vision/workloads/stop/"


def ask(client: Any, *rows: Workload) -> str:
    answer = client.get(URL, {"workload": [row.pk for row in rows]})
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_question_names_what_stops_and_what_it_ends(scene: Scene, signed_in: SignedIn) -> None:
    html = ask(signed_in(scene.cast.rosa), scene.running, scene.waiting)
    assert "Stop 2 workloads?" in html
    assert "rag-dev" in html
    assert "next-one" in html
    assert "a charge of <strong>0.42 EUR/h</strong>" in html, "what waits costs nothing"
    assert not AuditEvent.objects.filter(action="workload.stop").exists()


def test_each_answers_for_itself(scene: Scene, signed_in: SignedIn) -> None:
    over = factories.make_workload(
        scene.cast.vision, scene.cast.rosa, scene.cast.offer, slug="old", spec=scene.running.spec
    )
    Workload.objects.filter(pk=over.pk).update(phase=Phase.FAILED)
    rosa, chosen = signed_in(scene.cast.rosa), [scene.running, scene.waiting, over]
    assert "<strong>old</strong>: It has ended (failed)." in ask(rosa, *chosen)
    answer = rosa.post(URL, {"workload": [row.pk for row in chosen], "reason": "cleaning up"})
    html = answer.content.decode()
    assert "2 of 3 stop" in html
    assert html.count("Stopping, asked ") == 2
    assert "It has ended (failed). Duplicate it to run it again." in html
    assert set(Workload.objects.filter(phase=Phase.STOPPING)) == {scene.running, scene.waiting}
    assert {each.reason for each in AuditEvent.objects.filter(action="workload.stop")} == {"cleaning up"}


def test_a_colleagues_work_stays_and_says_who_may(scene: Scene, signed_in: SignedIn) -> None:
    kim = factories.make_user("kim")
    factories.join(scene.cast.vision, kim)
    theirs = factories.make_workload(
        scene.cast.vision, kim, scene.cast.offer, slug="kims", spec=scene.running.spec
    )
    page = signed_in(kim).get("/t/vision/workloads/").content.decode()
    assert f'value="{theirs.pk}"' in page
    assert f'value="{scene.running.pk}"' not in page, "only what one may stop can be chosen"
    html = ask(signed_in(kim), scene.running, theirs)
    assert "Stop 1 workload?" in html
    assert "<strong>rag-dev</strong>: Only its owner, a lead of vision or a manager" in html
    refused = signed_in(kim).post(URL, {"workload": [scene.running.pk]})
    assert refused.status_code == 403
    mixed = signed_in(kim).post(URL, {"workload": [scene.running.pk, theirs.pk]}).content.decode()
    assert "1 of 2 stops" in mixed
    assert Workload.objects.get(pk=scene.running.pk).phase == Phase.RUNNING


def test_anothers_ids_are_as_unknown_as_nonsense(scene: Scene, signed_in: SignedIn) -> None:
    leon = signed_in(scene.cast.leon)
    for strange in (str(scene.other.pk), "nonsense", "00000000-0000-4000-8000-000000000000"):
        assert leon.get(URL, {"workload": strange}).status_code == 404
        assert leon.post(URL, {"workload": strange}).status_code == 404
    html = ask(leon, scene.running, scene.other)
    assert "Stop 1 workload?" in html
    assert "secret-run" not in html


def test_nothing_chosen_leads_back_with_words(scene: Scene, signed_in: SignedIn) -> None:
    rosa = signed_in(scene.cast.rosa)
    answer = rosa.get(URL)
    assert (answer.status_code, answer["Location"]) == (303, "/t/vision/workloads/")
    assert "Choose in the list what to stop." in rosa.get(answer["Location"]).content.decode()


def test_the_question_costs_as_many_statements_for_many(
    scene: Scene, signed_in: SignedIn, django_assert_max_num_queries: Any
) -> None:
    rows = [
        factories.make_workload(
            scene.cast.vision, scene.cast.rosa, scene.cast.offer, slug=f"run-{at}", spec=scene.running.spec
        )
        for at in range(20)
    ]
    rosa = signed_in(scene.cast.rosa)
    with django_assert_max_num_queries(14):
        ask(rosa, *rows)
