"""Writes the kinds table from a running control plane: `python -m sandbox.kinds.generate --kubeconfig FILE`.

Decides which kinds by simulated.yaml.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import orjson
import yaml

from sandbox.api.meta.errors import qualified
from sandbox.api.meta.objects import Obj
from sandbox.api.schema.structural import SchemaPool
from sandbox.kinds import protos
from sandbox.kinds.learn import Learner
from sandbox.kinds.sources import ApiSource

HERE = Path(__file__).parent
_REF = "#/components/schemas/"


class Source(Protocol):
    """What the generator needs to read."""

    def discovery(self) -> list[Obj]:
        """Aggregated discovery of every group."""
        ...

    def openapi(self, group_version: str) -> dict[str, Obj]:
        """Schemas of one group and version."""
        ...

    def definitions(self) -> list[Obj]:
        """Installed CustomResourceDefinitions."""
        ...

    def columns(self, path: str) -> list[Obj]:
        """Table columns of a collection."""
        ...

    def dry_run(self, path: str, body: Obj) -> Obj:
        """What would be stored for a body."""
        ...

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        ...

    def version(self) -> Obj:
        """/version."""
        ...


def settings(name: str) -> Obj:
    """A hand-written choice beside this script."""
    return cast("Obj", yaml.safe_load((HERE / f"{name}.yaml").read_text()))


def offered(groups: Iterable[Obj]) -> Iterable[tuple[str, str, Obj]]:
    """Every (group, version, resource) of aggregated discovery."""
    for group in groups:
        for version in group["versions"]:
            for resource in version["resources"]:
                yield group.get("metadata", {}).get("name", ""), version["version"], resource


def collection(group: str, version: str, resource: Obj) -> str:
    """The path of a collection, in the default namespace where it has one."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    scope = "/namespaces/default" if resource["scope"] == "Namespaced" else ""
    return f"{root}{scope}/{resource['resource']}"


def schema_name(schemas: Mapping[str, Obj], group: str, version: str, kind: str) -> str:
    """The schema that carries a group-version-kind."""
    wanted = {"group": group, "version": version, "kind": kind}
    return next(
        name for name, raw in schemas.items() if wanted in raw.get("x-kubernetes-group-version-kind", ())
    )


def row(group: str, version: str, resource: Obj, *, schemas: Mapping[str, Obj], chosen: Obj) -> Obj:
    """One line of the table, columns still missing."""
    kind = resource["responseKind"]["kind"]
    subresources = {
        sub["subresource"]: {"kind": sub.get("responseKind", {}), "verbs": sub["verbs"]}
        for sub in resource.get("subresources", ())
    }
    return {
        "group": group,
        "version": version,
        "plural": resource["resource"],
        "singular": resource.get("singularResource", ""),
        "kind": kind,
        "namespaced": resource["scope"] == "Namespaced",
        "verbs": resource["verbs"],
        "shortNames": resource.get("shortNames", []),
        "categories": resource.get("categories", []),
        "subresources": subresources,
        "schema": schema_name(schemas, group, version, kind),
        "fields": chosen.get("fields", []),
    }


def references(raw: Any) -> Iterable[str]:
    """Names a schema refers to."""
    if isinstance(raw, dict):
        if isinstance(raw.get("$ref"), str):
            yield raw["$ref"].removeprefix(_REF)
        for value in raw.values():
            yield from references(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from references(value)


def reachable(names: Iterable[str], schemas: Mapping[str, Obj]) -> dict[str, Obj]:
    """The named schemas and all they refer to."""
    found: dict[str, Obj] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name in schemas:
            found[name] = schemas[name]
            waiting.extend(references(schemas[name]))
    return dict(sorted(found.items()))


def one_version(definition: Obj, version: str) -> Obj:
    """A definition with one version and no conversion, as it is installed here."""
    spec = {
        **definition["spec"],
        "versions": [item for item in definition["spec"]["versions"] if item["name"] == version],
    }
    spec.pop("conversion", None)
    annotations = {
        key: value
        for key, value in definition["metadata"].get("annotations", {}).items()
        if "last-applied" not in key
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition["metadata"]["name"], "annotations": annotations},
        "spec": spec,
    }


