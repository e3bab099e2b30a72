"""What an IDE says beside the GPU: in words, in the evidence, and at most one more window of time."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.metering.findings.rules import messages as words
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.findings.services import lifecycle
from apps.metering.models import Finding, IdlePolicy
from apps.workloads.models import Workload
from apps.workloads.opening.rules import ide_activity
from apps.workloads.opening.rules.ide_activity import Activity
from apps.workloads.specs import Kind
from tests.conftest import Cast, SignedIn
from tests.metering.idle_job import BEGUN, MINUTE, blind, counted, job, messages
from tests.metering.traced import HOUR, NOW, seen
from tests.workloads.rest import Api

__all__ = ["job"]
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def notebook(job: Workload) -> Workload:
    """The same, a notebook that worked until 100 minutes ago: idle for more than once its policy's hour."""
    job.kind = Kind.NOTEBOOK
    job.spec = {**job.spec, "kind": "notebook", "job": None, "notebook": {"ide": "jupyterlab"}}
    job.save()
    blind(BEGUN)
    seen("GPU-1-0", BEGUN, NOW - 100 * MINUTE, busy=True)
    seen("GPU-1-0", NOW - 100 * MINUTE, NOW + 4 * HOUR)
    return job


def says(
    row: Workload, at: datetime, *, running: int = 0, kernels: int = 1, typed: datetime | None = None
) -> None:
    said: Any = Activity(at, kernels, running, 1, at, int(typed is not None), typed).as_json()
    Workload.objects.filter(pk=row.pk).update(ide=said)


def shows_a_tab(row: Workload, at: datetime) -> None:
    """VS Code says at that time that a tab of it is open."""
    beat = int(at.timestamp() * 1000)
    said = ide_activity.read_health({"status": "alive", "lastHeartbeat": beat}, at).as_json()
    Workload.objects.filter(pk=row.pk).update(ide=said)


def judged(row: Workload, at: datetime) -> Finding:
    lifecycle.judge_one(row.pk, now=at)
    return Finding.objects.get(closed_at=None)


def test_code_that_runs_stands_in_the_evidence_and_in_the_words(notebook: Workload) -> None:
    says(notebook, NOW, running=1)
    row = judged(notebook, NOW)
    assert row.evidence["ide"]["running"] == 1
    assert words.reason(selectors.said_of(row)).endswith(", a kernel runs code")
    notebook.refresh_from_db()
    assert notebook.gpu_idle_since is not None
    assert abs(notebook.gpu_idle_since - (NOW - 100 * MINUTE)) <= 2 * MINUTE


def test_no_countdown_begins_under_code_that_runs_until_twice_the_window(notebook: Workload) -> None:
    for minutes in (0, 10):
        says(notebook, NOW + minutes * MINUTE, running=1)
        row = judged(notebook, NOW + minutes * MINUTE)
    assert (row.confirmed_at is not None, row.stops_at) == (True, None)
    assert not messages("idle.warned")
    assert "a kernel runs code" in selectors_message(notebook)
    says(notebook, NOW + 25 * MINUTE, running=1)
    assert judged(notebook, NOW + 25 * MINUTE).stops_at == NOW + 55 * MINUTE
    assert "a kernel runs code" in messages("idle.warned")[0]


def test_an_open_tab_of_vs_code_spares_nothing(notebook: Workload) -> None:
    for minutes in (0, 10):
        shows_a_tab(notebook, NOW + minutes * MINUTE)
        row = judged(notebook, NOW + minutes * MINUTE)
    assert row.stops_at is not None
    assert row.evidence["ide"] is None


def test_a_terminal_in_use_spares_as_code_does_and_one_that_is_only_open_does_not(notebook: Workload) -> None:
    for minutes in (0, 10):
        at = NOW + minutes * MINUTE
        says(notebook, at, typed=at - 10 * MINUTE)
        row = judged(notebook, at)
    assert row.stops_at is None
    assert words.reason(selectors.said_of(row)).endswith(", a terminal is in use")
    assert ("Terminals", "1, in use") in words.ide_facts(row.evidence["ide"])
    says(notebook, NOW + 12 * MINUTE, typed=NOW - 10 * MINUTE)
    row = judged(notebook, NOW + 12 * MINUTE)
    assert row.stops_at is not None
    assert ("Terminals", "1, not in use") in words.ide_facts(row.evidence["ide"])


