"""What is kept of metering: allocations, telemetry, the ledger, findings and closed months."""

from apps.metering.models.allocations import Allocation, Correction
from apps.metering.models.findings import Finding, IdlePolicy, Judgement, KubectlJudgement
from apps.metering.models.ledger import AccountSum, Bucket, DirtySpan, HardwareFact, RollPosition
from apps.metering.models.statements import (
    Statement,
    StatementExport,
    StatementLine,
    Unchangeable,
    WrittenOnce,
)
from apps.metering.models.telemetry import CollectorPosition, Device, Sample, TelemetryIssue

__all__ = [
    "AccountSum",
    "Allocation",
    "Bucket",
    "CollectorPosition",
    "Correction",
    "Device",
    "DirtySpan",
    "Finding",
    "HardwareFact",
    "IdlePolicy",
    "Judgement",
    "KubectlJudgement",
    "RollPosition",
    "Sample",
    "Statement",
    "StatementExport",
    "StatementLine",
    "TelemetryIssue",
    "Unchangeable",
    "WrittenOnce",
]
