"""Which fields are ours, and when their hash moves."""

import copy
from typing import Any

from apps.cluster.objects.fields import digest, owned_hash

SERVICE: dict[str, Any] = {
    "metadata": {
        "name": "nb",
        "resourceVersion": "7",
        "labels": {"ours": "1", "theirs": "2"},
        "managedFields": [
            {
                "manager": "allotment",
                "operation": "Apply",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:ours": {}}},
                    "f:spec": {
                        "f:ports": {
                            'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:targetPort": {}}
                        },
                        "f:selector": {},
                        "f:finalizers": {'v:"a"': {}},
                    },
                },
            },
            {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {}}},
        ],
    },
    "spec": {
        "ports": [{"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "TCP", "targetPort": 8888}],
        "selector": {"app": "nb"},
        "finalizers": ["b", "a"],
    },
    "status": {"ready": False},
}


def changed(*path: Any, to: Any) -> dict[str, Any]:
    body = copy.deepcopy(SERVICE)
    place: Any = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return body


def test_a_field_of_another_manager_moves_nothing() -> None:
    others = changed("metadata", "labels", "theirs", to="x")
    others["status"]["ready"] = True
    others["spec"]["ports"][0]["nodePort"] = 30000
    others["metadata"]["resourceVersion"] = "8"

    assert owned_hash(others) == owned_hash(SERVICE) != ""


def test_a_changed_value_of_ours_is_seen() -> None:
    for body in (
        changed("metadata", "labels", "ours", to="x"),
        changed("spec", "ports", 1, "targetPort", to=1),
        changed("spec", "selector", to={"app": "other"}),
        changed("spec", "finalizers", to=["b"]),
        changed("spec", "ports", to=[]),
    ):
        assert owned_hash(body) != owned_hash(SERVICE)


def test_the_order_of_list_items_is_not_ours_to_mind() -> None:
    assert owned_hash(changed("spec", "ports", to=SERVICE["spec"]["ports"][::-1])) == owned_hash(SERVICE)


def test_a_field_that_somebody_took_from_us_is_seen_even_with_its_old_value() -> None:
    body = copy.deepcopy(SERVICE)
    del body["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:selector"]

    assert owned_hash(body) != owned_hash(SERVICE)


def test_an_object_we_never_applied_has_no_hash() -> None:
    assert owned_hash({"metadata": {"name": "x"}}) == ""
    assert owned_hash(SERVICE, manager="somebody") == ""


def test_equal_values_have_equal_digests_whatever_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1}) != digest({"a": 1, "b": [2, 1]})
