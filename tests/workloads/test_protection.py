"""For how long protected work is protected, and how people learn of it. In the cluster: tests/drills."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.quotas.specs import Priority
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import Kind, Phase, WorkloadSpec
from apps.workloads.status import protection
from tests import factories
from tests.conftest import Cast

pytestmark = pytest.mark.both_databases

BEGAN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def queued(status: str = "True") -> dict[str, Any]:
    at = BEGAN.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"status": {"conditions": [{"type": "QuotaReserved", "status": status, "lastTransitionTime": at}]}}


def spec(kind: Kind = Kind.NOTEBOOK, priority: Priority = Priority.PROTECTED) -> WorkloadSpec:
    return WorkloadSpec(kind, "h100-whole", "python:3.13", priority=priority)


def test_it_counts_from_the_moment_at_which_kueue_reserved_quota() -> None:
    assert protection.ends_at(spec(), queued(), HOUR) == BEGAN + HOUR
    assert protection.ends_at(spec(), queued("False"), HOUR) is None
    assert protection.ends_at(spec(), None, HOUR) is None
    assert protection.ends_at(spec(priority=Priority.BATCH), queued(), HOUR) is None


@pytest.mark.parametrize(("kind", "rank"), [(Kind.NOTEBOOK, 1000), (Kind.JOB, 500)])
def test_at_its_end_it_counts_as_the_usual_class_of_its_kind(kind: Kind, rank: int) -> None:
    ends = BEGAN + HOUR
    assert protection.priority_at(spec(kind), ends, ends - timedelta(seconds=1)) == 10_000
    assert protection.priority_at(spec(kind), ends, ends) == rank


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("ends_in", "words"),
    [(20, "nobody takes back what it borrowed"), (-20, "it counts as interactive")],
)
def test_the_page_and_rest_say_until_when(cast: Cast, client: Any, ends_in: int, words: str) -> None:
    asked = parsing.parse(factories.notebook_body(cast.offer.slug) | {"priority": "protected"})
    row = factories.make_workload(cast.vision, cast.leon, cast.offer, slug="rag", spec=parsing.as_json(asked))
    until = timezone.now() + timedelta(minutes=ends_in)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, protected_until=until)
    client.force_login(cast.leon)
    page = " ".join(client.get(f"/t/vision/workloads/{row.pk}/").content.decode().split())
    assert words in page
    told = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["protected_until"]
    assert datetime.fromisoformat(told) == until
