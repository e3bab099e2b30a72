"""Learns the defaults that the real server adds in code: by comparing a dry-run answer with what was sent.

Writes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sandbox.api.meta.objects import Obj
from sandbox.api.schema.structural import Node

# Values that differ with every request, or that admission, controllers and allocators own.
_NEVER = frozenset(
    {
        "metadata",
        "apiVersion",
        "kind",
        "clusterIP",
        "clusterIPs",
        "status",
        "selector",
        "taints",
        "tolerations",
        "timeAdded",
        "names",
        "finalizers",
        "ipFamilies",
        "ipFamilyPolicy",
    }
)


class Learner:
    """Collects, per schema name, the fields that appear although nobody sent them.

    A field seen with two values is left to code.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
        self._absent: dict[str, set[str]] = defaultdict(set)

    def compare(self, sent: Any, stored: Any, node: Node) -> None:
        """Walk both trees along the schema."""
        if isinstance(stored, dict):
            self._struct(sent if isinstance(sent, dict) else {}, stored, node)
        elif isinstance(stored, list) and node.items is not None:
            sent_items = sent if isinstance(sent, list) else []
            for index, item in enumerate(stored):
                self.compare(sent_items[index] if index < len(sent_items) else {}, item, node.items)

    def _struct(self, sent: Obj, stored: Obj, node: Node) -> None:
        for key, value in stored.items():
            child = node.field(key)
            if child is None or key in _NEVER:
                continue
            if (
                key not in sent
                and node.name
                and node.properties is not None
                and key in node.properties
                and not child.has_default
            ):
                self._seen[node.name][key].append({} if isinstance(value, dict) else value)
            self.compare(sent.get(key), value, child)
        if node.name:
            self._absent[node.name] |= set(node.properties or ()) - set(stored)

    def defaults(self) -> dict[str, Obj]:
        """Fields that always appeared, always with the same value."""
        found: dict[str, Obj] = {}
        for name, fields in sorted(self._seen.items()):
            steady = {
                key: values[0]
                for key, values in sorted(fields.items())
                if key not in self._absent[name]
                and all(value == values[0] for value in values)
                and values[0] != []
            }
            if steady:
                found[name] = steady
        return found
