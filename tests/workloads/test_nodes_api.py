"""Nodes over REST and in the console: whom they serve, and handing them over with the effect told first."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.notices.models import Notice
from apps.tenants.models import NodeAssignment, Tenant
from apps.tenants.specs import Isolation, NodePhase
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.nodes.services import node_drain
from apps.workloads.specs import Phase
from tests.conftest import Cast
from tests.factories import make_workload
from tests.tenants.rest import Rest

pytestmark = pytest.mark.filterwarnings("ignore:No directory at")


@pytest.fixture
def house(cast: Cast) -> Cast:
    """gpu-01 runs a notebook of speech and a pod that was made past the portal; vision may have nodes."""
    Tenant.objects.filter(slug="vision").update(isolation=Isolation.DEDICATED_NODES)
    cast.vision.refresh_from_db()
    row = make_workload(cast.speech, cast.leon, cast.offer, slug="nb-speech")
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING)
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    good = [{"type": "Ready", "status": "True"}]
    ready = {"allocatable": {"cpu": "64", "memory": "512Gi"}, "conditions": good}
    node = {"metadata": meta("gpu-01", labels=labels), "spec": {}, "status": ready}
    place = cast.speech.object_name
    runs = {"spec": {"nodeName": "gpu-01"}, "status": {"phase": "Running"}}
    pods = [{"metadata": meta(name, namespace=place), **runs} for name in ("nb-speech-0", "past-the-portal")]
    seen = [Sighting("Node", node), *(Sighting("Pod", pod) for pod in pods)]
    mirror_table.record_seen(cast.vision.cluster, seen, now=timezone.now())
    own = MirrorObject.objects.filter(kind="Pod", name="nb-speech-0")
    own.update(owner_kind="workload", owner_id=str(row.pk))
    return cast


def meta(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", **rest}


def test_a_node_says_its_flavor_and_that_it_serves_everybody(house: Cast) -> None:
    node = Rest(house.petra).get("/nodes/gpu-01").json()

    assert (node["flavor"], node["posture"]) == ("h100", "shared")
    assert (node["tenant"], node["handover"]) == (None, None)
    assert (node["cpu"], node["memory"], node["ready"]) == ("64", "512Gi", True)
    assert Rest(house.rosa).get("/nodes").json()["items"] == []


def test_a_rehearsal_names_who_would_have_to_leave_and_changes_nothing(house: Cast) -> None:
    told = Rest(house.petra).send("POST", "/nodes/gpu-01/assign?dry_run=true", {"tenant": "vision"}).json()

    assert told["dry_run"] is True
    assert told["result"]["posture"] == "clearing"
    leaves, stays = told["warnings"]
    assert "nb-speech of speech runs there and is asked to stop at" in leaves
    assert "past-the-portal was made outside the portal" in stays
    assert not NodeAssignment.objects.exists()
    assert not WorkloadEvent.objects.exists()


def test_handing_a_node_over_warns_those_who_have_to_leave(house: Cast) -> None:
    wish = {"tenant": "vision", "notice_seconds": 600, "reason": "they bought it"}

    answer = Rest(house.petra).send("POST", "/nodes/gpu-01/assign", wish)

    node = answer.json()
    assert (answer.status_code, node["posture"], node["tenant"]) == (202, "clearing", "vision")
    assert node["handover"]["reason"] == "they bought it"
    assert "will be asked to stop at" in WorkloadEvent.objects.get(reason="NodeHandover").message
    assert Notice.objects.get(user=house.leon).url.startswith("/t/speech/workloads/")


@pytest.mark.parametrize("tenant", ["vision", None])
def test_handing_over_again_announces_no_other_time(house: Cast, tenant: str | None) -> None:
    """RULE: the first notice stands, and whoever asks again is shown that."""
    act, petra = "assign" if tenant else "release", Rest(house.petra)
    if tenant is None:
        place = {"cluster": house.speech.cluster, "node": "gpu-01", "phase": NodePhase.ASSIGNED}
        NodeAssignment.objects.create(tenant=house.speech, **place)
    for notice in (600, 86400):
        wish = {"notice_seconds": notice} | ({"tenant": tenant} if tenant else {})
        assert petra.send("POST", f"/nodes/gpu-01/{act}", wish).status_code == 202
    stop_at = NodeAssignment.objects.get().stop_at
    assert stop_at is not None
    words = f"asked to stop at {stop_at:%Y-%m-%d %H:%M} UTC"
    assert words in WorkloadEvent.objects.get(reason="NodeHandover").message
    assert Notice.objects.filter(user=house.leon).count() == 1
    again = petra.send("POST", f"/nodes/gpu-01/{act}?dry_run=true", wish).json()
    assert words in again["warnings"][0]


@pytest.mark.both_databases
def test_work_is_asked_to_stop_only_once_its_notice_is_over(house: Cast) -> None:
    wish = {"tenant": "vision", "notice_seconds": 600}
    Rest(house.petra).send("POST", "/nodes/gpu-01/assign", wish)

    assert node_drain.stop_due(now=timezone.now()) == 0
    assert node_drain.stop_due(now=timezone.now() + timedelta(minutes=11)) == 1

    row = Workload.objects.get(slug="nb-speech")
    assert (row.suspended, row.phase) == (True, Phase.STOPPING)
    assert node_drain.stop_due(now=timezone.now() + timedelta(minutes=12)) == 0, "it is asked once"


def test_a_node_goes_back_and_its_tenants_work_is_named(house: Cast) -> None:
    row = NodeAssignment.objects.create(
        cluster=house.speech.cluster, tenant=house.speech, node="gpu-01", phase=NodePhase.ASSIGNED
    )
    told = Rest(house.petra).send("POST", "/nodes/gpu-01/release?dry_run=true", {}).json()
    assert "nb-speech of speech" in told["warnings"][0]

    answer = Rest(house.petra).send("POST", "/nodes/gpu-01/release", {"notice_seconds": 0})

    assert (answer.status_code, answer.json()["posture"]) == (202, "releasing")
    row.refresh_from_db()
    assert row.deleting_at is not None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"tenant": "nobody"}, 422),
        ({"tenant": "speech"}, 422),
        ({}, 422),
        ({"tenant": "vision", "notice_seconds": -1}, 422),
        ({"tenant": "vision", "notice": 3}, 422),
    ],
)
def test_a_wrong_hand_over_is_refused(house: Cast, body: dict[str, Any], status: int) -> None:
    assert Rest(house.petra).send("POST", "/nodes/gpu-01/assign", body).status_code == status


def test_a_node_that_serves_everybody_is_not_given_back(house: Cast) -> None:
    assert Rest(house.petra).send("POST", "/nodes/gpu-01/release", {}).status_code == 409


def test_only_platform_engineers_hand_nodes_over(house: Cast) -> None:
    wish = {"tenant": "vision"}

    assert Rest(house.ann).send("POST", "/nodes/gpu-01/assign", wish).status_code == 403
    assert Rest(house.rosa).send("POST", "/nodes/gpu-01/assign", wish).status_code == 404


def browser(user: Any) -> Client:
    made = Client()
    made.force_login(user)
    return made


def test_the_page_shows_what_it_means_before_it_is_done(house: Cast) -> None:
    petra = browser(house.petra)
    page = petra.get("/console/nodes/gpu-01/handover/?tenant=vision&notice=3600&reason=").content.decode()

    assert "Give gpu-01 to Vision?" in page
    assert "nb-speech of speech runs there" in page
    assert not NodeAssignment.objects.exists()
    wish = {"tenant": "vision", "notice": "3600", "reason": "r"}
    done = petra.post("/console/nodes/gpu-01/handover/", wish)

    assert done.status_code == 303
    assert NodeAssignment.objects.get().reason == "r"
    shown = petra.get("/console/nodes/gpu-01/").content.decode()
    assert "Being cleared for one tenant" in shown


def test_a_wrong_choice_comes_back_and_nobody_else_has_the_page(house: Cast) -> None:
    wrong = browser(house.petra).post("/console/nodes/gpu-01/handover/", {"tenant": "nobody", "notice": "1"})

    assert wrong.status_code == 422
    assert browser(house.ann).get("/console/nodes/gpu-01/handover/").status_code == 404
    assert browser(house.rosa).get("/console/nodes/gpu-01/handover/").status_code == 404
    assert browser(house.petra).get("/console/nodes/gpu-99/handover/").status_code == 404