def test_a_shell_in_use_spares_as_code_does_whatever_the_kind_and_only_in_its_run(job: Workload) -> None:
    blind(BEGUN)
    seen("GPU-1-0", BEGUN, NOW - 100 * MINUTE, busy=True)
    seen("GPU-1-0", NOW - 100 * MINUTE, NOW + 4 * HOUR)
    for minutes in (0, 10):
        at = NOW + minutes * MINUTE
        Workload.objects.filter(pk=job.pk).update(shell_used_at=at - 10 * MINUTE)
        row = judged(job, at)
    assert (row.confirmed_at is not None, row.stops_at) == (True, None)
    assert words.reason(selectors.said_of(row)).endswith(", a shell is in use")
    assert row.evidence["in_shell"] is True
    assert judged(job, NOW + 20 * MINUTE).stops_at is not None


def selectors_message(row: Workload) -> str:
    row.refresh_from_db()
    return next(str(badge["message"]) for badge in row.badges if badge["type"] == "Idle")


@pytest.mark.parametrize("known", ["no code", "too old", "a problem", "nothing"])
def test_without_code_that_is_known_to_run_it_counts_as_ever(notebook: Workload, known: str) -> None:
    for minutes in (0, 10):
        at = NOW + minutes * MINUTE
        if known == "a problem":
            Workload.objects.update(ide={"problem": "no answer"})
        elif known != "nothing":
            says(notebook, at - (0 if known == "no code" else 16) * MINUTE, running=int(known == "too old"))
        row = judged(notebook, at)
    assert row.stops_at == NOW + 40 * MINUTE
    assert "kernel" not in words.reason(selectors.said_of(row))
    assert (row.evidence["ide"] is None) == (known != "no code")


def test_a_countdown_that_runs_is_not_ended_by_it(notebook: Workload) -> None:
    row = counted(notebook)
    says(notebook, NOW + 12 * MINUTE, running=1)
    assert judged(notebook, NOW + 12 * MINUTE).stops_at == row.stops_at
    assert not messages("idle.taken_back")


def test_without_telemetry_no_word_of_the_ide_begins_anything(notebook: Workload) -> None:
    blind(BEGUN)
    says(notebook, NOW)
    lifecycle.judge_one(notebook.pk, now=NOW)
    assert not Finding.objects.exists()
    notebook.refresh_from_db()
    assert (notebook.gpu_idle_since, notebook.idle_stops_at) == (None, None)


def test_what_is_used_again_idles_since_no_time(notebook: Workload) -> None:
    judged(notebook, NOW)
    blind(NOW)
    seen("GPU-1-0", NOW, NOW + HOUR, busy=True)
    lifecycle.judge_one(notebook.pk, now=NOW + HOUR)
    notebook.refresh_from_db()
    assert notebook.gpu_idle_since is None


def test_rest_and_the_page_of_a_finding_say_it(cast: Cast, notebook: Workload, signed_in: SignedIn) -> None:
    IdlePolicy.objects.all().delete()
    says(notebook, NOW, running=1, kernels=2)
    row = judged(notebook, NOW)
    told = Api(cast.rosa).client.get(f"/api/v1/findings/{row.pk}").json()["evidence"]["ide"]
    assert (told["kernels"], told["running"], told["tabs"], told["terminals"]) == (2, 1, 1, 0)
    assert "2, 1 of them running code" in signed_in(cast.rosa).get(selectors.url_of(row)).content.decode()
    old = {k: v for k, v in row.evidence["ide"].items() if not k.startswith("terminal")}
    Finding.objects.update(evidence={**row.evidence, "ide": old})
    told = Api(cast.rosa).client.get(f"/api/v1/findings/{row.pk}").json()["evidence"]["ide"]
    assert (told["terminals"], told["terminal_activity"]) == (None, None), (
        "it was found before they were asked"
    )
    Finding.objects.update(evidence={k: v for k, v in row.evidence.items() if k != "ide"})
    assert Api(cast.rosa).client.get(f"/api/v1/findings/{row.pk}").json()["evidence"]["ide"] is None
    html = signed_in(cast.rosa).get(selectors.url_of(row)).content.decode()
    assert "<dt>Kernels</dt><dd>unknown</dd>" in html
    assert timedelta() < NOW - row.since
