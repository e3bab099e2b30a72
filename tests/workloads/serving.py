"""Services that were asked for, and that run."""

from typing import Any

from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests.conftest import Cast
from tests.factories import NOW
from tests.workloads.asking import submit


def asked(cast: Cast, **more: Any) -> Workload:
    return submit(cast, **{"kind": "service", "image": "vllm:1", "volumes": [], **more})


def runs(row: Workload) -> Workload:
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=NOW)
    row.refresh_from_db()
    return row
