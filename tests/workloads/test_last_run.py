"""What is kept of a run that is over: in the sandbox from the failure to the page, and its rules alone."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.cluster.errors import Rejected, Unreachable
from apps.cluster.models import MirrorObject
from apps.workloads.lifecycle.selectors import kept_logs
from apps.workloads.lifecycle.services import log_keeping, verbs
from apps.workloads.log_models import KeptLog, LogPiece
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase
from apps.workloads.status import last_run
from tests.conftest import Cast, SignedIn, as_actor
from tests.workloads import bodies
from tests.workloads.asking import submit
from tests.workloads.in_process import House
from tests.workloads.lab import Lab
from tests.workloads.rest import URL, Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.mark.django_db(transaction=True)
def test_a_failed_job_tells_its_cause_events_and_log_once_its_pods_are_gone(
    cast: Cast, signed_in: SignedIn
) -> None:
    lab = Lab(cast)
    row = submit(cast, kind="job", volumes=[], command=["sh", "-c", "sleep 25; exit 3"])
    for _ in range(12):
        lab.turn(row, 5)
    assert row.phase == Phase.FAILED
    Workload.objects.update(due_at=None)
    lab.lose(row)
    assert not MirrorObject.objects.filter(kind="Pod", gone_at=None).exists()

    log = see_in_rest(row, Api(cast.rosa), Api(cast.otto))
    see_on_pages(row, log, signed_in(cast.rosa), signed_in(cast.otto))


def see_in_rest(row: Workload, rosa: Api, otto: Api) -> dict[str, Any]:
    (told,) = rosa.call("get").json()["items"]
    ended = told["status"]["last_run"]
    assert ended["outcome"] == "failed"
    assert ended["cause"].startswith("It ended with exit code 3.")
    (log,) = ended["logs"]
    assert (log["container"], log["problem"], log["is_cut"]) == ("main", None, False)
    answer = rosa.call("get", f"/{row.pk}/logs?tail=1")
    assert answer.content.decode() == "RuntimeError: a simulated failure (exit code 3)\n"
    assert answer["Log-Kept-At"]
    assert len(async_to_sync(download)(rosa, f"{URL}/{row.pk}/logs?kept=true")) == log["size"] > 100
    events = rosa.call("get", f"/{row.pk}/events").json()["items"]
    assert {"Started", "BackoffLimitExceeded"} <= {each["reason"] for each in events}
    for tail in ("logs", "logs?kept=true", "logs?follow=true"):
        assert otto.call("get", f"/{row.pk}/{tail}").status_code == 404
    found: dict[str, Any] = log
    return found


def see_on_pages(row: Workload, log: dict[str, Any], rosa: Client, otto: Client) -> None:
    at = f"/t/vision/workloads/{row.pk}/"
    page, lines = (rosa.get(f"{at}{tail}").content.decode() for tail in ("", "logs/"))
    assert "How it ended" in page
    assert "It ended with exit code 3." in page
    assert "BackoffLimitExceeded" in page
    assert "RuntimeError: a simulated failure (exit code 3)" in page
    assert f'href="{at}logs.txt?pod={log["pod"]}" download' in page
    assert "RuntimeError: a simulated failure (exit code 3)" in lines
    file = rosa.get(f"{at}logs.txt")
    assert file["Content-Disposition"] == f'attachment; filename="{row.slug}-{log["pod"]}.log"'
    assert otto.get(f"{at}logs.txt?pod={log['pod']}").status_code == 404


async def download(api: Api, url: str) -> bytes:
    answer: Any = await AsyncClient().get(
        url, headers={"Authorization": api.client.defaults["HTTP_AUTHORIZATION"]}
    )
    assert "filename=" in answer["Content-Disposition"]
    return b"".join([chunk async for chunk in answer])


LIVES: dict[str, Any] = {
    "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": bodies.AT}}}]
}


@pytest.fixture
def house(cast: Cast) -> House:
    house = House(submit(cast))
    house.start(**LIVES)
    return house


def stop(house: House) -> None:
    house.row.refresh_from_db()
    verbs.stop_workload(actor=as_actor(house.row.owner), workload=house.row, reason="", now=timezone.now())


def kept(house: House) -> last_run.LastRun:
    house.row.refresh_from_db()
    run = last_run.stored(house.row.last_run)
    assert run is not None
    return run


def test_the_log_of_what_is_stopped_is_read_before_its_objects_go(house: House) -> None:
    house.cluster.log = [b"one\ntw", b"o\n"]
    with CaptureQueriesContext(connection) as queries:
        house.turn()
    assert not [each for each in queries if "keptlog" in each["sql"]], "what runs costs nothing more"
    stop(house)
    house.turn()
    assert house.kinds() == ["PersistentVolumeClaim"]
    run = kept(house)
    assert (run.outcome, run.cause, run.logs[0].size) == (last_run.Outcome.STOPPED, "It was stopped.", 8)
    log = kept_logs.log_of(house.row)
    assert log is not None
    assert (kept_logs.end_of(log, 1), kept_logs.end_of(log, 9)) == ("two\n", "one\ntwo\n")


def test_a_worker_that_dies_in_between_neither_loses_a_log_nor_reads_it_twice(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.cluster.log = [b"last words\n"]
    stop(house)
    with monkeypatch.context() as broken:
        broken.setattr("apps.workloads.lifecycle.services.reconcile.diff", None)
        assert house.turn().last_run is None
    Workload.objects.update(due_at=None)
    house.turn()
    assert kept(house).logs[0].size == 11
    assert (house.cluster.logs_read, LogPiece.objects.count()) == (1, 1)


@pytest.mark.parametrize(
    "error", [Unreachable("dial tcp: i/o timeout"), Rejected(400, "BadRequest", "no such container")]
)
def test_a_log_that_cannot_be_read_holds_nothing_up_and_says_so(
    house: House, error: Exception, cast: Cast
) -> None:
    house.cluster.log = error
    stop(house)
    assert house.turn().phase == Phase.STOPPING
    assert house.kinds() == ["PersistentVolumeClaim"]
    words = str(error)
    assert [note.problem for note in kept(house).logs] == [words]
    house.turn()
    assert kept(house).tries == 1, "a moment later it is tried again, not at once"
    house.forget("Pod", "Workload")
    assert house.turn().phase == Phase.STOPPED
    answer = Api(cast.rosa).call("get", f"/{house.row.pk}/logs")
    assert answer.status_code == 409
    assert answer.json()["detail"] == f"The log could not be read when the run ended: {words}"


def test_it_is_tried_three_times_and_no_more() -> None:
    now = timezone.now()
    note = last_run.LogNote("p", "main", problem="no answer")
    run = last_run.LastRun(last_run.Outcome.FAILED, "", 1, now, None, now, logs=(note,))
    due = [replace(run, tries=tries).is_due(now + timedelta(hours=1)) for tries in range(5)]
    assert due == [True, True, True, False, False]
    assert not replace(run, tries=1).is_due(now)
    assert last_run.stored(run.as_json()) == run


def test_the_logs_of_a_tenant_are_bounded_and_old_ones_go(house: House, settings: Any) -> None:
    now = timezone.now()

    def make(size: int, days: int) -> None:
        KeptLog.objects.create(
            workload=house.row, tenant=house.row.tenant, pod=f"p{days}", pod_uid=f"u{days}", container="main",
            place=0, size=size, stored_size=size, is_cut=False, kept_at=now - timedelta(days=days),
        )  # fmt: skip

    settings.CONFIG = settings.CONFIG.model_copy(update={"kept_log_megabytes": 2, "kept_log_days": 30})
    for days in (1, 3, 29, 31):
        make(log_keeping.MEGABYTE, days)
    log_keeping._keep_bound(house.row.tenant_id)
    assert sorted(KeptLog.objects.values_list("pod", flat=True)) == ["p1", "p3"]
    make(1, 31)
    assert log_keeping.prune(now) == 1
    Workload.objects.update(deleted_at=now)
    assert log_keeping.prune(now) == 2


def test_the_clusters_events_are_kept_once(house: House) -> None:
    event = {
        "kind": "Event",
        "metadata": {"name": "e1", "uid": "e1"},
        "involvedObject": {"kind": "Pod", "uid": house.controller["uid"], "name": "w"},
        "type": "Warning",
        "reason": "OOMKilling",
        "message": "Memory cgroup out of memory",
        "lastTimestamp": bodies.AT,
    }
    house.tell(event)
    stop(house)
    for _ in range(3):
        house.turn()
    assert WorkloadEvent.objects.filter(source="kubernetes", reason="OOMKilling").count() == 1
