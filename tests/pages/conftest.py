"""The cast with work: rosa runs a notebook and waits for one, on a small fleet that the mirror shows."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.quotas.models import Price
from apps.tenants.models import IsolationAttestation
from apps.tenants.specs import Verdict
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from tests import factories
from tests.conftest import Cast
from tests.pages import fleet


@dataclass(frozen=True)
class Scene:
    """`running` and `waiting` are rosa's, `other` is otto's in genomics."""

    cast: Cast
    running: Workload
    waiting: Workload
    other: Workload
    now: datetime

    def url(self, row: Workload, tail: str = "") -> str:
        return f"/t/{row.tenant.slug}/workloads/{row.pk}/{tail}"


@pytest.fixture
def scene(cast: Cast) -> Scene:
    now = timezone.now()
    Price.objects.update(valid_from=now - timedelta(days=1))
    flavor = cast.offer.flavor
    flavor.node_labels = {"nvidia.com/gpu.present": "true"}
    flavor.save()
    fleet.show_fleet(cast.vision.cluster, now=now)
    spec = parsing.as_json(parsing.parse(factories.notebook_body(cast.offer.slug)))
    running = factories.make_workload(cast.vision, cast.rosa, cast.offer, slug="rag-dev", spec=spec)
    waiting = factories.make_workload(cast.vision, cast.rosa, cast.offer, slug="next-one", spec=spec)
    other = factories.make_workload(cast.genomics, cast.otto, cast.offer, slug="secret-run", spec=spec)
    fleet.run(running, ("gpu-01", "gpu-0-mig-1g10gb-19-0"), now=now, started=timedelta(hours=1))
    fleet.run(other, ("gpu-01", "gpu-0-mig-1g10gb-19-1"), now=now, started=timedelta(hours=1))
    fleet.wait(waiting, now=now)
    fleet.reserve(cast.vision, {cast.offer: 1}, now=now)
    _attest(cast, now)
    return Scene(cast, running, waiting, other, now)


def _attest(cast: Cast, now: datetime) -> None:
    """One check of each outcome."""
    results = [
        {
            "key": word,
            "title": "The host's files are out of reach",
            "verdict": word,
            "words": "Tried and refused.",
        }
        for word in Verdict
    ]
    IsolationAttestation.objects.create(
        tenant=cast.vision, at=now, generation=1, results=results, passed=1, failed=1, not_checked=1
    )
