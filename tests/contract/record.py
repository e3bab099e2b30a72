"""What the real control plane answered, kept beside the checks with its versions.

The record is written by a run on a real plane alone; nobody edits it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.api import Cluster
from tests.contract.runner import Outcome
from tests.controlplane import binaries

PLACE = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class Record:
    """Versions of what answered, the resources that it serves, and one observation per check."""

    versions: dict[str, str]
    served: list[str]
    observations: dict[str, Any]


def load(place: Path = PLACE) -> Record:
    """The record in the repository."""
    return Record(**json.loads(place.read_text()))


def save(opened: Cluster, outcomes: dict[str, Outcome], place: Path = PLACE) -> None:
    """Keep what a run saw. A run in which a check failed is no record."""
    failed = [name for name, outcome in outcomes.items() if outcome.failure]
    if failed:
        raise ValueError(f"not recorded, these failed: {', '.join(failed)}")
    observations = {name: outcome.observation for name, outcome in sorted(outcomes.items())}
    content = {"versions": _versions(opened), "served": served(opened), "observations": observations}
    place.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def served(opened: Cluster) -> list[str]:
    """Every resource with its group version, subresources left out, as discovery lists them."""
    groups = opened.http.get("/apis").json()["groups"]
    versions = [entry["groupVersion"] for group in groups for entry in group["versions"]]
    found = {f"v1/{name}" for name in _names(opened, "/api/v1")}
    for version in versions:
        found |= {f"{version}/{name}" for name in _names(opened, f"/apis/{version}")}
    return sorted(found)


def _names(opened: Cluster, path: str) -> list[str]:
    resources = opened.http.get(path).json()["resources"]
    return [entry["name"] for entry in resources if "/" not in entry["name"]]


def _versions(opened: Cluster) -> dict[str, str]:
    modules = {"kueue": "sigs.k8s.io/kueue", "kwok": "sigs.k8s.io/kwok"}
    pinned = {name: binaries.pinned_version(module) for name, module in modules.items()}
    return {"kubernetes": opened.http.get("/version").json()["gitVersion"], **pinned}
