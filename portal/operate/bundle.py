"""What somebody who helps from outside needs to see, as one file: `manage.py doctor --support-bundle FILE`.

RULE: everything in it is named here, one by one. Of settings only those of `SHOWN`; of rows only how many
there are; of what does not reconcile the kind, id and reason, not the words: a cluster may say anything back.
No name of a person, tenant or host is in it but the slugs of clusters.
"""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Model

from apps.cluster.models import Reconciled
from apps.cluster.objects.conditions import SYNCED, find
from apps.cluster.reconciling.services.sweep import ROWS
from portal.config import Config
from portal.operate.findings import Finding
from portal.operate.versions import versions

SHOWN = (
    "mode", "demo", "port", "door_port", "currency", "effective_formula", "log_level", "log_format",
    "database_pool", "lease_seconds", "sweep_seconds", "streams_per_person", "notebook_run_seconds",
    "protected_minutes", "deletion_grace_seconds", "longest_run_seconds", "telemetry_source",
    "telemetry_step_seconds", "telemetry_lookback_hours", "telemetry_retention_days", "ledger_fine_days",
    "kept_log_days", "kept_log_megabytes", "view_as_minutes",
)  # fmt: skip
"""Settings that are told as they are: none can hold a secret, an address or somebody's name."""
ADDRESSES = ("public_url", "apps_url", "database_url", "redis_url", "telemetry_url", "vcluster_chart_url")
"""Settings of which the scheme alone is told."""
MOST_ERRORS = 200


def write(path: Path, found: Iterable[Finding], config: Config, now: datetime) -> list[str]:
    """Writes the bundle, readable by its owner alone; answers the names of the files in it."""
    parts: dict[str, Any] = {
        "doctor.json": [each.shareable.as_dict() for each in found],
        "settings.json": _settings(config),
        **_of_database(now),
    }
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    with tarfile.open(path, "w:gz") as tar:
        for name, part in parts.items():
            body = json.dumps(part, indent=1, default=str).encode()
            info = tarfile.TarInfo(f"allotment-support/{name}")
            info.size, info.mtime, info.mode = len(body), int(now.timestamp()), 0o600
            tar.addfile(info, io.BytesIO(body))
    return list(parts)


def _settings(config: Config) -> dict[str, Any]:
    """The shown ones, and of all others only whether they are what they are by default."""
    plain = {name: getattr(config, name) for name in SHOWN if name in type(config).model_fields}
    schemes = {name: urlsplit(getattr(config, name)).scheme for name in ADDRESSES}
    fields = type(config).model_fields
    rest = [name for name in fields if name not in plain and name not in schemes]
    changed = sorted(name for name in rest if getattr(config, name) != fields[name].get_default())
    return {"settings": plain, "schemes": schemes, "changed": changed}


def _of_database(now: datetime) -> dict[str, Any]:
    """Empty where the database does not answer: the doctor says so."""
    try:
        return {
            "versions.json": versions(),
            "migrations.json": list(MigrationRecorder(connection).applied_migrations()),
            "counts.json": _counts(),
            "reconcile-errors.json": _errors(now),
        }
    except DatabaseError:
        return {}


def _counts() -> Mapping[str, int]:
    models: list[type[Model]] = [each for each in apps.get_models() if each.__module__.startswith("apps.")]
    return {each._meta.label: each._default_manager.count() for each in models}


def _errors(now: datetime) -> list[dict[str, Any]]:
    """Rows that failed to reconcile, the most often failed first."""
    found: list[dict[str, Any]] = []
    for owner, label in ROWS.items():
        model: type[Reconciled] = apps.get_model(label)
        rows = model._default_manager.filter(attempts__gt=0, deleted_at=None).order_by("-attempts", "pk")
        for row in rows[:MOST_ERRORS]:
            fact = find(row.conditions, SYNCED)
            seconds = round((row.due_at - now).total_seconds()) if row.due_at else None
            found.append(
                {
                    "kind": owner, "id": str(row.pk), "attempts": row.attempts, "due_in_seconds": seconds,
                    "reason": fact["reason"] if fact else "", "since": fact["since"] if fact else "",
                }
            )  # fmt: skip
    return sorted(found, key=lambda each: -each["attempts"])[:MOST_ERRORS]