def bootstrap_access(source: Source) -> list[Obj]:
    """The cluster roles and bindings that the server itself makes."""
    root = "/apis/rbac.authorization.k8s.io/v1"
    kept: list[Obj] = []
    for plural, kind in (("clusterroles", "ClusterRole"), ("clusterrolebindings", "ClusterRoleBinding")):
        for item in source.get(f"{root}/{plural}")["items"]:
            metadata = item["metadata"]
            if metadata.get("labels", {}).get("kubernetes.io/bootstrapping") != "rbac-defaults":
                continue
            short = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
            kept.append(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": kind,
                    "metadata": short,
                    **{
                        key: item[key]
                        for key in ("rules", "aggregationRule", "roleRef", "subjects")
                        if item.get(key)
                    },
                }
            )
    return kept


def learn(source: Source, rows: list[Obj], pool: SchemaPool) -> tuple[dict[str, Obj], set[str]]:
    """Defaults by schema name, and the kinds that carry metadata.generation, from dry-run creates of the
    probes.
    """
    learner, generations = Learner(), set()
    places = {(item["kind"], item["group"]): item for item in rows}
    for probe in settings("probes")["probes"]:
        group = probe["apiVersion"].rpartition("/")[0]
        found = places[(probe["kind"], group)]
        scope = "Namespaced" if found["namespaced"] else "Cluster"
        stored = source.dry_run(
            collection(group, found["version"], {"resource": found["plural"], "scope": scope}), probe
        )
        learner.compare(probe, stored, pool.named(found["schema"]))
        if "generation" in stored["metadata"]:
            generations.add(qualified(found["plural"], group))
    return learner.defaults(), generations


def generate(source: Source) -> dict[str, Any]:
    """Everything that goes into the data folder."""
    chosen = settings("simulated")
    schemas: dict[str, Obj] = {}
    rows: list[Obj] = []
    left: list[str] = []
    for group, version, resource in offered(source.discovery()):
        key = qualified(resource["resource"], group)
        if key not in chosen["resources"] or version != chosen["versions"]["default"]:
            left.append(
                f"{group}/{version}/{resource['resource']}" if group else f"{version}/{resource['resource']}"
            )
            continue
        if not any(item["group"] == group for item in rows):
            schemas |= source.openapi(f"{group}/{version}" if group else version)
        rows.append(row(group, version, resource, schemas=schemas, chosen=chosen["resources"][key]))
        if "list" in resource["verbs"]:
            rows[-1]["columns"] = source.columns(collection(group, version, resource))
    schemas |= source.openapi("autoscaling/v1") | source.openapi("policy/v1")
    kept = reachable([*(item["schema"] for item in rows), *chosen["extraSchemas"]], schemas)
    defaults, generations = learn(source, rows, SchemaPool(kept))
    for item in rows:
        item["generation"] = qualified(item["plural"], item["group"]) in generations
    definitions = {item["metadata"]["name"]: item for item in source.definitions()}
    served = {
        f"{name.partition('.')[2]}/{version}/{name.partition('.')[0]}"
        for name, version in chosen["definitions"].items()
    }
    return {
        "table": {
            "version": source.version(),
            "resources": rows,
            "notSimulated": sorted(set(left) - served),
            "defaults": defaults,
        },
        "schemas": kept,
        "definitions": [
            one_version(definitions[name], version) for name, version in chosen["definitions"].items()
        ],
        "access": bootstrap_access(source),
    }


def write(data: Mapping[str, Any], folder: Path) -> None:
    """One compact, sorted JSON file for each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in data.items():
        (folder / f"{name}.json").write_bytes(
            orjson.dumps(part, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        required=True,
        help="an administrator's kubeconfig of a real control plane with Kueue",
    )
    parser.add_argument("--out", type=Path, default=HERE / "data")
    parser.add_argument(
        "--protos",
        type=Path,
        nargs="*",
        default=[],
        help="folders with the .proto files of that version (Go modules k8s.io/api and k8s.io/apimachinery)",
    )
    args = parser.parse_args()
    data = generate(ApiSource(args.kubeconfig))
    if args.protos:
        chosen = settings("simulated")["extraSchemas"]
        data["messages"] = protos.messages(args.protos, data["table"]["resources"], chosen, data["schemas"])
    write(data, args.out)


if __name__ == "__main__":
    main()
