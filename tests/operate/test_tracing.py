"""Traces: a click and the apply that it leads to are one, and a collector costs nobody's request anything."""

import base64
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextvars import Context
from io import StringIO
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.cluster.errors import Rejected
from apps.cluster.reconciling.services import traced as traces
from apps.cluster.specs import ObjectRef
from apps.web import spans
from apps.web.spans import Begin
from apps.web.stores import telling
from apps.workloads.lifecycle.services.reconcile import reconcile
from apps.workloads.models import Workload
from apps.workloads.periodic import sweep_workloads
from apps.workloads.tasks import reconcile_workload
from portal.operate import logs
from portal.operate.findings import OK, WRONG
from portal.operate.tracing import check, recording, starting
from tests.cluster.doubles import FakeCluster
from tests.conftest import Cast, client_of
from tests.operate.collector import Collector, collector, traced
from tests.patience import patient, until
from tests.ports import free_port
from tests.sandbox.running import Running, start
from tests.workloads.in_process import House
from tests.workloads.rest import Api, body, made, rosa

__all__ = ["collector", "rosa", "traced"]
ROOT = Path(__file__).resolve().parents[2]
CANARY = "c4n4ry-of-a-query"


def sent(traced: Collector) -> Collector:
    """All that was recorded so far is with the collector."""
    recording.stop()
    starting.start("web")
    return traced


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = start(tmp_path_factory.mktemp("sandbox"))
    yield found
    found.stop()


@pytest.fixture
def space(running: Running, cast: Cast) -> None:
    """The tenant's namespace in a sandbox that the product reaches by HTTPS."""
    cast.vision.cluster.__class__.objects.update(kubeconfig_path=str(running.kubeconfig))
    name = {"metadata": {"name": cast.vision.object_name}, "apiVersion": "v1", "kind": "Namespace"}
    running.call("POST", "/api/v1/namespaces", name)


def work() -> int:
    """Does the tasks that wait in the broker, each as in a process that knows nothing of who sent it."""
    server, done = telling.client(), 0
    for queue in [key for key in server.keys("celery*") if server.type(key) == "list"]:
        while raw := server.rpop(queue):
            message = json.loads(raw)
            args = json.loads(base64.b64decode(message["body"]))[0]
            assert message["headers"]["task"] == reconcile_workload.name
            Context().run(reconcile_workload, *args)
            done += 1
    return done


@pytest.mark.programs
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_lost", [False, True], ids=["hinted", "hint lost"])
def test_a_click_and_its_applies_are_one_trace(
    traced: Collector, broker: str, space: None, rosa: Api, *, is_lost: bool
) -> None:
    answer = rosa.call("post", body=body("nb-lost" if is_lost else "nb-told"))
    assert answer.status_code == 201, answer.content
    pk = answer.json()["id"]
    if is_lost:
        telling.client().flushall()
        sweep_workloads()
    assert work()

    found = sent(traced)
    click, turn, applies = found.one("POST"), found.one("reconcile workload"), found.named("apply ")
    assert click.parent == ""
    assert turn.parent == click.id
    assert applies
    assert {each.parent for each in applies} == {turn.id}
    assert {each.trace for each in (click, turn, *applies)} == {click.trace}
    assert click.about == {
        "http.request.method": "POST", "http.route": "/api/v1/workloads",
        "http.response.status_code": 201, "allotment.request_id": answer["X-Request-Id"],
    }  # fmt: skip
    assert click.events == ("wrote",)
    known = {name.removeprefix("allotment."): value for name, value in turn.about.items()}
    assert (known["id"], known["kind"], known["tenant"], known["generation"]) == (pk, "notebook", "vision", 1)
    assert (known["outcome"], known["attempts"], known["reason"]) == ("done", 0, "Applied")
    pods = [each for each in applies if each.about["k8s.kind"] == "Pod"]
    assert [each.about["http.response.status_code"] for each in pods] == [201]
    assert not any(each.failed for each in found.spans)
    assert {(each.part, each.service) for each in found.spans} == {("web", "allotment")}
    assert CANARY.encode() not in b"".join(found.bodies)


