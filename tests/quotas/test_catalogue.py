"""From a fleet to what it offers: flavors, offers, what comes with a device, and first prices."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from apps.cluster.mirror.rules.hardware import DeviceView, NodeView
from apps.quotas.catalogue.rules import cores
from apps.quotas.catalogue.rules.drafts import FlavorDraft
from apps.quotas.catalogue.rules.inventory_plan import plan
from apps.quotas.specs import SharingMode

pytestmark = pytest.mark.both_databases

GIB = 1024**3
H100, A100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA L4"


def node(name: str, model: str = H100, *, cpu: int = 192, memory: int = 2048, **more: Any) -> NodeView:
    labels = {
        "nvidia.com/gpu.product": model.replace(" ", "-"),
        "kubernetes.io/hostname": name,
        **more.pop("labels", {}),
    }
    return NodeView(
        name=name,
        labels=labels,
        taints=tuple(more.pop("taints", ())),
        cpu_millis=cpu * 1000,
        memory_bytes=memory * GIB,
        ready=True,
        schedulable=True,
    )


def whole(
    node: str, minor: int, model: str = H100, *, memory: int = 80, driver: str = "gpu.nvidia.com"
) -> DeviceView:
    return DeviceView(
        driver=driver, node=node, pool=node, name=f"gpu-{minor}", type="gpu", model=model, profile="",
        uuid=f"GPU-{node}-{minor}", parent_uuid="", memory_bytes=memory * GIB,
        share_numerator=1, share_denominator=1,
    )  # fmt: skip


def mig(
    node: str, minor: int, profile: str, place: int, *, model: str = H100, memory: int = 10
) -> DeviceView:
    return DeviceView(
        driver="gpu.nvidia.com", node=node, pool=node, name=f"gpu-{minor}-mig-{place}", type="mig",
        model=model, profile=profile,
        uuid=f"MIG-{node}-{minor}-{place}", parent_uuid=f"GPU-{node}-{minor}",
        memory_bytes=memory * GIB, share_numerator=int(profile[0]), share_denominator=7,
    )  # fmt: skip


MIXED_NODE = [
    *(mig("n1", 0, "1g.10gb", place) for place in range(7)),
    *(mig("n1", 1, "3g.40gb", place, memory=39) for place in (0, 4)),
    *(whole("n1", minor) for minor in range(2, 8)),
]


def offers(drafts: tuple[FlavorDraft, ...]) -> dict[str, Any]:
    return {offer.slug: offer for draft in drafts for offer in draft.offers}


def test_a_mixed_node_is_one_flavor_with_an_offer_per_profile_and_one_for_whole_gpus() -> None:
    (flavor,) = plan(MIXED_NODE, [node("n1")])
    assert (flavor.slug, flavor.name, flavor.model) == ("h100", "H100", H100)
    assert flavor.node_labels == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert list(offers((flavor,))) == ["h100-whole", "h100-1g-10gb", "h100-3g-40gb"]


def test_an_offer_says_its_mode_memory_and_share() -> None:
    found = offers(plan(MIXED_NODE, [node("n1")]))
    assert found["h100-whole"].sharing_mode is SharingMode.EXCLUSIVE
    big = found["h100-3g-40gb"]
    assert (big.name, big.sharing_mode) == ("H100 3g.40gb MIG slice", SharingMode.MIG)
    assert (big.gpu_memory_bytes, big.share_numerator, big.share_denominator) == (39 * GIB, 3, 7)


def test_cpu_and_memory_that_come_with_devices_fit_the_node_together() -> None:
    found = offers(plan(MIXED_NODE, [node("n1")]))
    assert (found["h100-whole"].cpu_millis, found["h100-whole"].memory_bytes) == (24_000, 256 * GIB)
    assert (found["h100-1g-10gb"].cpu_millis, found["h100-1g-10gb"].memory_bytes) == (3_000, 36 * GIB)
    counts = {"h100-whole": 6, "h100-1g-10gb": 7, "h100-3g-40gb": 2}
    assert sum(found[slug].cpu_millis * count for slug, count in counts.items()) <= 192_000


def test_the_smallest_node_decides_what_comes_with_a_device() -> None:
    found = offers(plan([whole("n1", 0), whole("n2", 0, memory=79)], [node("n1"), node("n2", cpu=32)]))
    assert (found["h100-whole"].cpu_millis, found["h100-whole"].gpu_memory_bytes) == (32_000, 79 * GIB)


@pytest.mark.parametrize(
    ("slug", "hourly"), [("h100-whole", "2.94"), ("h100-1g-10gb", "0.42"), ("h100-3g-40gb", "1.26")]
)
def test_a_first_price_is_the_list_price_by_compute_share(slug: str, hourly: str) -> None:
    assert offers(plan(MIXED_NODE, [node("n1")]))[slug].hourly == Decimal(hourly)


def test_spot_nodes_are_a_flavor_and_a_price_of_their_own() -> None:
    spot: dict[str, Any] = {"labels": {"karpenter.sh/capacity-type": "spot"}}
    demand: dict[str, Any] = {"labels": {"karpenter.sh/capacity-type": "on-demand"}}
    drafts = plan([whole("n1", 0), whole("n2", 0)], [node("n1", **demand), node("n2", **spot)])
    assert [draft.slug for draft in drafts] == ["h100", "h100-spot"]
    found = offers(drafts)
    assert found["h100-spot-whole"].hourly == Decimal("1.029")
    assert drafts[0].node_labels["karpenter.sh/capacity-type"] == "on-demand"


def test_an_unknown_model_has_no_price_rather_than_a_guess() -> None:
    (flavor,) = plan([whole("n1", 0, model="ACME Warp 9")], [node("n1", "ACME Warp 9")])
    assert (flavor.slug, flavor.offers[0].hourly) == ("acme-warp-9", None)


def test_two_models_of_one_family_are_told_apart_by_their_memory() -> None:
    big = "NVIDIA A100-SXM4-80GB"
    drafts = plan([whole("n1", 0, A100), whole("n2", 0, big)], [node("n1", A100), node("n2", big)])
    assert [draft.slug for draft in drafts] == ["a100-40gb", "a100-80gb"]
    assert offers(drafts)["a100-80gb-whole"].hourly == Decimal("2.10")


def test_taints_of_the_fleet_become_tolerations_and_those_of_a_sick_node_do_not() -> None:
    taints = (
        {"key": "gpu", "value": "h100", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "soft", "value": "", "effect": "PreferNoSchedule"},
    )
    (flavor,) = plan([whole("n1", 0)], [node("n1", taints=taints)])
    assert flavor.tolerations == (
        {"key": "gpu", "operator": "Equal", "value": "h100", "effect": "NoSchedule"},
    )


def test_devices_of_other_drivers_and_of_unknown_nodes_are_not_offered() -> None:
    strange = [whole("n1", 0, driver="gpu.example.com"), whole("gone", 0)]
    assert plan(strange, [node("n1")]) == ()


def bare(name: str, **more: Any) -> NodeView:
    """A node of 64 cores and 256 GiB without a GPU."""
    found = node(name, cpu=64, memory=256, **more)
    return replace(found, labels={k: v for k, v in found.labels.items() if k != "nvidia.com/gpu.product"})


SPOT = {"karpenter.sh/capacity-type": "spot"}
ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}
OWN = {"allotment.dev/tenant": "vision"}


def test_nodes_without_a_gpu_that_serve_everybody_are_one_flavor_sold_by_the_core() -> None:
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    left_out = [bare("s1", labels=SPOT), bare("v1", labels=OWN), bare("cp", taints=[taint])]
    assert plan([], left_out) == ()
    _, on_demand = plan([whole("n1", 0)], [node("n1"), bare("c1"), bare("c2", labels=ON_DEMAND), *left_out])
    assert (on_demand.slug, on_demand.model, on_demand.node_labels) == ("cpu", "", {})
    (offer,) = on_demand.offers
    assert (offer.slug, offer.name, offer.sharing_mode) == ("cpu-cores", "CPU cores", SharingMode.NO_DEVICE)
    assert (offer.cpu_millis, offer.memory_bytes, offer.gpu_memory_bytes) == (1000, 4 * GIB, 0)
    assert (offer.share_numerator, offer.hourly) == (0, Decimal("0.0460"))


def test_nothing_is_sold_by_the_core_where_it_could_land_on_a_gpu() -> None:
    unlabelled = bare("n1")
    assert [draft.slug for draft in plan([whole("n1", 0)], [unlabelled, bare("c1")])] == ["h100"]
    for labels in (SPOT, OWN):
        apart = [replace(unlabelled, labels=labels), bare("c1")]
        assert [draft.slug for draft in plan([whole("n1", 0)], apart)][-1] == "cpu"


@pytest.mark.parametrize(
    ("labels", "others", "lands"),
    [
        ({}, {}, True),
        ({}, {"nvidia.com/gpu.product": "L4"}, False),
        ({}, {"nvidia.com/gpu.present": "true"}, False),
        ({}, SPOT, False),
        ({}, ON_DEMAND, True),
        ({}, OWN, False),
        ({"pool": "cpu"}, {"pool": "gpu"}, False),
        ({"pool": "cpu"}, {"pool": "cpu", "zone": "a"}, True),
        ({"pool": "cpu"}, {"zone": "a"}, True),
    ],
)
def test_work_without_a_gpu_fits_what_refuses_none_of_its_labels(
    labels: dict[str, str], others: dict[str, str], *, lands: bool
) -> None:
    assert cores.may_land_on(labels, others) is lands


RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
RTX_TWIN = "NVIDIA RTX PRO 6000 Blackwell Server Edition II"
LONG = {"allotment.dev/tenant": "a-team-with-quite-a-long-name-of-its-own"}


@pytest.mark.parametrize("labels", [{}, SPOT, LONG, {**SPOT, **LONG}])
def test_of_a_long_model_the_word_is_cut_and_what_tells_its_offers_apart_is_kept(
    labels: dict[str, str],
) -> None:
    devices = [
        whole("n1", 0, RTX, memory=96),
        mig("n1", 1, "1g.24gb", 0, model=RTX, memory=24),
        mig("n1", 2, "2g.48gb", 0, model=RTX, memory=48),
        whole("n2", 0, RTX_TWIN, memory=96),
    ]
    drafts = plan(devices, [node("n1", RTX, labels=labels), node("n2", RTX_TWIN, labels=labels)])
    slugs = [offer.slug for draft in drafts for offer in draft.offers]
    assert len({*slugs}) == 4
    assert max(map(len, [*slugs, *(draft.slug for draft in drafts)])) <= 40
    ends = ("whole", "1g-24gb", "2g-48gb")
    assert all(slug.endswith(end) for end, slug in zip(ends, slugs, strict=False))
    assert all(slug.startswith("nvidia-r") for slug in slugs)
    assert all(("-spot" in slug) is (SPOT.items() <= labels.items()) for slug in slugs)
    assert all(("-a-team-" in slug) is (LONG.items() <= labels.items()) for slug in slugs)


def test_two_kinds_of_shares_of_one_tenant_are_two_flavors_of_two_names() -> None:
    own = {**OWN, "nvidia.com/gpu.sharing-strategy": "mps"}
    shared = [
        replace(
            node(name, labels={**own, "nvidia.com/gpu.replicas": str(replicas)}),
            resources={"nvidia.com/gpu.shared": str(replicas)},
        )
        for name, replicas in (("n1", 4), ("n2", 8))
    ]
    drafts = plan([], shared)
    slugs = ["h100-mps-vision", "h100-mps-vision-2"]
    assert [draft.slug for draft in drafts] == slugs
    assert [offer.slug for draft in drafts for offer in draft.offers] == slugs
