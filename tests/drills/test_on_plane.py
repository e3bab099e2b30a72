"""The whole product on a real control plane: a race, drift, a hung API server."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.tenants.specs import NOTEBOOKS
from tests.controlplane.plane import Outage
from tests.drills.installed import SLICE, Installed, clear, labelled
from tests.patience import patient, until

pytestmark = [pytest.mark.exhaustive, pytest.mark.plane, pytest.mark.timeout(7200)]

ASKERS = int(os.environ.get("DRILL_PLANE_ASKERS", "25"))
ROUNDS = int(os.environ.get("DRILL_PLANE_ROUNDS", "1"))
HUNG_SECONDS = float(os.environ.get("DRILL_HUNG_SECONDS", "20"))

Record = Callable[[str, object], None]


def used(demo: Installed) -> int:
    """What Kueue says is used of the slice, over all queues."""
    queues = json.loads(demo.plane.kubectl("get", "clusterqueues", "-o", "json"))["items"]
    return sum(
        int(resource.get("total", 0))
        for queue in queues
        for flavor in queue.get("status", {}).get("flavorsUsage") or ()
        for resource in flavor["resources"]
        if resource["name"].endswith(SLICE)
    )


def test_one_of_many_holds_the_last_slice(demo: Installed, record_property: Record) -> None:
    for number in range(ROUNDS):
        pks = demo.submit_many([f"race{number}-{n}" for n in range(ASKERS)])

        def phases() -> list[str]:
            return [row[0] for row in demo.rows("phase", "deleted_at is null")]

        until(lambda: phases().count("Running") == 1, "one to run", 60)
        until(lambda: len(labelled(demo, "pod")) == ASKERS, "all to be queued", 60)
        assert (phases().count("Running"), phases().count("Pending")) == (1, ASKERS - 1)
        # Kueue writes its status a moment after it decides.
        until(lambda: used(demo) == 1, "the ledger to say one", 20)
        waits = [shown for pk in pks if (shown := demo.shown(pk))["status"]["phase"] == "Pending"]
        assert [w["slug"] for w in waits if not w["status"]["queue"]["message"]] == []
        clear(demo)
        until(lambda: used(demo) == 0, "the ledger to say none", 20)
    record_property("n", ROUNDS * ASKERS)
    assert labelled(demo, "service,pvc,pod") == []


def running(demo: Installed, slug: str) -> tuple[str, Any]:
    pk = demo.submit(slug)
    until(lambda: demo.row(pk, "phase")[0] == "Running", f"{slug} to run", 60)
    (found,) = labelled(demo, "pod")
    return pk, found


def test_what_kubectl_changed_is_put_back_within_a_minute(demo: Installed, record_property: Record) -> None:
    _, made = running(demo, "drift")
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    began = time.monotonic()
    demo.plane.kubectl("-n", namespace, "label", "pod", name, "allotment.dev/ingress=none", "--overwrite")
    demo.plane.kubectl("-n", namespace, "delete", "service", NOTEBOOKS)

    def label() -> Any:
        (pod,) = labelled(demo, "pod")
        return pod["metadata"]["labels"]["allotment.dev/ingress"]

    def services() -> str:
        return demo.plane.kubectl("-n", namespace, "get", "services", "-o", "name")

    until(lambda: label() == "proxy" and NOTEBOOKS in services(), "both to be put back", 60)
    took = time.monotonic() - began
    record_property("repaired_seconds", round(took, 1))
    assert took < patient(60)
    (kept,) = labelled(demo, "pod")
    assert kept["metadata"]["uid"] == made["metadata"]["uid"], "mended, not made anew"

    def told() -> dict[str, Any]:
        items = demo.petra.get("/drift", params={"state": "healed", "tenant": "vision"}).json()["items"]
        return {each["kind"]: each for each in items if each["name"] in (name, NOTEBOOKS)}

    until(lambda: told().keys() == {"Pod", "Service"}, "the book to have both", 20)
    (field,) = told()["Pod"]["fields"]
    assert (field["ours"], field["theirs"], field["manager"]) == ('"proxy"', '"none"', "kubectl-label")
    assert told()["Service"]["difference"] == "missing"


def test_a_hung_api_server_delays_and_the_portal_answers_meanwhile(
    demo: Installed, record_property: Record
) -> None:
    pk, _ = running(demo, "before")
    took: list[float] = []
    demo.plane.stop_component("kube-apiserver", Outage.PAUSE)
    try:
        began = time.monotonic()
        asked = demo.submit("meanwhile")
        demo.rest.post(f"/workloads/{pk}/stop", json={}, headers={"If-Match": "*"})
        while time.monotonic() - began < HUNG_SECONDS:
            at = time.monotonic()
            demo.shown(asked)
            took.append(time.monotonic() - at)
            time.sleep(0.2)
        said = demo.petra.get("/clusters").json()["items"][0]
    finally:
        demo.plane.start_component("kube-apiserver")
    back = time.monotonic()
    until(lambda: demo.row(asked, "phase")[0] == "Running", "what was asked meanwhile to run", 90)
    record_property("caught_up_seconds", round(time.monotonic() - back, 1))
    record_property("slowest_answer_seconds", round(max(took), 2))
    assert max(took) < patient(2)
    assert "No answer since" in json.dumps(said)
    assert demo.row(asked, "attempts")[0] == 0