@pytest.mark.django_db(transaction=True)
def test_requests_that_met_in_one_reconcile_are_linked_and_later_ones_are_traces_of_their_own(
    traced: Collector, no_broker: None, rosa: Api
) -> None:
    pk = made(rosa)["id"]
    assert rosa.call("post", f"/{pk}/stop", {}, If_Match="*").status_code == 202
    for _ in range(2):
        Context().run(reconcile, pk, gateway=FakeCluster())

    found = sent(traced)
    make, stop = found.named("POST")
    first, second = found.named("reconcile")
    assert (first.parent, first.links, first.trace) == (stop.id, (make.id,), stop.trace)
    assert make.trace != stop.trace
    assert (second.parent, second.links) == ("", (stop.id,))
    assert second.trace not in (make.trace, stop.trace)


@pytest.mark.django_db(transaction=True)
def test_a_retry_stays_in_the_trace_and_says_why(traced: Collector, no_broker: None, rosa: Api) -> None:
    pk, cluster = made(rosa)["id"], FakeCluster()
    row = Workload.objects.get(pk=pk)
    cluster.fail = {
        ObjectRef("Pod", row.tenant.object_name, row.object_name): Rejected(403, "Forbidden", CANARY)
    }
    Context().run(reconcile, pk, gateway=cluster)
    Context().run(reconcile, pk, gateway=cluster)

    found = sent(traced)
    failed, done = found.named("reconcile")
    assert {each.parent for each in (failed, done)} == {found.one("POST").id}
    assert (failed.failed, failed.about["allotment.outcome"], failed.about["error.type"]) == (
        True,
        "failed",
        "Forbidden",
    )
    assert (done.failed, done.about["allotment.attempts"]) == (False, 0)
    assert CANARY.encode() not in b"".join(found.bodies)


@pytest.mark.django_db(transaction=True)
def test_that_it_runs_is_a_moment_of_the_clicks_trace(traced: Collector, no_broker: None, rosa: Api) -> None:
    house = House(Workload.objects.get(pk=made(rosa)["id"]))
    Context().run(house.start)

    found = sent(traced)
    assert found.one("workload runs").parent == found.one("POST").id


@pytest.mark.django_db(transaction=True)
def test_what_is_not_sampled_costs_no_statement_and_leaves_nothing(
    collector: Collector, no_broker: None, rosa: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert rosa.call("post", f"/{pk}/stop", {}, If_Match="*").status_code == 202
        return len(asked)

    pk = made(rosa)["id"]
    statements()
    plain = statements()
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    starting.start("web")
    try:
        assert statements() == plain
    finally:
        recording.stop()
    assert Workload.objects.get(pk=pk).traces == ""
    assert collector.spans == []


@pytest.mark.django_db
def test_what_nobody_waits_for_is_no_trace_and_a_callers_own_is_not_believed(
    traced: Collector, no_broker: None, cast: Cast
) -> None:
    client, forged = client_of(cast.rosa), "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    client.get("/healthz")
    client.get(f"/api/v1/workloads?note={CANARY}", headers={"traceparent": forged})
    client.get(f"/nowhere/{CANARY}")
    client.generic("EVIL", "/api/v1/workloads")

    found = sent(traced)
    assert [each.name for each in found.spans] == ["GET /api/v1/workloads", "GET", "_OTHER /api/v1/workloads"]
    assert not any(each.parent or each.trace == forged[3:35] for each in found.spans)
    assert CANARY.encode() not in b"".join(found.bodies)


def test_a_span_fails_by_a_word_and_never_by_a_message(traced: Collector) -> None:
    def fail() -> None:
        with spans.span(Begin("a step", {})):
            raise ValueError(CANARY)

    with pytest.raises(ValueError, match=CANARY):
        fail()
    assert spans.current() == ""
    step = sent(traced).one("a step")
    assert (step.failed, step.about) == (True, {"error.type": "ValueError"})
    assert CANARY.encode() not in b"".join(traced.bodies)


def test_a_call_is_a_step_of_what_is_recorded_and_nothing_by_itself(traced: Collector) -> None:
    with spans.step("apply Pod", {}):
        pass
    with spans.span(Begin("outside", {})), spans.step("apply Pod", {}):
        pass
    found = sent(traced)
    assert found.one("apply").parent == found.one("outside").id


def test_a_row_remembers_the_newest_requests_and_its_column_holds_them() -> None:
    asked = [traces.Asked(2**31 - 1 - number, f"00-{number:032x}-{number:016x}-01") for number in range(9)]
    text = traces.written(asked)
    assert traces.read(text) == asked[: traces.MOST]
    field = Workload._meta.get_field("traces")
    assert len(text) <= (field.max_length or 0)
    assert traces.read("") == []


def test_a_line_of_the_log_says_of_which_trace_it_is(traced: Collector) -> None:
    out = StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logs.JsonFormatter())
    log = logging.getLogger("apps.test.tracing")
    log.addHandler(handler)
    try:
        log.warning("before")
        with spans.span(Begin("a step", {})):
            log.warning("within")
    finally:
        log.removeHandler(handler)
    before, within = (json.loads(line) for line in out.getvalue().splitlines())
    assert "trace_id" not in before
    assert within["trace_id"] == sent(traced).one("a step").trace


