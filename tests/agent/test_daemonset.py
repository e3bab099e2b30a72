"""The agent's manifest and image: what Kubernetes knows of, hardened, holding all that the agent imports."""

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.__main__ import _parser
from tests import yamls

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "k8s" / "allotment" / "templates" / "agent.yaml"
SCHEMAS = json.loads((ROOT / "sandbox" / "kinds" / "data" / "schemas.json").read_text())
REFERENCE = "#/components/schemas/"


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    return {found["kind"]: found for found in yamls.documents(MANIFEST.read_text())}


@pytest.fixture(scope="module")
def pod(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = objects["DaemonSet"]["spec"]["template"]["spec"]
    return found


def strange(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Fields of a value that Kubernetes' own schema does not have, or has with another type."""
    name = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), "")
    found = SCHEMAS[name.removeprefix(REFERENCE)] if name else schema
    if isinstance(value, dict):
        known, rest = found.get("properties", {}), found.get("additionalProperties")
        unknown = [f"{path}.{key}" for key in value if key not in known and not isinstance(rest, dict)]
        inner = [strange(v, known.get(k) or rest or {}, f"{path}.{k}") for k, v in value.items()]
        return unknown + [line for lines in inner for line in lines]
    if isinstance(value, list):
        return [
            line for at, v in enumerate(value) for line in strange(v, found.get("items", {}), f"{path}[{at}]")
        ]
    right = {"string": str, "integer": int, "boolean": bool}.get(found.get("type", ""), object)
    return [] if isinstance(value, right) else [f"{path} is no {found['type']}"]


@pytest.mark.parametrize(
    ("kind", "part", "schema"),
    [
        ("DaemonSet", ("spec", "template"), "io.k8s.api.core.v1.PodTemplateSpec"),
        ("NetworkPolicy", ("spec",), "io.k8s.api.networking.v1.NetworkPolicySpec"),
    ],
)
def test_every_field_is_one_of_kubernetes(
    kind: str, part: tuple[str, ...], schema: str, objects: dict[str, dict[str, Any]]
) -> None:
    found = objects[kind]
    for key in part:
        found = found[key]
    assert strange(found, SCHEMAS[schema]) == []
    assert strange({**found, "replicaz": 1}, SCHEMAS[schema]) == [".replicaz"]


def test_the_container_can_do_nothing_but_look(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostIPC"} & set(pod)
    assert [volume["hostPath"]["path"] for volume in pod["volumes"]] == ["/var/lib/kubelet/pod-resources"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}


def test_labels_ports_and_options_fit_together(
    objects: dict[str, dict[str, Any]], pod: dict[str, Any]
) -> None:
    spec, (container,) = objects["DaemonSet"]["spec"], pod["containers"]
    labels, notes = spec["template"]["metadata"]["labels"], spec["template"]["metadata"]["annotations"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert objects["NetworkPolicy"]["spec"]["podSelector"] == spec["selector"]
    options = _parser().parse_args(container["args"])
    port = container["ports"][0]["containerPort"]
    assert [port, str(port), options.port] == [9400, notes["prometheus.io/port"], port]
    assert objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] == port
    assert options.socket.startswith(container["volumeMounts"][0]["mountPath"])


def test_the_image_holds_everything_that_the_agent_imports() -> None:
    """Only the standard library and what requirements/agent.in names: no part of the product."""
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "agent").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names(node)
    }
    assert imported - set(sys.stdlib_module_names) == {"agent", "grpc", "pynvml"}
    wanted = re.findall(r"^[a-z-]+$", (ROOT / "requirements" / "agent.in").read_text(), re.MULTILINE)
    assert sorted(wanted) == ["grpcio", "nvidia-ml-py"]
    stage = (ROOT / "Dockerfile").read_text().partition(" AS agent\n")[2].partition("\nFROM ")[0]
    assert re.findall(r"^COPY (\w+) \w+$", stage, re.MULTILINE) == ["agent"]


def names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
