"""What of an object differs, who wrote it, and what of it may be read."""

import copy
from typing import Any

import pytest

from apps.cluster.reconciling.rules import drift
from apps.cluster.reconciling.rules.drift import UNSHOWN

PORT = 'k:{"port":80,"protocol":"TCP"}'
OURS: dict[str, Any] = {
    "f:metadata": {"f:labels": {"f:allotment.dev/tenant": {}}},
    "f:spec": {
        "f:ports": {PORT: {".": {}, "f:port": {}, "f:targetPort": {}}},
        "f:rules": {},
        "f:finalizers": {'v:"a"': {}},
        "f:containers": {'k:{"name":"main"}': {"f:env": {'k:{"name":"KEY"}': {"f:value": {}}}}},
    },
}
WANTED: dict[str, Any] = {
    "metadata": {
        "labels": {"allotment.dev/tenant": "vision"},
        "managedFields": [{"manager": "allotment", "operation": "Apply", "fieldsV1": OURS}],
    },
    "spec": {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8888}],
        "rules": [{"to": "a", "cpu": "1"}],
        "finalizers": ["a"],
        "containers": [{"name": "main", "env": [{"name": "KEY", "value": "sesame"}]}],
    },
    "status": {"phase": "Active"},
}
THEIRS = {
    "manager": "kubectl-edit", "operation": "Update", "time": "2026-11-26T03:00:00Z",
    "fieldsV1": {"f:spec": {"f:ports": {PORT: {"f:targetPort": {}}}, "f:rules": {}}},
}  # fmt: skip


def live(**spec: Any) -> dict[str, Any]:
    body = copy.deepcopy(WANTED)
    body["spec"] |= spec
    body["metadata"]["managedFields"].append(THEIRS)
    return body


def test_what_is_not_ours_is_no_difference() -> None:
    body = live(clusterIP="10.0.0.1", sessionAffinity="None")
    body["metadata"]["labels"]["team"] = "theirs"
    body["spec"]["ports"][0]["nodePort"] = 30000
    body["spec"]["ports"].append({"port": 443, "protocol": "TCP"})
    body["status"] = {"phase": "Failed"}
    assert drift.fields_of("Service", body, WANTED) == []


CASES: dict[str, tuple[dict[str, Any], tuple[str, str, str | None, str | None]]] = {
    "a value of a list by keys": (
        {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 1}]},
        ('spec.ports[port=80,protocol="TCP"].targetPort', "8888", "1", "kubectl-edit"),
    ),
    "an item that is gone": (
        {"ports": []},
        (
            'spec.ports[port=80,protocol="TCP"]',
            '{"port": 80, "protocol": "TCP", "targetPort": 8888}',
            None,
            "kubectl-edit",
        ),
    ),
    "a list that is one value": (
        {"rules": []},
        ("spec.rules", '[{"cpu": "1", "to": "a"}]', "[]", "kubectl-edit"),
    ),
    "a member of a set": ({"finalizers": []}, ('spec.finalizers[="a"]', '"a"', None, None)),
    "the value of a variable": (
        {"containers": [{"name": "main", "env": [{"name": "KEY", "value": "other"}]}]},
        ('spec.containers[name="main"].env[name="KEY"].value', UNSHOWN, UNSHOWN, None),
    ),
}


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES.keys())
def test_what_differs_is_named_with_both_values_and_its_writer(
    spec: dict[str, Any], expected: tuple[str, str, str | None, str | None]
) -> None:
    (found,) = drift.fields_of("Service", live(**spec), WANTED)
    assert (found["path"], found["ours"], found["theirs"], found["manager"]) == expected


def test_a_label_that_was_taken_has_no_writer() -> None:
    body = live()
    del body["metadata"]["labels"]["allotment.dev/tenant"]
    (found,) = drift.fields_of("Service", body, WANTED)
    assert found == {
        "path": 'metadata.labels["allotment.dev/tenant"]', "ours": '"vision"', "theirs": None,
        "manager": None, "operation": None, "at": None,
    }  # fmt: skip


def test_of_several_writers_the_newest_is_named_with_its_time() -> None:
    body = live(rules=[])
    older = THEIRS | {"manager": "helm", "time": "2026-11-20T00:00:00Z"}
    body["metadata"]["managedFields"].append(older)
    (found,) = drift.fields_of("Service", body, WANTED)
    assert (found["manager"], found["operation"]) == ("kubectl-edit", "Update")
    assert drift.moment_of(found).isoformat() == "2026-11-26T03:00:00+00:00"  # type: ignore[union-attr]


def test_what_owns_the_map_alone_has_not_written_what_is_in_it() -> None:
    body = live()
    body["metadata"]["labels"]["allotment.dev/tenant"] = "other"
    own = {"manager": "x", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}
    body["metadata"]["managedFields"].append(own)
    (found,) = drift.fields_of("Service", body, WANTED)
    assert (found["theirs"], found["manager"]) == ('"other"', None)


def test_no_value_of_a_secret_is_shown() -> None:
    (found,) = drift.fields_of("Secret", live(rules=["sesame"]), WANTED)
    assert (found["ours"], found["theirs"]) == (UNSHOWN, UNSHOWN)


def test_a_variable_inside_a_greater_value_is_not_shown_either() -> None:
    bare = live(containers=[])
    (found,) = drift.fields_of("Job", bare, WANTED)
    assert "sesame" not in found["ours"]


def test_a_long_value_is_cut() -> None:
    (found,) = drift.fields_of("Job", live(rules=["x" * 1000]), WANTED)
    assert found["theirs"] is not None
    assert len(found["theirs"]) == drift.LONGEST + 3
