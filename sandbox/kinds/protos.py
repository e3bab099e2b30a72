"""Reads field numbers out of the API's .proto files, for the kinds of the table.

Run by the generator; needs the Go modules' source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sandbox.api.meta.objects import Obj

_FIELD = re.compile(r"^\s*(?:(optional|repeated)\s+([\w.]+)|map<string,\s*([\w.]+)>)\s+(\w+)\s*=\s*(\d+);")
_SCALARS = frozenset({"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float"})
_LEAVES = ("Time", "MicroTime", "Quantity", "IntOrString", "FieldsV1", "RawExtension", "JSON")

Field = tuple[str, str, str]


def _package(text: str) -> str:
    match = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    return match.group(1) if match else ""


def _resolve(kind: str, package: str) -> str:
    if kind in _SCALARS:
        return kind
    return kind.lstrip(".") if "." in kind else f"{package}.{kind}"


def parse(text: str) -> dict[str, dict[str, Field]]:
    """Messages of one file: number -> (name, shape, type)."""
    package, here = _package(text), ""
    found: dict[str, dict[str, Field]] = {}
    for line in text.splitlines():
        opened = re.match(r"^message (\w+) {", line)
        if opened:
            here = f"{package}.{opened.group(1)}"
            found[here] = {}
        match = _FIELD.match(line)
        if match and here:
            label, plain, mapped, name, number = match.groups()
            shape = "map" if mapped else "list" if label == "repeated" else "one"
            found[here][number] = (name, shape, _resolve(mapped or plain, package))
    return found


def _mark_inline(messages: dict[str, dict[str, Field]], schemas: Mapping[str, Obj]) -> None:
    """Embedded Go structs have a field number but no JSON name: their fields belong to the outer object."""
    for message, fields in messages.items():
        properties = schemas.get(message.replace("k8s.io.", "io.k8s.", 1), {}).get("properties")
        for number, (name, shape, kind) in list(fields.items()):
            if properties is not None and name not in properties and "." in kind and shape == "one":
                fields[number] = (name, "inline", kind)


def messages(
    folders: Iterable[Path], rows: Iterable[Obj], extra: Iterable[str], schemas: Mapping[str, Obj]
) -> dict[str, Any]:
    """The messages reachable from the table's kinds, and the message of each apiVersion and kind."""
    known: dict[str, dict[str, Field]] = {}
    for folder in folders:
        for file in sorted(folder.rglob("generated.proto")):
            known |= parse(file.read_text())
    _mark_inline(known, schemas)
    kinds = {}
    for row in rows:
        version = f"{row['group']}/{row['version']}" if row["group"] else row["version"]
        kinds[f"{version}/{row['kind']}"] = row["schema"].replace("io.k8s.", "k8s.io.", 1)
    for name in extra:
        for gvk in schemas[name].get("x-kubernetes-group-version-kind", ()):
            version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            kinds[f"{version}/{gvk['kind']}"] = name.replace("io.k8s.", "k8s.io.", 1)
    found: dict[str, Any] = {"kinds": {key: name for key, name in sorted(kinds.items()) if name in known}}
    waiting = list(found["kinds"].values())
    while waiting:
        name = waiting.pop()
        if name not in found and name in known and name.rpartition(".")[2] not in _LEAVES:
            found[name] = known[name]
            waiting += [kind for _, _, kind in known[name].values() if "." in kind]
    return found
