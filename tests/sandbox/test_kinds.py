"""The generated table: complete, and every column of a built-in kind can be printed."""

from __future__ import annotations

from datetime import UTC, datetime

from sandbox.api.cluster.simulated import Cluster
from sandbox.api.printers.printers import CELLS
from sandbox.api.printers.tables import cells, definitions, json_path
from sandbox.kinds.generate import settings
from sandbox.kinds.table import load

NOW = datetime(2026, 11, 21, tzinfo=UTC)
GENERIC = {"Name", "Age", "Created At"}


def test_every_chosen_kind_is_in_the_table_and_nothing_else() -> None:
    rows = {f"{row['plural']}.{row['group']}".rstrip(".") for row in load("table")["resources"]}
    assert rows == set(settings("simulated")["resources"])


def test_every_definition_is_shipped_in_one_version() -> None:
    chosen = settings("simulated")["definitions"]
    shipped = {
        item["metadata"]["name"]: [v["name"] for v in item["spec"]["versions"]]
        for item in load("definitions")
    }
    assert shipped == {name: [version] for name, version in chosen.items()}


def test_no_kind_is_both_simulated_and_refused(cluster: Cluster) -> None:
    for kind in cluster.kinds:
        place = (
            f"{kind.group}/{kind.version}/{kind.plural}" if kind.group else f"{kind.version}/{kind.plural}"
        )
        assert place not in cluster.kinds.not_simulated


def test_every_column_of_a_built_in_kind_has_a_printer(cluster: Cluster) -> None:
    printed = {"endpoints", "endpointslices.discovery.k8s.io"}
    for kind in cluster.kinds:
        if not kind.native or kind.key in printed or not kind.stored:
            continue
        missing = {column["name"] for column in kind.columns} - GENERIC - set(CELLS.get(kind.key, {}))
        assert not missing, f"{kind.key}: {missing}"


def test_custom_columns_follow_their_json_path(cluster: Cluster) -> None:
    kind = cluster.kinds.named("workloads.kueue.x-k8s.io")
    obj = {
        "metadata": {"name": "w", "creationTimestamp": "2026-11-20T00:00:00Z"},
        "spec": {"queueName": "gpu"},
        "status": {"conditions": [{"type": "Admitted", "status": "True"}]},
    }
    row = dict(zip([column["name"] for column in definitions(kind)], cells(kind, obj, NOW), strict=True))
    assert row["Name"] == "w"
    assert row["Queue"] == "gpu"
    assert row["Admitted"] == "True"
    assert row["Age"] == "24h"
    assert json_path(obj, ".metadata.annotations['a.b/c']") is None
