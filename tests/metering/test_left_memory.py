"""The zombie that outlived its holder: memory on a device that nobody holds, named with its cure."""

from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.cluster.models import MirrorObject
from apps.metering.allocations.services import left_memory
from apps.metering.models import Allocation, Device, TelemetryIssue
from apps.metering.periodic import watch_telemetry
from apps.workloads.models import Workload
from tests.conftest import Cast
from tests.factories import make_workload
from tests.metering.books import AT, HOUR, MINUTE, STEP, Books
from tests.metering.hardware import CUT, WHOLE, node, tell
from tests.workloads import bodies

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOW = AT + HOUR
LEFT = {"memory_used_mib": 62_000, "memory_total_mib": 81_559, "processes": 0, "sm_active": 0}


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


@pytest.fixture
def row(cast: Cast) -> Workload:
    """A notebook that has ended; its cluster has a node with one whole GPU."""
    found = make_workload(cast.vision, cast.rosa, cast.offer)
    tell(found, node(), WHOLE)
    return found


def sees(books: Books, instance: str = "", *, until: datetime = NOW, **values: Any) -> Device:
    device = books.device("GPU-a", instance)
    Device.objects.filter(pk=device.pk).update(node="gpu-01")
    books.see(device, books.every(until - 12 * MINUTE, until), **LEFT | values)
    return device


def told(row: Workload, now: datetime = NOW) -> list[str]:
    left_memory.watch(row.cluster, now=now)
    rows = TelemetryIssue.objects.filter(kind="memory-left", resolved_at=None)
    return list(rows.values_list("message", flat=True))


def test_it_names_device_memory_last_holder_and_cure(books: Books, row: Workload) -> None:
    books.hold("GPU-a", AT - HOUR, AT + 20 * MINUTE, row=row)
    sees(books)
    (message,) = told(row)
    assert "GPU-a: 60.5 GiB in use, last held by" in message
    assert f"{row.name} of {row.tenant.name} until {AT + 20 * MINUTE:%Y-%m-%d %H:%M} UTC" in message
    assert "on gpu-01" in message
    assert "nvidia-smi --gpu-reset" in message
    books.see(books.device("GPU-a"), books.every(NOW, NOW + 12 * MINUTE), **LEFT | {"memory_used_mib": 3})
    assert told(row, NOW + 12 * MINUTE) == []


def test_processes_of_no_pod_are_told(books: Books, row: Workload) -> None:
    sees(books, processes=2, sm_active=900_000)
    assert "60.5 GiB in use by 2 processes of no pod, held by nobody that is known" in told(row)[0]


@pytest.mark.parametrize(
    "values",
    [{"memory_used_mib": None}, {"memory_used_mib": 500}, {"memory_total_mib": None, "memory_used_mib": 599}],
)
def test_what_is_not_told_or_the_drivers_own_is_nothing(
    books: Books, row: Workload, values: dict[str, Any]
) -> None:
    sees(books, **values)
    assert told(row) == []


def test_few_samples_say_nothing(books: Books, row: Workload) -> None:
    device = books.device("GPU-a")
    books.see(device, [NOW - STEP * n for n in range(8)], **LEFT)
    assert told(row) == []
    books.see(device, [NOW - MINUTE * 9], **LEFT)
    assert len(told(row)) == 1


def test_memory_that_went_meanwhile_was_somebodys(books: Books, row: Workload) -> None:
    device = sees(books)
    books.see(device, [NOW - STEP / 3], **LEFT | {"memory_used_mib": 4})
    assert told(row) == []


def test_what_somebody_holds_or_held_a_moment_ago_is_theirs(books: Books, row: Workload) -> None:
    sees(books)
    found = books.hold("GPU-a", AT, NOW - 5 * MINUTE, row=row)
    assert told(row) == []
    Allocation.objects.filter(pk=found.pk).update(ended_at=None)
    assert told(row) == []


def test_a_claim_of_whomever_holds_it_even_when_it_went_just_now(books: Books, row: Workload) -> None:
    sees(books)
    claim = bodies.claim("gpu-01/gpu-0")
    claim["metadata"]["ownerReferences"] = []
    tell(row, claim)
    assert told(row) == []
    MirrorObject.objects.filter(kind="ResourceClaim").update(gone_at=NOW - MINUTE)
    assert told(row) == []
    MirrorObject.objects.filter(kind="ResourceClaim").update(gone_at=NOW - 11 * MINUTE)
    assert len(told(row)) == 1


def test_of_a_cut_gpu_only_the_free_slice_is_haunted(books: Books, row: Workload) -> None:
    tell(row, CUT)
    sees(books, "1")
    Device.objects.update(gpu_instance=2)
    sees(books, "2")
    tell(row, bodies.claim("gpu-01/gpu-0-mig-1"))
    (message,) = told(row)
    assert ("GPU-a 2 1" in message, "GPU-a 1" in message) == (True, False)


def test_the_operator_reads_it_first(cast: Cast, books: Books, row: Workload) -> None:
    now = timezone.now()
    sees(books, until=now)
    watch_telemetry()
    client = Client()
    client.force_login(cast.petra)
    shown = client.get("/console/").content.decode()
    needs = shown[shown.index("Needs you") : shown.index("</section>", shown.index("Needs you"))]
    assert "Memory that nobody holds on gpu-01" in needs
    assert "GPU-a: 60.5 GiB in use" in needs
