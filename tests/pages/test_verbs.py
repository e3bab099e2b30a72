"""Stop, resume, extend and delete from a page: by whom, and what the page says afterwards."""

import re
from datetime import timedelta

from apps.audit.models import AuditEvent
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests import factories
from tests.conftest import SignedIn
from tests.pages.conftest import Scene


def test_stop_asks_first_then_says_that_it_is_stopping(scene: Scene, signed_in: SignedIn) -> None:
    rosa, url = signed_in(scene.cast.rosa), scene.url(scene.running)
    asked = rosa.get(f"{url}stop/").content.decode()
    assert "disk home (10Gi at <code>/home/jovyan</code>)" in asked
    answer = rosa.post(f"{url}stop/", {"reason": "done"})
    assert (answer.status_code, answer["Location"]) == (303, url)
    assert re.search(r"Asked at \d\d:\d\d to stop rag-dev\.", rosa.get(url).content.decode())
    assert AuditEvent.objects.get(action="workload.stop").reason == "done"


def test_resume_is_offered_for_what_is_stopped_and_asks_again(scene: Scene, signed_in: SignedIn) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(phase=Phase.STOPPED, suspended=True)
    rosa, url = signed_in(scene.cast.rosa), scene.url(scene.running)
    assert "Start again" in rosa.get(url).content.decode()
    assert rosa.post(f"{url}resume/").status_code == 303
    assert Workload.objects.get(pk=scene.running.pk).phase == Phase.PENDING
    Workload.objects.filter(pk=scene.running.pk).update(phase=Phase.RUNNING)
    html = rosa.get(url).content.decode()
    assert "to start rag-dev again." in html
    assert "Starting" not in html, "no message contradicts the status below it"


def test_extend_moves_the_stop_and_says_when(scene: Scene, signed_in: SignedIn) -> None:
    before = scene.running.stops_at
    assert before is not None
    answer = signed_in(scene.cast.rosa).post(
        scene.url(scene.running, "extend/"), {"seconds": "7200"}, headers={"HX-Request": "true"}
    )
    assert (answer.status_code, answer["HX-Redirect"]) == (204, scene.url(scene.running))
    assert Workload.objects.get(pk=scene.running.pk).stops_at == before + timedelta(hours=2)


def test_a_refusal_by_htmx_goes_into_the_problem_box_and_leaves_the_page(
    scene: Scene, signed_in: SignedIn
) -> None:
    answer = signed_in(scene.cast.rosa).post(
        scene.url(scene.running, "extend/"), {"seconds": "9999999"}, headers={"HX-Request": "true"}
    )
    assert (answer.status_code, answer["HX-Retarget"], answer["HX-Reswap"]) == (409, "#problem", "innerHTML")
    assert "It may run until" in answer.content.decode()


def test_delete_can_keep_the_disks(scene: Scene, signed_in: SignedIn) -> None:
    answer = signed_in(scene.cast.rosa).post(scene.url(scene.running, "delete/"), {"keep_volumes": "on"})
    row = Workload.objects.get(pk=scene.running.pk)
    assert (answer.status_code, answer["Location"]) == (303, "/t/vision/workloads/")
    assert (row.phase, row.keep_volumes) == (Phase.DELETING, True)


def test_a_member_may_look_at_a_colleagues_work_but_not_touch_it(scene: Scene, signed_in: SignedIn) -> None:
    kim = factories.make_user("kim")
    factories.join(scene.cast.vision, kim)
    client, url = signed_in(kim), scene.url(scene.running)
    shown = client.get(url).content.decode()
    assert "rag-dev" in shown
    assert f'href="{url}stop/"' not in shown
    refused = {
        verb: client.post(f"{url}{verb}/").status_code for verb in ("stop", "resume", "extend", "delete")
    }
    assert set(refused.values()) == {403}, refused
    assert Workload.objects.get(pk=scene.running.pk).phase == Phase.RUNNING


def test_a_lead_may_stop_it_and_an_outsider_does_not_find_it(scene: Scene, signed_in: SignedIn) -> None:
    url = scene.url(scene.running, "stop/")
    assert signed_in(scene.cast.otto).post(url).status_code == 404
    assert signed_in(scene.cast.leon).post(url).status_code == 303


def test_a_verb_is_never_a_get(scene: Scene, signed_in: SignedIn) -> None:
    client = signed_in(scene.cast.rosa)
    assert client.get(scene.url(scene.running, "resume/")).status_code == 405
    assert client.get(scene.url(scene.running, "extend/")).status_code == 405


def test_what_has_failed_can_be_asked_for_again_with_its_values(scene: Scene, signed_in: SignedIn) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(phase=Phase.FAILED)
    rosa = signed_in(scene.cast.rosa)
    (like,) = re.findall(
        r'id="duplicate" href="([^"]+)"', rosa.get(scene.url(scene.running)).content.decode()
    )
    shown = rosa.get(like, follow=True).content.decode()
    for value in ("rag-dev (copy)", "16Gi", "10Gi", "jupyter/pytorch:1"):
        assert f'value="{value}"' in shown
