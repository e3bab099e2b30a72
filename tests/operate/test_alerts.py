"""Alerts, runbook and `/metrics` speak of the same things, and each alert fires when its time has come."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from portal.operate import exposition
from tests import yamls

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = yamls.document((ROOT / "k8s/product/alerts.yaml").read_text())
RULES: list[dict[str, Any]] = [rule for group in DOCUMENT["spec"]["groups"] for rule in group["rules"]]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
SECTIONS = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
PARTS = ("**Means.** ", "**Look.** ", "**Do.** ")

BROKEN: dict[str, list[tuple[str, str]]] = {
    "AllotmentGone": [("up", "1x60")],
    "AllotmentDatabaseDown": [("allotment_database_up", "0x60")],
    "AllotmentDatabaseFull": [("allotment_database_full", "1x60")],
    "AllotmentCertificateEnds": [
        ('allotment_cluster_certificate_due_timestamp_seconds{cluster="north"}', "0x60")
    ],
    "AllotmentRedisDown": [("allotment_redis_up", "0x60")],
    "AllotmentProcessMissing": [('allotment_processes{kind="worker"}', "0x60")],
    "AllotmentClockStopped": [
        ('allotment_task_last_success_timestamp_seconds{task="workloads.sweep"}', "60x60")
    ],
    "AllotmentQueueLag": [('allotment_queue_lag_seconds{queue="urgent"}', "90x60")],
    "AllotmentSweepBacklog": [('allotment_sweep_due{owner="workload"}', "900x60")],
    "AllotmentReconcileFailing": [
        ('allotment_reconciles_total{owner="workload",result="failed"}', "0+6x60"),
        ('allotment_reconciles_total{owner="workload",result="done"}', "0+1x60"),
    ],
    "AllotmentReconcileSlow": [
        ('allotment_reconcile_seconds_bucket{owner="workload",le="10.0"}', "0+1x60"),
        ('allotment_reconcile_seconds_bucket{owner="workload",le="20.0"}', "0+9x60"),
        ('allotment_reconcile_seconds_bucket{owner="workload",le="+Inf"}', "0+9x60"),
    ],
    "AllotmentClusterSilent": [('allotment_cluster_seen_seconds{cluster="north"}', "0+60x60")],
    "AllotmentClusterIncomplete": [('allotment_cluster_lacks{cluster="north"}', "1x60")],
    "AllotmentTelemetryLate": [('allotment_telemetry_lag_seconds{cluster="north"}', "400x60")],
    "AllotmentLedgerLate": [('allotment_ledger_lag_seconds{cluster="north"}', "4000x60")],
    "AllotmentLedgerDoesNotBalance": [('allotment_self_check_breaches{check="ledger:north"}', "3x60")],
    "AllotmentAuditBroken": [('allotment_self_check_breaches{check="audit"}', "1x60")],
    "AllotmentSelfCheckOverdue": [('allotment_self_check_timestamp_seconds{check="audit"}', "-40000x60")],
    "AllotmentErrors": [
        ('allotment_requests_total{route="page",status="503"}', "0+6x60"),
        ('allotment_requests_total{route="page",status="200"}', "0+60x60"),
    ],
    "AllotmentSlow": [
        ('allotment_request_seconds_bucket{route="page",le="2.5"}', "0+1x60"),
        ('allotment_request_seconds_bucket{route="page",le="5.0"}', "0+9x60"),
        ('allotment_request_seconds_bucket{route="page",le="+Inf"}', "0+9x60"),
    ],
}
"""What Prometheus reads, a value a minute, when the alert must fire."""
WELL = [
    ("allotment_build_info", "1x60"),
    ("allotment_database_up", "1x60"),
    ("allotment_redis_up", "1x60"),
    ('allotment_processes{kind="worker"}', "2x60"),
    ('allotment_processes{kind="door"}', "0x60"),
    ('allotment_task_last_success_timestamp_seconds{task="workloads.sweep"}', "0+60x60"),
    ('allotment_queue_lag_seconds{queue="urgent"}', "90 0x59"),
    ('allotment_sweep_due{owner="workload"}', "20x60"),
    ('allotment_reconciles_total{owner="workload",result="failed"}', "0+1x60"),
    ('allotment_reconciles_total{owner="workload",result="done"}', "0+9x60"),
    ('allotment_reconcile_seconds_bucket{owner="workload",le="0.5"}', "0+9x60"),
    ('allotment_reconcile_seconds_bucket{owner="workload",le="+Inf"}', "0+9x60"),
    ('allotment_cluster_seen_seconds{cluster="north"}', "5x60"),
    ('allotment_cluster_lacks{cluster="north"}', "0x60"),
    ("allotment_database_full", "0x60"),
    ('allotment_cluster_certificate_due_timestamp_seconds{cluster="north"}', "1000000x60"),
    ('allotment_telemetry_lag_seconds{cluster="north"}', "40x60"),
    ('allotment_ledger_lag_seconds{cluster="north"}', "400x60"),
    ('allotment_self_check_breaches{check="audit"}', "0x60"),
    ('allotment_self_check_breaches{check="ledger:north"}', "0x60"),
    ('allotment_self_check_timestamp_seconds{check="audit"}', "0x60"),
    ('allotment_requests_total{route="page",status="500"}', "0+1x60"),
    ('allotment_requests_total{route="page",status="200"}', "0+600x60"),
    ('allotment_request_seconds_bucket{route="page",le="0.1"}', "0+9x60"),
    ('allotment_request_seconds_bucket{route="page",le="+Inf"}', "0+9x60"),
]
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's prometheus")


@pytest.mark.django_db
def test_each_metric_of_an_alert_is_in_the_exposition(no_broker: None) -> None:
    families = text_string_to_metric_families(exposition.text(timezone.now()).decode())
    kinds = {family.name: family.type for family in families}
    told = set(kinds) | {f"{name}_total" for name, kind in kinds.items() if kind == "counter"}
    told |= {f"{name}_bucket" for name, kind in kinds.items() if kind == "histogram"}
    asked = {name for rule in RULES for name in re.findall(r"allotment_\w+", rule["expr"])}
    assert len(asked) > 10
    assert asked - told == set()


def test_each_alert_has_its_section_and_each_section_its_alert() -> None:
    assert [name for name, _ in SECTIONS] == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
    for name, body in SECTIONS:
        assert all(f"\n{part}" in body for part in PARTS), name
    links = set(re.findall(r"\(#(\w+)\)", RUNBOOK))
    assert links <= {name.lower() for name, _ in SECTIONS}


def run_promtool(*words: str) -> str:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_prometheus_takes_the_rules_and_each_fires_in_its_case_alone(tmp_path: Path) -> None:
    assert set(BROKEN) == {rule["alert"] for rule in RULES}
    rules, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    rules.write_text(yaml.safe_dump(DOCUMENT["spec"]))
    assert f"{len(RULES)} rules found" in run_promtool("check", "rules", str(rules))
    cases = [case(series, [alert]) for alert, series in BROKEN.items()] + [case(WELL, [])]
    tests.write_text(yaml.safe_dump({"rule_files": [str(rules)], "tests": cases}))
    run_promtool("test", "rules", str(tests))


def case(series: list[tuple[str, str]], alerts: list[str]) -> dict[str, Any]:
    """After 40 minutes of these values exactly these alerts fire."""
    alive = [] if any(name == "up" for name, _ in series) else WELL[:1]
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
    return {
        "interval": "1m",
        "input_series": [
            {"series": name, "values": values} for name, values in dict([*alive, *series]).items()
        ],
        "promql_expr_test": [{"expr": firing, "eval_time": "40m", "exp_samples": expected}],
    }
