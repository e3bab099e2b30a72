"""What a cluster can do, in words."""

from dataclasses import replace

import pytest

from apps.cluster.watching.services.capabilities import Facts, judge

FULL = Facts(
    kubernetes="v1.36.3",
    has_dra=True,
    has_extended_resources=True,
    has_kueue=True,
    kueue_version="0.19.2",
    has_visibility=True,
    has_flux=True,
    evaluates_policies=True,
    drivers=frozenset({"gpu.nvidia.com"}),
)


def test_a_full_cluster_can_do_everything_but_the_device_plugin() -> None:
    assert {entry["name"] for entry in judge(FULL) if not entry["available"]} == {"device-plugin"}
    assert judge(FULL)[0]["version"] == "1.36.3"


@pytest.mark.parametrize(
    ("facts", "name", "words"),
    [
        (
            replace(FULL, has_extended_resources=False),
            "extended-resources",
            "no offer can be asked for by name",
        ),
        (replace(FULL, has_dra=False), "dra", "no offer can be made"),
        (replace(FULL, has_kueue=False), "kueue", "nothing starts here"),
        (replace(FULL, has_visibility=False), "visibility", "positions come from priority"),
        (replace(FULL, evaluates_policies=False), "policies", "not enforced on this cluster"),
        (replace(FULL, has_flux=False), "flux", "no tenant can have a virtual cluster"),
        (replace(FULL, drivers=frozenset()), "gpu-driver", "nothing to make offers from"),
    ],
)
def test_what_is_missing_is_said_with_what_it_switches_off(facts: Facts, name: str, words: str) -> None:
    (entry,) = [entry for entry in judge(facts) if entry["name"] == name]

    assert not entry["available"]
    assert words in entry["message"]
