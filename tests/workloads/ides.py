"""Notebooks that run, and the IDEs in their pods that workers ask."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.routing import Route

from apps.cluster.models import Cluster, MirrorObject
from apps.workloads.models import Workload
from apps.workloads.opening.services import asking
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase
from tests.conftest import Cast
from tests.door.forward import Forwarding
from tests.door.pod import Pod
from tests.factories import make_workload, notebook_body

NOW = datetime(2026, 11, 25, 16, 0, tzinfo=UTC)
BEGUN = NOW - timedelta(hours=2)
MINUTE = timedelta(minutes=1)
ADDRESSES = ("/healthz", "/api/kernels", "/api/status", "/api/terminals")
"""All that an IDE is asked for."""


def wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is late but where it never comes."""
    monkeypatch.setattr(asking, "SECONDS", 60.0)
    monkeypatch.setattr(asking, "SLICE_SECONDS", 90.0)


@contextmanager
def served(cast: Cast, folder: Path, routes: list[Route]) -> Iterator[Workload]:
    """Rosa's notebook, running in a real pod with these routes, behind a real port-forward."""
    row = running(cast, "mine")
    kubeconfig = folder / "kubeconfig"
    with Pod("mine", routes) as pod, Forwarding({"mine": pod.port}) as cluster:
        kubeconfig.write_text(cluster.kubeconfig)
        Cluster.objects.update(kubeconfig_path=str(kubeconfig))
        yield row


def running(cast: Cast, slug: str) -> Workload:
    """Rosa's notebook of that slug, running since BEGUN."""
    spec = parsing.as_json(parsing.parse(notebook_body(cast.offer.slug)))
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug=slug, spec=spec)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=BEGUN)
    MirrorObject.objects.create(
        cluster=row.cluster, kind="Pod", namespace=cast.vision.object_name, name=slug, uid=str(row.pk),
        owner_kind="workload", owner_id=str(row.pk), body={"spec": {"nodeName": "n"}},
    )  # fmt: skip
    row.refresh_from_db()
    return row
