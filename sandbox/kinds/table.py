"""Reads the generated table and answers look-ups of kinds.

Custom resources are added and removed while the server runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from sandbox.api.meta.errors import qualified
from sandbox.api.meta.objects import Obj
from sandbox.api.schema.structural import Node, SchemaPool

DATA = Path(__file__).parent / "data"
META_SCHEMA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
DEFAULT_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True)
class Kind:
    """One served resource. `native` kinds come from the table, the others from a CustomResourceDefinition."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    schema: Node
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Obj] = field(default_factory=dict)
    columns: tuple[Obj, ...] = ()
    fields: frozenset[str] = DEFAULT_FIELDS
    native: bool = True
    generation: bool = True
    schema_name: str = ""
    definition: Obj | None = None

    @property
    def key(self) -> str:
        """`jobs.batch`; `pods` in the core group."""
        return qualified(self.plural, self.group)

    @property
    def api_version(self) -> str:
        """`batch/v1`; `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored(self) -> bool:
        """Whether objects of the kind are kept (reviews only answer)."""
        return "get" in self.verbs

    def has_status(self) -> bool:
        """Whether status is written apart."""
        return "status" in self.subresources


@cache
def load(name: str) -> Any:
    """One file of generated data."""
    return orjson.loads((DATA / f"{name}.json").read_bytes())


@cache
def _pool() -> SchemaPool:
    """The table's schemas: no node ever changes, so all clusters of a process compile them once."""
    return SchemaPool(load("schemas"), load("table")["defaults"])


class Kinds:
    """Every kind the server knows, by path and by kubectl's name."""

    def __init__(self) -> None:
        table = load("table")
        self.version: Obj = table["version"]
        self.pool = _pool()
        self.not_simulated: frozenset[str] = frozenset(table["notSimulated"])
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_key: dict[str, Kind] = {}
        self.revision = 0
        for row in table["resources"]:
            self.add(self._native(row))

    def copy(self) -> Kinds:
        """The same kinds, with what was compiled of them; what is added to one is not served by the other."""
        twin = copy(self)
        twin._by_path, twin._by_key = dict(self._by_path), dict(self._by_key)
        return twin

    def _native(self, row: Obj) -> Kind:
        return Kind(
            group=row["group"],
            version=row["version"],
            plural=row["plural"],
            singular=row["singular"],
            kind=row["kind"],
            namespaced=row["namespaced"],
            schema=self.pool.named(row["schema"]),
            verbs=tuple(row["verbs"]),
            short_names=tuple(row.get("shortNames", ())),
            categories=tuple(row.get("categories", ())),
            subresources=row.get("subresources", {}),
            columns=tuple(row.get("columns", ())),
            fields=DEFAULT_FIELDS | frozenset(row.get("fields", ())),
            generation=row.get("generation", False),
            schema_name=row["schema"],
        )

    def add(self, kind: Kind) -> None:
        """Serve a kind from now on."""
        self._by_path[(kind.group, kind.version, kind.plural)] = kind
        self._by_key[kind.key] = kind
        self.revision += 1

    def remove(self, kind: Kind) -> None:
        """Stop serving a kind."""
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        self._by_key.pop(kind.key, None)
        self.revision += 1

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind of a REST path."""
        return self._by_path.get((group, version, plural))

    def named(self, key: str) -> Kind:
        """The kind of `jobs.batch`; KeyError when it is not served."""
        return self._by_key[key]

    def find(self, key: str) -> Kind | None:
        """The kind of `jobs.batch`, or None."""
        return self._by_key.get(key)

    def of_kind(self, group: str, kind: str) -> Kind | None:
        """The resource of a group and kind (owner references speak so)."""
        return next(
            (found for found in self._by_path.values() if found.group == group and found.kind == kind), None
        )

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_path.values())

    def meta_schema(self) -> Node:
        """The schema of ObjectMeta."""
        return self.pool.named(META_SCHEMA)
