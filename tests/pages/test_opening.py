"""The page that waits until a workload opens: what it says, offers and does, for whom."""

import pytest

from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import SignedIn
from tests.pages.conftest import Scene


def opening(row: Workload) -> str:
    return f"/open/{row.pk}/"


def in_phase(row: Workload, phase: Phase) -> None:
    Workload.objects.filter(pk=row.pk).update(phase=phase, suspended=phase is Phase.STOPPED)


def test_what_waits_is_waited_for_with_its_reason_and_story(scene: Scene, signed_in: SignedIn) -> None:
    rosa, url = signed_in(scene.cast.rosa), scene.url(scene.waiting)
    assert f'href="{opening(scene.waiting)}" target="_blank"' in rosa.get(url).content.decode()
    shown = rosa.get(opening(scene.waiting)).content.decode()
    assert "This page opens it as soon as it runs." in shown
    assert "Why is it not open yet?" in shown
    assert 'class="story"' in shown
    assert 'id="enter"' not in shown


def test_what_runs_is_opened_by_the_page_itself(scene: Scene, signed_in: SignedIn) -> None:
    rosa = signed_in(scene.cast.rosa)
    shown = rosa.get(f"{opening(scene.running)}?part=head", headers={"HX-Request": "true"}).content.decode()
    assert f'action="{scene.url(scene.running)}open/"' in shown
    assert 'id="enter"' in shown
    assert "js/opening" in rosa.get(opening(scene.running)).content.decode()


def test_what_is_stopped_is_started_again_and_waited_for(scene: Scene, signed_in: SignedIn) -> None:
    in_phase(scene.running, Phase.STOPPED)
    rosa, url = signed_in(scene.cast.rosa), scene.url(scene.running)
    assert 'name="then" value="open"' in rosa.get(opening(scene.running)).content.decode()
    answer = rosa.post(f"{url}resume/", {"then": "open"})
    assert (answer.status_code, answer["Location"]) == (303, opening(scene.running))
    assert "This page opens it as soon as it runs." in rosa.get(opening(scene.running)).content.decode()


def test_open_of_what_does_not_run_yet_leads_to_the_page_that_waits(
    scene: Scene, signed_in: SignedIn
) -> None:
    in_phase(scene.running, Phase.STARTING)
    answer = signed_in(scene.cast.rosa).post(f"{scene.url(scene.running)}open/")
    assert (answer.status_code, answer["Location"]) == (303, opening(scene.running))


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.SUCCEEDED])
def test_what_never_runs_again_says_so(scene: Scene, signed_in: SignedIn, phase: Phase) -> None:
    in_phase(scene.running, phase)
    shown = signed_in(scene.cast.rosa).get(opening(scene.running)).content.decode()
    assert "Make a new one like it." in shown
    assert not {'id="enter"', 'id="resume"'} & set(shown.split())


def test_who_may_not_open_it_is_told_so_and_who_may_not_see_it_nothing(
    scene: Scene, signed_in: SignedIn
) -> None:
    leon = signed_in(scene.cast.leon).get(opening(scene.running)).content.decode()
    assert "opens it. The owner can open it to the team." in leon
    assert 'id="enter"' not in leon.split()
    in_phase(scene.running, Phase.STOPPED)
    assert (
        'id="resume"' not in signed_in(scene.cast.leon).get(opening(scene.running)).content.decode().split()
    )
    assert signed_in(scene.cast.otto).get(opening(scene.running)).status_code == 404
