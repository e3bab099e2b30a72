"""What a cluster can do, in words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.cluster.errors import Rejected
from apps.cluster.specs import ObjectRef
from apps.cluster.watching.services.capabilities import (
    KUEUE_KINDS,
    NAMESPACES,
    PRIORITY_CLASSES,
    Facts,
    facts,
    is_curable,
    judge,
)
from apps.quotas.specs import Priority
from tests import yamls
from tests.cluster.abilities import FULL
from tests.cluster.doubles import FakeCluster

ROOT = Path(__file__).resolve().parents[2]


def test_a_full_cluster_can_do_everything_but_the_device_plugin() -> None:
    lacks = {entry["name"] for entry in judge(FULL, has_gateway=True) if not entry["available"]}
    assert lacks == {"device-plugin"}
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
        (replace(FULL, kueue_kinds=frozenset()), "kueue", "Install Kueue 0.19"),
        (
            replace(FULL, kueue_kinds=KUEUE_KINDS - {"cohorts"}),
            "kueue",
            "Missing: cohorts.",
        ),
        (
            replace(FULL, priority_classes=frozenset({"batch"})),
            "priority-classes",
            "Missing: preemptible, interactive, protected. Kueue queues nothing",
        ),
        (
            replace(FULL, namespaces=frozenset({"allotment-system"})),
            "namespaces",
            "Missing: allotment-access.",
        ),
        (replace(FULL, has_default_storage=False), "storage-class", "is-default-class=true"),
        (replace(FULL, has_default_storage=None), "storage-class", "may not see"),
        (replace(FULL, has_visibility=False), "visibility", "positions come from priority"),
        (replace(FULL, evaluates_policies=False), "policies", "not enforced on this cluster"),
        (replace(FULL, queues_deployments=False), "deployments", "no service can start"),
        (
            replace(FULL, queues_deployments=False, deployments_denied="cannot create it"),
            "deployments",
            "`kubectl apply -k k8s` in the product's folder. The server says: cannot create it",
        ),
        (replace(FULL, has_flux=False), "flux", "no tenant can have a virtual cluster"),
        (replace(FULL, drivers=frozenset()), "gpu-driver", "nothing to make offers from"),
        (replace(FULL, kubelets=FULL.kubelets | {"v1.34.9"}), "image-credentials", "asks the registry again"),
        (replace(FULL, kubelets=frozenset()), "image-credentials", "there is no node"),
    ],
)
def test_what_is_missing_is_said_with_what_it_switches_off(facts: Facts, name: str, words: str) -> None:
    (entry,) = [entry for entry in judge(facts) if entry["name"] == name]

    assert not entry["available"]
    assert words in entry["message"]


def test_what_could_not_be_tried_is_not_called_well() -> None:
    (entry,) = (
        each for each in judge(replace(FULL, queues_deployments=None)) if each["name"] == "deployments"
    )
    assert entry["available"], "a service is asked for before its team has a namespace"
    assert "is not known" in entry["message"]


@pytest.mark.parametrize(
    ("has_gateway", "has_routes", "words"),
    [
        (False, True, "Every byte of what people open passes the door: no Gateway is set"),
        (True, False, "Every byte of what people open passes the door: the product cannot write HTTPRoutes"),
        (True, True, "The Gateway leads browsers to what they open"),
    ],
)
def test_which_way_browsers_take_is_said(*, has_gateway: bool, has_routes: bool, words: str) -> None:
    judged = judge(replace(FULL, has_routes=has_routes), has_gateway=has_gateway)
    (entry,) = (each for each in judged if each["name"] == "routes")
    assert entry["available"] is (has_gateway and has_routes)
    assert entry["message"].startswith(words)


class Spaces(FakeCluster):
    """Two tenants' namespaces, of which the first goes."""

    def api_resources(self, api_version: str) -> frozenset[str]:
        return KUEUE_KINDS if api_version.startswith("kueue") else frozenset()

    def list(self, kind: str, **_: Any) -> Any:
        going = {"name": "a", "deletionTimestamp": "2026-11-20T09:00:00Z"}
        return ([{"metadata": going}, {"metadata": {"name": "b"}}] if kind == "Namespace" else []), ""


@pytest.mark.parametrize(
    ("error", "known", "denied"),
    [
        (Rejected(403, "Forbidden", 'User "p" cannot create resource "deployments"'), False, True),
        (Rejected(403, "Forbidden", "exceeded quota: backstop"), None, False),
        (Rejected(422, "Invalid", "Kueue does not queue Deployments here"), False, False),
    ],
)
def test_deployments_are_tried_in_a_namespace_that_stays_and_a_right_that_lacks_is_told(
    error: Rejected, *, known: bool | None, denied: bool
) -> None:
    cluster = Spaces()
    cluster.fail[ObjectRef("Deployment", "b", "allotment-probe")] = error
    found = facts(cluster)
    assert (found.queues_deployments, found.deployments_denied) == (known, error.message if denied else "")


def test_what_is_looked_for_is_what_the_chart_brings() -> None:
    """And what the product names in each workload."""
    brought: dict[str, set[str]] = {}
    for name in ("rbac", "priorities"):
        for body in yamls.documents((ROOT / f"k8s/allotment/templates/{name}.yaml").read_text()):
            brought.setdefault(body["kind"], set()).add(body["metadata"]["name"])
    assert set(PRIORITY_CLASSES) == set(Priority) == brought["WorkloadPriorityClass"]
    assert set(NAMESPACES) == brought["Namespace"]


def test_what_people_bring_is_looked_for_again_soon() -> None:
    assert not is_curable(replace(FULL, has_flux=False, has_visibility=False))
    assert is_curable(replace(FULL, priority_classes=frozenset()))
    assert is_curable(replace(FULL, has_default_storage=False))
    assert is_curable(replace(FULL, queues_deployments=False, deployments_denied="no right"))
