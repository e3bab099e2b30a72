"""The researcher's story over REST, on a real API server, scheduler and Kueue.

One 1g.10gb slice exists. A job holds it; a notebook waits, starts when the job ends, stops, resumes, goes.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.factories import notebook_body
from tests.patience import patient, until
from tests.story.by_rest import SLICE, act, ask, job, reach
from tests.story.conftest import Installation

pytestmark = [pytest.mark.plane, pytest.mark.timeout(300)]


@pytest.fixture
def rosa(installation: Installation) -> Iterator[httpx.Client]:
    with installation.client("researcher") as client:
        yield client
        for item in client.get("/workloads").json()["items"]:
            client.delete(f"/workloads/{item['id']}", headers={"If-Match": "*"})
        until(
            lambda: client.get("/workloads").json()["items"] == [],
            "the workloads of this test to be gone",
            60,
        )


def test_a_notebook_waits_for_a_job_then_runs_stops_resumes_and_goes(
    installation: Installation, rosa: httpx.Client
) -> None:
    running = reach(rosa, ask(rosa, "sweep-7", job(14)), "Running")
    notebook = ask(rosa, "nb-ada", notebook_body(SLICE))

    def explained() -> dict[str, Any] | None:
        queue = rosa.get(f"/workloads/{notebook['id']}").json()["status"]["queue"]
        return queue if queue and queue["position"] else None

    queue = until(explained, "the reason it waits", 15)
    assert (queue["position"], queue["of"]) == (1, 1)
    assert [(h["tenant"], h["offer"], h["count"]) for h in queue["holders"]] == [("vision", SLICE, 1)]
    assert "vision" in queue["message"]

    reach(rosa, running, "Succeeded")
    placed = reach(rosa, notebook, "Running")["status"]["placement"]
    assert next(device["name"] for pod in placed for device in pod["devices"]).startswith(
        "gpu-01/gpu-0-mig-1g"
    )
    assert placed[0]["node"] == "gpu-01"

    act(rosa, notebook, "stop", reason="lunch")
    reach(rosa, notebook, "Stopped")
    assert [o for o in installation.objects(notebook["id"]) if "service" not in o] == [
        f"persistentvolumeclaim/{claim}" for claim in claims(installation, notebook)
    ]
    act(rosa, notebook, "resume")
    back = reach(rosa, notebook, "Running")
    later = act(rosa, notebook, "extend", seconds=3600)
    assert later["status"]["countdown"]["stops_at"] > back["status"]["countdown"]["stops_at"]

    gone = rosa.delete(f"/workloads/{notebook['id']}", headers={"If-Match": "*"})
    assert gone.status_code == 202
    until(lambda: rosa.get(f"/workloads/{notebook['id']}").status_code == 404, "the notebook to be gone", 60)
    assert installation.objects(notebook["id"]) == []
    assert installation.plane
    assert installation.plane.kubectl("get", "resourceclaims", "-A", "-o", "name").split() == []


def claims(installation: Installation, workload: dict[str, Any]) -> list[str]:
    found = installation.objects(workload["id"], "pvc")
    assert found, "the volume claim must outlive the stop"
    return [name.split("/")[1] for name in found]


def test_a_waiting_notebook_that_is_stopped_does_not_take_the_slice_that_frees_next(
    installation: Installation, rosa: httpx.Client
) -> None:
    holder = reach(rosa, ask(rosa, "nb-first", notebook_body(SLICE)), "Running")
    waiting = reach(rosa, ask(rosa, "nb-second", notebook_body(SLICE)), "Pending")
    act(rosa, waiting, "stop")
    reach(rosa, waiting, "Stopped")
    act(rosa, holder, "stop")
    reach(rosa, holder, "Stopped")
    third = reach(rosa, ask(rosa, "nb-third", notebook_body(SLICE)), "Running")
    assert reach(rosa, waiting, "Stopped")["status"]["placement"] == []
    assert third["status"]["placement"][0]["node"] == "gpu-01"


def test_allocations_and_cost_follow_the_claim(installation: Installation, rosa: httpx.Client) -> None:
    done = reach(rosa, ask(rosa, "sweep-8", job(6)), "Succeeded")

    def billed() -> dict[str, Any] | None:
        cost = rosa.get(f"/workloads/{done['id']}").json()["status"]["cost"]
        # The clock may have priced it while it ran: all of it is priced once nothing of it costs any more.
        return cost if cost["hourly"] is None and float(cost["allocated"]["amount"]) > 0 else None

    cost = until(billed, "the cost of all of it", 45)
    offers = rosa.get("/offers").json()["items"]
    hourly = next(float(o["status"]["price"]["hourly"]["amount"]) for o in offers if o["slug"] == SLICE)
    seconds = float(cost["allocated"]["amount"]) / hourly * 3600
    assert 5 <= seconds <= patient(15)
    allocated = rosa.get("/allocations", params={"workload": done["id"]}).json()["items"]
    assert [(a["share"], a["to"] is not None) for a in allocated] == [("1/7", True)]


def test_what_can_never_fit_is_refused_with_the_figure_that_would(rosa: httpx.Client) -> None:
    answer = rosa.post(
        "/workloads", json={"tenant": "vision", "slug": "huge", "spec": notebook_body(SLICE, count=16)}
    )
    assert answer.status_code == 409
    body = answer.json()
    assert (body["code"], body["quota"]["requested"], body["quota"]["nominal_quota"]) == (
        "quota_exceeded",
        16,
        1,
    )
    assert body["hint"]


def test_a_dry_run_stores_nothing_and_its_manifests_are_accepted_by_the_api_server(
    installation: Installation, rosa: httpx.Client
) -> None:
    wish = {"tenant": "vision", "slug": "try", "spec": notebook_body(SLICE)}

    def fits() -> dict[str, Any] | None:
        answer = rosa.post("/workloads?dry_run=true", json=wish)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found if found["fit"]["verdict"] == "now" else None

    # What ran before may still be on its way off the device.
    body = until(fits, "the slice to be free", 45)
    assert float(body["price"]["hourly"]["amount"]) > 0
    kinds = {m["kind"] for m in body["manifests"]}
    assert kinds == {"PersistentVolumeClaim", "Secret", "Pod"}
    assert rosa.get("/workloads?slug=try&tenant=vision").json()["items"] == []
