"""Logs on a page: searched, followed and downloaded; and of a job the exit code and how long it took."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from apps.cluster.models import MirrorObject
from apps.workloads.lifecycle.services import live
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import SignedIn
from tests.pages.conftest import Scene
from tests.workloads.pod_log import Said, with_pod


@pytest.fixture
def said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Said:
    found = Said()
    with_pod(scene.running, "")
    monkeypatch.setattr(live, "open_gateway", lambda _cluster: found)
    return found


@pytest.fixture
def page(scene: Scene, signed_in: SignedIn) -> Callable[[str], str]:
    def read(tail: str) -> str:
        answer = signed_in(scene.cast.rosa).get(
            scene.url(scene.running, tail), headers={"HX-Request": "true"} if "part=" in tail else {}
        )
        assert answer.status_code == 200
        return str(answer.content.decode())

    return read


def test_a_search_shows_only_its_lines_and_goes_on_with_them(said: Said, page: Callable[[str], str]) -> None:
    said.lines = ["step 1 loss 2.5", "saved <a>", "step 2 LOSS 2.1"]
    html = page("logs/?q=loss")
    assert "step 1 <mark>loss</mark> 2.5" in html
    assert "step 2 <mark>LOSS</mark> 2.1" in html
    assert "saved" not in html
    assert "&amp;q=loss" in html, "what comes is searched too"
    assert "2 of the last 500 lines at most." in html
    assert "saved &lt;a&gt;" in page("logs/")


def test_what_has_not_said_anything_is_listened_to(said: Said, page: Callable[[str], str]) -> None:
    assert "No line yet." in page("logs/")
    said.lines = ["hello"]
    tail = page("logs/?part=tail&after=")
    assert tail.startswith("hello\n")
    assert 'id="tail"' in tail
    assert "No line yet." not in tail


def test_the_status_above_the_lines_is_not_left_behind(
    said: Said, page: Callable[[str], str], scene: Scene
) -> None:
    Workload.objects.filter(pk=scene.running.pk).update(phase=Phase.STARTING)
    html = page("logs/")
    assert 'id="head" hx-get=' in html
    assert f"workload%3A{scene.running.pk}" in html, "the page listens"
    Workload.objects.filter(pk=scene.running.pk).update(phase=Phase.RUNNING)
    head = page("logs/?part=head")
    assert "Running" in head
    assert "Starting" not in head


def test_the_download_has_more_than_the_page(said: Said, scene: Scene, signed_in: SignedIn) -> None:
    said.lines = [f"line {number}" for number in range(900)]
    answer = signed_in(scene.cast.rosa).get(scene.url(scene.running, "logs.txt"))
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="rag-dev.log"'
    assert answer.content.decode().splitlines() == said.lines
    assert signed_in(scene.cast.otto).get(scene.url(scene.running, "logs.txt")).status_code == 404


def test_a_job_that_is_over_says_how_long_it_took_and_its_exit_code(
    scene: Scene, page: Callable[[str], str]
) -> None:
    began = scene.now - timedelta(hours=3)
    state = {
        "terminated": {
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": f"{began:%Y-%m-%dT%H:%M:%SZ}",
            "finishedAt": f"{began + timedelta(minutes=90):%Y-%m-%dT%H:%M:%SZ}",
        }
    }
    with_pod(scene.running, "")
    body = {"metadata": {"name": "train-x"}, "spec": {"nodeName": "gpu-01"}}
    statuses = {"containerStatuses": [{"name": "main", "state": state}]}
    MirrorObject.objects.filter(name="pod-0").update(body={**body, "status": statuses})
    Workload.objects.filter(pk=scene.running.pk).update(
        kind="job", phase=Phase.FAILED, started_at=began, ended_at=began + timedelta(minutes=90)
    )
    html = page("")
    assert "after\n      <strong>1 h 30 min</strong>, exit code <strong>137 OOMKilled</strong>" in html
    assert '<td data-label="Exit code" class="figure bad">137 OOMKilled</td>' in html


def test_the_command_is_shown_as_it_would_be_typed(scene: Scene, page: Callable[[str], str]) -> None:
    assert "the image's own" in page("")
    for command, shown in (
        (["sh", "-c", "python train.py && echo 'done'"], "python train.py &amp;&amp; echo &#x27;done&#x27;"),
        (["python", "-m", "train", "--name", "a b"], "python -m train --name &#x27;a b&#x27;"),
    ):
        spec = {**scene.running.spec, "command": command}
        Workload.objects.filter(pk=scene.running.pk).update(spec=spec)
        assert f'<pre class="command" id="command">{shown}</pre>' in page("")
    assert 'data-copy="command"' in page("")


def test_what_failed_before_the_main_container_says_why(said: Said, page: Callable[[str], str]) -> None:
    said.lines = ["cannot reach the store"]
    assert "of its container" not in page("logs/")
    assert said.asked == "main"
    failed = {"name": "fetch", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
              "lastState": {"terminated": {"exitCode": 3}}}  # fmt: skip
    waits = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"initContainerStatuses": [failed], "containerStatuses": [waits]}
    MirrorObject.objects.filter(kind="Pod", name="pod-0").update(
        body={"spec": {"nodeName": "n"}, "status": status}
    )
    html = page("logs/")
    assert "These lines are of its container fetch, not of its main one." in html
    assert "cannot reach the store" in html
    assert said.asked == "fetch"
