"""The comparison of rights with their use can find both too much and too little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.cluster.watching.services import capabilities
from tests.controlplane import rights
from tests.controlplane.plane import CHART
from tests.controlplane.rights import Right

ROLE = {
    "kind": "ClusterRole",
    "metadata": {"name": "c"},
    "rules": [
        {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "create", "patch"]},
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "resourceNames": ["allotment-tenant-lead"],
            "verbs": ["bind"],
        },
    ],
}
BINDING = {
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "c"},
    "roleRef": {"kind": "ClusterRole", "name": "c"},
    "subjects": [{"kind": "ServiceAccount", "name": "allotment-controller", "namespace": "allotment-system"}],
}
FOREIGN = {"kind": "ClusterRole", "metadata": {"name": "other"}, "rules": [{"verbs": ["*"]}]}


def call(verb: str, resource: str, *, code: int = 200, agent: str = "allotment", **more: Any) -> str:
    """One line of an audit log."""
    group = "rbac.authorization.k8s.io" if resource == "rolebindings" else "apps"
    decision = "forbid" if code == 403 else "allow"
    return json.dumps(
        {
            "verb": verb,
            "stage": "ResponseComplete",
            "userAgent": agent,
            "user": {"username": rights.ACCOUNT},
            "objectRef": {"resource": resource, "apiGroup": group} | more,
            "responseStatus": {"code": code},
            "annotations": {"authorization.k8s.io/decision": decision},
        }
    )


def test_only_what_is_bound_to_the_product_is_granted() -> None:
    assert {str(right) for right in rights.granted([ROLE, BINDING, FOREIGN])} == {
        "get statefulsets.apps",
        "create statefulsets.apps",
        "patch statefulsets.apps",
        "bind clusterroles.rbac.authorization.k8s.io/allotment-tenant-lead",
    }


def test_what_was_never_used_is_too_much_and_what_was_refused_is_missing() -> None:
    lines = [call("patch", "statefulsets"), call("delete", "statefulsets", code=403)]
    unused, missing = rights.compare(rights.granted([ROLE, BINDING]), rights.use(lines))
    assert {right.verb for right in unused} == {"get", "create", "bind"}
    assert missing == {Right("apps", "statefulsets", "delete")}


def test_an_apply_that_made_something_used_create_and_a_binding_used_bind() -> None:
    lines = [
        call("patch", "statefulsets", code=201),
        call("get", "statefulsets"),
        call("patch", "rolebindings", code=201, name="member-1-lead"),
    ]
    assert not rights.compare(rights.granted([ROLE, BINDING]), rights.use(lines))[0]


def test_what_tests_do_with_the_products_kubeconfig_or_its_client_proves_nothing() -> None:
    for agent in ("kubectl/v1.36.3", rights.TESTS_CLIENT):
        assert rights.use([call("get", "statefulsets", agent=agent)]).used == {}


def test_a_port_forward_used_get_and_create_and_a_secret_of_any_name_its_verb() -> None:
    lines = [
        call("get", "pods", subresource="portforward", name="a", apiGroup=""),
        call("patch", "secrets", code=201, name="a", apiGroup=""),
        call("delete", "secrets", name="b", apiGroup=""),
        call("get", "secrets", name="vc-virtual", apiGroup=""),
    ]
    assert {str(right) for right in rights.use(lines).used} == {
        "get pods/portforward",
        "create pods/portforward",
        "patch secrets",
        "create secrets",
        "delete secrets",
        "get secrets/vc-virtual",
    }


def test_the_canary_used_create_though_a_policy_refused_it() -> None:
    line = call("patch", "configmaps", code=422, name="allotment-canary")
    assert {right.verb for right in rights.use([line]).used} == {"patch", "create"}
    assert rights.CANARY == capabilities.CANARY


def test_what_is_taken_on_trust_is_counted_and_only_where_nobody_used_it(tmp_path: Path) -> None:
    trusted = frozenset(Right("apps", "statefulsets", verb) for verb in ("get", "patch", "watch"))
    (tmp_path / "audit.log").write_text(call("patch", "statefulsets", code=201))
    seen = rights.use(rights.logs([tmp_path]))
    short = rights.judge(seen, [ROLE, BINDING], trusted)
    whole = rights.judge(seen, [ROLE, BINDING], frozenset())
    assert {str(right) for right in short.trusted} == {"get statefulsets.apps"}
    assert short.figures["taken on trust"] == "1: get statefulsets.apps"
    assert whole.figures["taken on trust"] == "0"
    assert {right.verb for right in whole.unused} == {"get", "bind"}
    assert not short.holds
    assert not whole.holds


def test_without_a_call_nothing_is_proven() -> None:
    assert not rights.judge(rights.Use(), [], frozenset()).holds


def test_what_several_suites_used_is_summed_after_it_was_stored() -> None:
    lines = [call("get", "statefulsets"), call("delete", "statefulsets", code=403)]
    part = json.loads(json.dumps(rights.use(lines).stored()))
    assert rights.Use.together([part, part]) == rights.use(lines * 2)


@pytest.mark.parametrize(
    "role", ["allotment-tenant-member", "allotment-tenant-lead", "allotment-tenant-shell"]
)
def test_members_enter_pods_by_websocket(role: str) -> None:
    """Kubernetes asks for `get` on the upgrade, and since 1.35 for `create` as well."""
    documents = [
        body for file in ("rbac.yaml", "admission.yaml") for body in rights.chart_documents(CHART / file)
    ]
    (rules,) = [body["rules"] for body in documents if body["metadata"]["name"] == role]
    (rule,) = [rule for rule in rules if "pods/exec" in rule["resources"]]
    assert rule["resources"] == ["pods/exec", "pods/portforward"]
    assert rule["verbs"] == ["get", "create"]


def test_the_chart_grants_no_wildcard_and_no_way_to_more() -> None:
    found = rights.granted(rights.chart_documents(CHART / "rbac.yaml"))
    assert len(found) > 50
    assert not {right for right in found if "*" in right}
    assert not {right for right in found if right.verb in ("escalate", "impersonate")}
    assert not {right for right in found if right.resource == "pods/exec"}
    # What it writes of Secrets the policy allotment-product cuts down to tokens of IDEs and pull secrets.
    assert {right for right in found if right.resource == "secrets"} == {
        Right("", "secrets", "get", "vc-virtual"),
        *(Right("", "secrets", verb) for verb in ("create", "patch", "delete")),
    }
    # Its watch tells it how things are; what it does ask for by name is known.
    assert {str(right) for right in found if right.verb == "get"} == {
        "get namespaces", "get nodes", "get pods/log", "get pods/portforward", "get secrets/vc-virtual",
        "get deployments.apps",
    }  # fmt: skip
    assert {right.name for right in found if right.verb == "bind"} == {
        "allotment-tenant-member",
        "allotment-tenant-lead",
        "allotment-tenant-shell",
        "allotment-tenant-probe",
    }
