"""Discovery documents: /api, /apis, group and version lists, the aggregated form.

Read off the kinds and views that are served now.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sandbox.api.http.requests import Reply, Request, json_reply
from sandbox.api.meta.objects import Obj
from sandbox.kinds.table import Kind

if TYPE_CHECKING:
    from sandbox.api.cluster.simulated import Cluster

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def versions(cluster: Cluster) -> dict[str, dict[str, list[Kind]]]:
    """Kinds by group and version; groups of views appear without kinds."""
    found: dict[str, dict[str, list[Kind]]] = defaultdict(lambda: defaultdict(list))
    for kind in cluster.kinds:
        found[kind.group][kind.version].append(kind)
    for group, version in cluster.views.groups:
        found[group].setdefault(version, [])
    return found


def _resource(kind: Kind) -> Obj:
    row: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    return row


def _subresource(kind: Kind, name: str, settings: Obj) -> Obj:
    shown = settings.get("kind") or {}
    row: Obj = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
    if name == "scale":
        shown = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    for key in ("group", "version"):
        if shown.get(key):
            row[key] = shown[key]
    return {**row, "kind": shown.get("kind", kind.kind), "verbs": settings["verbs"]}


def resource_list(cluster: Cluster, group: str, version: str) -> Obj:
    """APIResourceList of one group version; 404 when there is none."""
    kinds = versions(cluster)[group][version]
    rows = [_resource(kind) for kind in kinds]
    rows += [
        _subresource(kind, name, settings) for kind in kinds for name, settings in kind.subresources.items()
    ]
    rows += cluster.views.groups.get((group, version), [])
    shown = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": shown,
        "resources": sorted(rows, key=lambda row: str(row["name"])),
    }


def _group(group: str, found: dict[str, list[Kind]]) -> Obj:
    listed = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in sorted(found, reverse=True)
    ]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _aggregated_resource(kind: Kind) -> Obj:
    row: Obj = {
        "resource": kind.plural,
        "responseKind": {
            "group": "" if kind.native else kind.group,
            "version": "" if kind.native else kind.version,
            "kind": kind.kind,
        },
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if kind.subresources:
        row["subresources"] = [
            {
                "subresource": name,
                "responseKind": {"group": "", "version": "", "kind": kind.kind}
                | (settings.get("kind") or {}),
                "verbs": settings["verbs"],
            }
            for name, settings in kind.subresources.items()
        ]
    return row


def _aggregated(cluster: Cluster, *, core: bool) -> Reply:
    items = []
    for group, found in sorted(versions(cluster).items()):
        if (group == "") is core:
            listed = [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(kind) for kind in kinds],
                }
                for version, kinds in sorted(found.items(), reverse=True)
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": listed})
    reply = json_reply(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }
    )
    reply.media = _AGGREGATED
    return reply


def answer(cluster: Cluster, request: Request) -> Reply | None:
    """The discovery document of a path, or None."""
    parts = [part for part in request.path.split("/") if part]
    if not parts or parts[0] not in ("api", "apis"):
        return None
    if len(parts) == 1 and request.accepts("g=apidiscovery.k8s.io"):
        return _aggregated(cluster, core=parts[0] == "api")
    if parts == ["api"]:
        clients = [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}]
        return json_reply({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": clients})
    if parts[0] == "api":
        return json_reply(resource_list(cluster, "", parts[1])) if parts[1:] == ["v1"] else None
    return _named_groups(cluster, parts)


def _named_groups(cluster: Cluster, parts: list[str]) -> Reply | None:
    found = {group: kinds for group, kinds in versions(cluster).items() if group}
    if len(parts) == 1:
        groups = [_group(group, kinds) for group, kinds in sorted(found.items())]
        return json_reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    if parts[1] not in found or len(parts) > 3:
        return None
    if len(parts) == 2:
        return json_reply({"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], found[parts[1]])})
    return json_reply(resource_list(cluster, parts[1], parts[2])) if parts[2] in found[parts[1]] else None
