"""The whole installation, traced: a click in one process and its apply in another are one trace."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.operate.collector import Collector, collector
from tests.patience import until
from tests.ports import free_port
from tests.story.conftest import Installation, running

__all__ = ["collector"]
pytestmark = [pytest.mark.exhaustive, pytest.mark.programs, pytest.mark.timeout(300)]


@pytest.fixture
def demo(collector: Collector, tmp_path: Path) -> Iterator[Installation]:
    """On a simulated cluster, its processes with the variables that name the collector."""
    port = free_port(run=2)
    with running(tmp_path, port, "--fleet", "lab") as (output, _):
        yield Installation(f"http://127.0.0.1:{port}", tmp_path, None, output)


def ask(rest: httpx.Client, offer: str) -> httpx.Response:
    body = {"tenant": "vision", "slug": "traced", "spec": {"kind": "notebook", "offer": offer}}
    return rest.post("/workloads", json=body, headers={"Idempotency-Key": str(uuid4())})


def test_a_click_its_apply_and_that_it_runs_are_one_trace_of_two_processes(
    demo: Installation, collector: Collector
) -> None:
    rest = demo.client("researcher")
    offers = [offer["slug"] for offer in rest.get("/offers").json()["items"]]
    # The team has a quota of some of them.
    answer = next(each for each in (ask(rest, offer) for offer in offers) if each.status_code == 201)
    pk = answer.json()["id"]

    (runs,) = until(
        lambda: [each for each in collector.named("workload runs") if each.about["allotment.id"] == pk],
        "it to be seen running",
        120,
        told=lambda: rest.get(f"/workloads/{pk}").text,
    )
    trace = [each for each in collector.spans if each.trace == runs.trace]
    (click,) = [each for each in trace if not each.parent]
    turns = [each for each in trace if each.name == "reconcile workload"]
    applies = [each for each in trace if each.name.startswith("apply ")]
    assert (click.name, click.part) == ("POST /api/v1/workloads", "web")
    assert click.about["allotment.request_id"] == answer.headers["X-Request-Id"]
    assert {(each.part, each.parent) for each in turns} == {("worker", click.id)}
    assert {each.parent for each in applies} <= {each.id for each in turns}
    assert {each.about["k8s.kind"] for each in applies} >= {"Pod"}
