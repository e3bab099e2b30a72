"""Quota's manifests, whole, and the rules of Kueue that no golden file shows by itself."""

from dataclasses import replace

import pytest

from apps.quotas.kueue.manifests import render_flavor, render_offer, render_queue
from apps.quotas.specs import MOST_OFFERS_PER_QUEUE
from apps.tenants.specs import Suspend
from tests.golden import differs
from tests.quotas.specs import FLAVOR, SLICE, WHOLE, cores, queue, quota

TWO_FLAVORS = queue(
    quota("h100-1g-10gb", nominal=4, borrow=4, lend=2),
    quota("h100-whole", nominal=2, borrow=None, total=6),
    quota("l4-whole", nominal=0, borrow=3, flavor="l4-ffffffffff"),
)


def test_a_flavor_is_a_resource_flavor() -> None:
    assert not differs("quotas/flavor", render_flavor(FLAVOR))


def test_offers_are_device_classes_that_back_an_extended_resource() -> None:
    assert not differs("quotas/offers", render_offer(SLICE) + render_offer(WHOLE))


def test_a_quota_is_a_cluster_queue_a_backstop_and_a_local_queue() -> None:
    assert not differs("quotas/queue", render_queue(TWO_FLAVORS))


def test_cores_are_a_flavor_whose_cpu_and_memory_are_the_quota() -> None:
    made = render_queue(queue(quota("h100-1g-10gb", nominal=4, borrow=4), cores()))
    assert not differs("quotas/queue-cores", made)


def test_cores_alone_make_a_queue_that_covers_no_device_and_a_backstop_that_counts_none() -> None:
    own, backstop, _ = render_queue(queue(cores(borrow=None, lend=None)))
    assert own["spec"]["resourceGroups"][0]["coveredResources"] == ["cpu", "memory"]
    (flavor,) = own["spec"]["resourceGroups"][0]["flavors"]
    assert flavor["resources"] == [
        {"name": "cpu", "nominalQuota": "64"}, {"name": "memory", "nominalQuota": "256Gi"},
    ]  # fmt: skip
    assert backstop["spec"]["hard"] == {}


def test_closed_cores_are_lent_by_a_queue_of_their_own() -> None:
    reserve, own, *_ = render_queue(queue(cores(closed=True), quota("h100-whole", nominal=2, closed=True)))
    shut = {"nominalQuota": "0", "borrowingLimit": "0"}
    first, second = reserve["spec"]["resourceGroups"][0]["flavors"]
    assert own["spec"]["resourceGroups"][0]["flavors"][0]["resources"][:2] == [
        {"name": "cpu", **shut}, {"name": "memory", **shut},
    ]  # fmt: skip
    assert [each["nominalQuota"] for each in first["resources"]] == ["64", "256Gi", "0"]
    assert [each["nominalQuota"] for each in second["resources"]] == ["0", "0", "2"]


def test_without_quota_there_is_no_queue() -> None:
    assert render_queue(queue()) == []


def test_without_a_namespace_only_the_cluster_queue_is_made() -> None:
    kinds = [manifest["kind"] for manifest in render_queue(queue(quota(), namespace_is_there=False))]
    assert kinds == ["ClusterQueue"]


@pytest.mark.parametrize(
    ("suspend", "policy"), [(Suspend.NONE, "None"), (Suspend.HOLD, "Hold"), (Suspend.DRAIN, "HoldAndDrain")]
)
def test_suspension_is_the_stop_policy(suspend: Suspend, policy: str) -> None:
    assert render_queue(queue(quota(), suspend=suspend))[0]["spec"]["stopPolicy"] == policy


def test_a_closed_offer_lets_nothing_in_and_its_guarantee_stays_in_the_cohort() -> None:
    open_one = quota("h100-1g-10gb", nominal=4, borrow=4)
    shut = quota("h100-whole", nominal=2, borrow=None, lend=0, closed=True)
    before = {m["kind"]: m["spec"] for m in render_queue(queue(open_one, replace(shut, closed=False)))}
    reserve, own, *in_namespace = render_queue(queue(open_one, shut))
    (flavor,) = own["spec"]["resourceGroups"][0]["flavors"]
    assert flavor["resources"][3] == {
        "name": "allotment.dev/h100-whole", "nominalQuota": "0", "borrowingLimit": "0",
    }  # fmt: skip
    assert reserve["metadata"]["name"] == f"{own['metadata']['name']}-lends"
    assert reserve["spec"] == {
        "cohortName": own["spec"]["cohortName"],
        "stopPolicy": "None",
        "resourceGroups": [
            {
                "coveredResources": ["allotment.dev/h100-whole"],
                "flavors": [
                    {
                        "name": "h100-aaaaaaaaaa",
                        "resources": [
                            {"name": "allotment.dev/h100-whole", "nominalQuota": "2", "borrowingLimit": "0"}
                        ],
                    }
                ],
            }
        ],
    }
    # What runs there keeps its CPU and memory, and the pod that replaces one of its pods passes the backstop.
    known = before["ClusterQueue"]["resourceGroups"][0]["flavors"][0]["resources"][:2]
    assert flavor["resources"][:2] == known
    assert in_namespace[0]["spec"] == before["ResourceQuota"]


def test_a_closed_offer_without_a_guarantee_needs_no_reserve() -> None:
    assert len(render_queue(queue(quota(nominal=0, borrow=4, closed=True)))) == 3


def test_every_flavor_lists_what_is_covered_in_the_same_order() -> None:
    (group,) = render_queue(TWO_FLAVORS)[0]["spec"]["resourceGroups"]
    assert len(group["flavors"]) == 2
    for flavor in group["flavors"]:
        assert [resource["name"] for resource in flavor["resources"]] == group["coveredResources"]


def test_cpu_and_memory_suffice_for_all_that_may_be_held_and_are_never_lent() -> None:
    (group,) = render_queue(TWO_FLAVORS)[0]["spec"]["resourceGroups"]
    cpu, memory = group["flavors"][0]["resources"][:2]
    assert cpu == {"name": "cpu", "nominalQuota": "49", "borrowingLimit": "0", "lendingLimit": "0"}
    assert memory["nominalQuota"] == f"{(8 + 6) * 36}Gi"


def test_a_lending_limit_never_exceeds_the_guarantee() -> None:
    (group,) = render_queue(queue(quota(nominal=3, lend=9)))[0]["spec"]["resourceGroups"]
    assert group["flavors"][0]["resources"][2]["lendingLimit"] == "3"


def test_more_offers_than_a_queue_covers_are_refused() -> None:
    many = [quota(f"offer-{number}") for number in range(MOST_OFFERS_PER_QUEUE + 1)]
    with pytest.raises(ValueError, match="63 offers; a queue covers 62"):
        render_queue(queue(*many))


def test_a_hostile_product_name_stays_text_in_the_expression() -> None:
    hostile = type(WHOLE)(**{**vars(WHOLE), "model": "X' || true || '\\"})
    expression = render_offer(hostile)[0]["spec"]["selectors"][0]["cel"]["expression"]
    assert expression.endswith(r".productName == 'X\' || true || \'\\'")