@pytest.mark.django_db
def test_a_collector_that_does_not_answer_holds_up_neither_a_request_nor_the_end(
    traced: Collector, no_broker: None, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    sent(traced)
    traced.goes_on.clear()
    client = client_of(cast.rosa)
    assert client.get("/api/v1/workloads").status_code == 200
    assert traced.came.wait(patient(10)), "nothing was sent"
    # It is being sent now, and nobody answers.
    assert client.get("/api/v1/workloads").status_code == 200
    began = time.monotonic()
    recording.stop()
    assert time.monotonic() - began < patient(2 * recording.STOP_SECONDS)
    assert not traced.goes_on.is_set()
    assert traced.spans == []


def test_an_outage_of_the_collector_is_one_line_at_its_begin_and_one_at_its_end(
    traced: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    sent(traced)

    def lines() -> list[str]:
        return [each.message.partition(" after")[0] for each in caplog.records]

    def step() -> None:
        before = len(traced.bodies)
        with spans.span(Begin("a step", {})):
            pass
        until(lambda: len(traced.bodies) > before, "it to be sent", 20, every=0.01)

    traced.code = 400
    step()
    step()
    traced.code = 200
    step()
    until(lambda: len(lines()) > 1, "the log to say so", 10, every=0.01)
    assert [line.partition(":")[0] for line in lines()] == [
        "the collector of traces does not answer", "the collector of traces answers again",
    ]  # fmt: skip


READ = """
import logging, sys
logging.basicConfig()
import portal.asgi, portal.run.worker
from django.test import Client
from portal.operate.tracing import starting
starting.read_ahead()
starting.start("web")
Client(SERVER_NAME="localhost").get("/healthz")
starting.stop()
# Redis' client reads the metrics of an SDK that is there, whatever anybody wants of it.
ours = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "opentelemetry.proto", "google.protobuf")
print(*(name for name in sys.modules if name in ours))
"""


def begun(tmp_path: Path, words: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """A process that starts as the web does."""
    env = {"PATH": "/usr/bin:/bin", "ALLOTMENT_HOME": str(tmp_path), **variables}
    return subprocess.run(
        [sys.executable, "-c", words + READ], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def test_without_a_collector_nothing_of_opentelemetry_is_read(tmp_path: Path) -> None:
    done = begun(tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
    named = begun(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert "opentelemetry.sdk.trace" in named.stdout.split()


def test_without_its_packages_the_product_starts_and_says_what_to_run(tmp_path: Path) -> None:
    absent = "import sys; sys.modules['opentelemetry'] = None\n"
    done = begun(tmp_path, absent, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
    assert done.stderr.count(starting.INSTALL) == 1


@pytest.mark.parametrize(
    ("environment", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_variables_of_the_sdk_decide(environment: dict[str, str], *, is_wanted: bool) -> None:
    assert starting.is_wanted(environment) is is_wanted


def test_the_service_is_called_as_its_operator_says_and_headers_may_be_a_file(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "otel_exporter_otlp_headers").write_text("x-tenant=lab\n")
    monkeypatch.setattr(starting, "SECRETS", tmp_path)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gpus")
    monkeypatch.setenv(starting.HEADERS, "")
    monkeypatch.delenv(starting.HEADERS)
    starting.start("worker")
    with spans.span(Begin("a step", {})):
        pass
    recording.stop()
    assert [(each.service, each.part) for each in collector.spans] == [("gpus", "worker")]
    assert collector.headers[0]["x-tenant"] == "lab"


def test_the_doctor_says_whether_it_is_off_broken_or_on(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    def found() -> tuple[str, str]:
        (one,) = check.check()
        return one.state, one.line

    assert found()[0] == OK
    assert "takes spans" in found()[1]
    collector.code = 401
    assert (found()[0], "takes nothing" in found()[1]) == (WRONG, True)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert found()[0] == WRONG
    monkeypatch.setitem(sys.modules, "portal.operate.tracing.recording", None)
    assert (found()[0], starting.INSTALL in found()[1]) == (WRONG, True)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert found()[0] == OK
