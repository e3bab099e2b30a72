"""Kubernetes' own rules for what a manifest carries, from its documentation and not from the product."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from apps.cluster.objects.quantities import parse_quantity

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


def problems(manifest: Mapping[str, Any]) -> list[str]:
    """What an API server would refuse of it, and what the product must never send."""
    head = manifest["metadata"]
    found = [f"name {head['name']!r}" for _ in "x" if not NAME.fullmatch(head["name"])]
    found += [f"namespace {head['namespace']!r}" for _ in "x" if not NAME.fullmatch(head["namespace"])]
    for at in _nodes(manifest):
        found += _labels(at)
        found += _resources(at)
        found += _pod(at)
    return found


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)


def _labels(at: Mapping[str, Any]) -> list[str]:
    labels = {**(at.get("labels") or {}), **(at.get("matchLabels") or {})}
    keys = [*labels, *(at.get("annotations") or {})]
    return [f"label {key}={value!r}" for key, value in labels.items() if not LABEL.fullmatch(value)] + [
        f"key {key!r}" for key in keys if not KEY.fullmatch(key)
    ]


def _resources(at: Mapping[str, Any]) -> list[str]:
    found = []
    for part in ("limits", "requests"):
        for name, amount in (at.get(part) or {}).items():
            if parse_quantity(amount) <= 0:
                found.append(f"{part} {name}={amount!r}")
    return found


def _pod(at: Mapping[str, Any]) -> list[str]:
    found = [
        f"volume {each['name']!r}" for each in at.get("volumes") or () if not NAME.fullmatch(each["name"])
    ]
    found += [
        f"{name} is set"
        for name in ("hostNetwork", "hostPID", "hostIPC", "privileged", "hostPath")
        if at.get(name)
    ]
    found += [f"image {at['image']!r}" for _ in "x" if "image" in at and not at["image"].strip()]
    found += [
        f"mount {each['mountPath']!r}"
        for each in at.get("volumeMounts") or ()
        if each["mountPath"][:1] != "/"
    ]
    for variable in at.get("env") or ():
        if not VARIABLE.fullmatch(variable["name"]) or not isinstance(variable.get("value", ""), str):
            found.append(f"variable {variable!r}")
    return found
