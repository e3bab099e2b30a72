"""What is asked for in one pod lies on one node: what no node has is refused, what lies apart waits."""

import copy
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.accounts.specs import system_actor
from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.objects.names import owner_labels
from apps.errors import QuotaExceeded
from apps.quotas.allowances.rules.fit import VerdictKind
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.services import adoption
from apps.quotas.models import Offer
from apps.workloads.lifecycle.selectors.admission_check import Ask, check
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.waiting.selectors import waiting
from tests import factories
from tests.conftest import Cast, as_actor
from tests.controlplane.fleet import H100, FleetNode, Gpu, nodes, resource_slices
from tests.factories import NOW, make_workload, notebook_body
from tests.quotas.fleet import READY

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
PAIRS = tuple(FleetNode(f"pair-{number}", (Gpu(H100), Gpu(H100))) for number in range(3))


@pytest.fixture
def whole(cast: Cast) -> Offer:
    """Whole GPUs, two on each of three nodes, of which vision reaches five."""
    cluster = cast.offer.cluster
    seen = [("Node", {**body, "status": {**body["status"], "conditions": READY}}) for body in nodes(PAIRS)]
    seen += [("ResourceSlice", body) for body in resource_slices(PAIRS, {each.name: "u" for each in PAIRS})]
    for kind, body in seen:
        body["metadata"] |= {"uid": f"uid-{kind}-{body['metadata']['name']}", "resourceVersion": "1"}
    mirror_table.record_seen(cluster, [Sighting(*each) for each in copy.deepcopy(seen)], now=NOW)
    adoption.adopt_inventory(actor=system_actor("seed"), cluster=cluster, now=NOW)
    offer = Offer.objects.get(cluster=cluster, slug="h100-whole")
    factories.make_quota(cast.vision, offer, nominal=5)
    return offer


def hold(offer: Offer, node: str, device: str, owner: Workload | None = None) -> None:
    """A claim of somebody's has it."""
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": node, "device": device}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"name": "p"}]}
    name, labels = f"{node}-{device}", owner_labels(owner="workload", uid=owner.pk) if owner else {}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"}
    body: dict[str, Any] = {"metadata": metadata | {"labels": labels}, "status": status}
    mirror_table.record_seen(offer.cluster, [Sighting("ResourceClaim", body)], now=NOW)


def ask(cast: Cast, **spec: Any) -> Ask:
    return check(cast.vision, parsing.parse(notebook_body("h100-whole", **spec)), now=NOW)


@pytest.mark.parametrize("count", [3, 12])
def test_more_than_any_node_has_is_refused_with_the_one_figure_that_fits(
    cast: Cast, whole: Offer, count: int
) -> None:
    with pytest.raises(QuotaExceeded, match="can never start") as refused:
        ask(cast, count=count)
    assert refused.value.hint == "Ask for 2 or fewer in one pod."
    assert ("no node has more than 2" in refused.value.detail) is (count <= 5)
    assert ask(cast, count=2).verdict.kind is VerdictKind.NOW


def test_what_is_free_on_several_nodes_does_not_start_one_pod_now(cast: Cast, whole: Offer) -> None:
    for node in PAIRS:
        hold(whole, node.name, "gpu-0")
    verdict = ask(cast, count=2).verdict
    assert verdict.kind is VerdictKind.WAITS
    assert verdict.message.startswith("3 H100 whole are free, at most 1 of them on one node.")
    assert ask(cast, count=1).verdict.kind is VerdictKind.NOW


def test_free_now_says_how_many_are_on_one_node(cast: Cast, whole: Offer, client: Client) -> None:
    (choice,) = (each for each in standing.offer_choices(cast.vision, now=NOW) if each.offer == whole)
    assert (choice.free_now, choice.one_node) == (5, "at most 2 on one node")
    client.force_login(cast.rosa)
    form = " ".join(client.get("/t/vision/new/notebook/").content.decode().split())
    assert "5 of 6 free, at most 2 on one node" in form
    home = " ".join(client.get("/").content.decode().split())
    assert "Free now: 5, at most 2 on one node" in home
    offers = client.get("/api/v1/offers?tenant=vision").json()["items"]
    (status,) = (each["status"] for each in offers if each["slug"] == "h100-whole")
    assert (status["free"], status["free_on_one_node"]) == (5, 2)
    for node in PAIRS[:2]:
        hold(whole, node.name, "gpu-0")
        hold(whole, node.name, "gpu-1")
    (choice,) = (each for each in standing.offer_choices(cast.vision, now=NOW) if each.offer == whole)
    assert (choice.free_now, choice.one_node) == (2, "")


def test_what_frees_a_node_names_only_work_that_the_reader_sees(cast: Cast, whole: Offer) -> None:
    """Vision and genomics have one device of each pair; of the first, vision's ends soonest."""
    own = make_workload(cast.vision, cast.rosa, whole, slug="own")
    other = make_workload(cast.genomics, cast.petra, whole, slug="other")
    Workload.objects.filter(pk=own.pk).update(idle_stops_at=NOW + timedelta(hours=1), gpu_idle_since=NOW)
    Workload.objects.filter(pk=other.pk).update(stops_at=NOW + timedelta(hours=2))
    hold(whole, "pair-0", "gpu-0", own)
    hold(whole, "pair-0", "gpu-1", other)
    for node in PAIRS[1:]:
        hold(whole, node.name, "gpu-0", other)
        hold(whole, node.name, "gpu-1")
    row = make_workload(cast.vision, cast.rosa, whole, slug="pair", spec=notebook_body("h100-whole", count=2))
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}
    Workload.objects.filter(pk=row.pk).update(conditions=[refused | {"since": NOW.isoformat()}])
    row.refresh_from_db()

    def frees(user: User) -> str:
        found = waiting.explanation_for(as_actor(user), row, NOW)
        assert found is not None
        return found.frees

    ends = f"own of vision (1, ends by {NOW + timedelta(hours=1):%H:%M}, idle since {NOW:%H:%M})"
    later = f"(1, ends by {NOW + timedelta(hours=2):%H:%M})"
    assert f"Nearest: 2 more on pair-0, of those held by {ends}, work of others {later}." in frees(cast.rosa)
    assert f"held by {ends}, other of genomics {later}." in frees(cast.petra)
    Workload.objects.filter(pk=own.pk).update(tenant=cast.genomics)
    assert "Nearest: 2 more on one node, of those held by work of others (2," in frees(cast.rosa)
