"""The real client against a sandbox over HTTPS that throttles, cuts, fails, or is not there at all."""

import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.cluster.gateway.port import open_gateway
from apps.cluster.models import Cluster
from apps.cluster.objects.conditions import find
from apps.cluster.reconciling.services import sweep
from apps.tenants.lifecycle.services.reconcile import reconcile_department
from apps.tenants.models import Department
from tests import factories
from tests.patience import patient
from tests.ports import free_port
from tests.sample import every
from tests.sandbox.running import Running, start

pytestmark = pytest.mark.programs

ROWS = 6
RETRY_AFTER = 2
ENOUGH = timedelta(seconds=70)
"""A back-off and a sweep."""


class Place:
    """A sandbox of its own on a port of its own, and rows that want one object each in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.running = self._start()
        self.cluster = Cluster.objects.create(
            slug="bad", name="Bad", kubeconfig_path=str(self.running.kubeconfig)
        )
        self.rows = [factories.make_department(self.cluster, f"d{n}") for n in range(ROWS)]

    def _start(self) -> Running:
        return start(self.folder, "--port", str(self.port))

    def again(self) -> None:
        self.running = self._start()

    def fault(self, kind: str, **how: Any) -> None:
        answer = self.running.call("POST", "/sandbox/faults", {"kind": kind, **how})
        assert answer.status_code == 200, answer.text

    def clear(self) -> int:
        """End every fault; how many requests met one."""
        met = int(self.running.call("GET", "/sandbox/faults").json()["met"])
        self.running.call("DELETE", "/sandbox/faults")
        return met

    def work(self, later: timedelta = timedelta()) -> None:
        for pk in sweep.due(Department, timezone.now() + later):
            reconcile_department(pk)

    def flood(self) -> None:
        """A hint for every row, due or not."""
        for row in self.rows:
            reconcile_department(row.pk)

    def synced(self) -> list[tuple[str, str]]:
        found = [find(row.conditions, "Synced") for row in Department.objects.order_by("slug")]
        return [(entry["status"], entry["reason"]) for entry in found if entry]

    def cohorts(self) -> list[str]:
        items, _ = open_gateway(self.cluster).list("Cohort")
        return sorted(item["metadata"]["name"] for item in items)

    def wanted(self) -> list[str]:
        return sorted(row.object_name for row in self.rows)


@pytest.fixture
def place(db: None, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.running.stop()


def test_a_server_that_throttles_is_left_in_peace_whatever_is_hinted(
    place: Place, record_property: Callable[[str, object], None]
) -> None:
    place.fault("status", code=429, retryAfter=RETRY_AFTER, verbs=["PATCH"], seconds=60)
    began = time.monotonic()
    while time.monotonic() - began < 2 * RETRY_AFTER:
        place.flood()
    seconds, met = time.monotonic() - began, place.clear()
    record_property("requests_per_second_while_throttled", round(met / seconds, 2))
    assert 1 <= met <= seconds / RETRY_AFTER + 1
    assert place.synced() == [("False", "Throttled")] * ROWS
    time.sleep(RETRY_AFTER)
    place.work(later=ENOUGH)
    assert place.synced() == [("True", "Applied")] * ROWS
    assert place.cohorts() == place.wanted()


def test_answers_that_are_cut_after_the_write_double_nothing(place: Place) -> None:
    place.fault("cut", verbs=["PATCH"], seconds=60)
    place.work()
    assert place.synced() == [("False", "ClusterUnavailable")] * ROWS
    assert place.clear() <= 2 * ROWS
    assert place.cohorts() == place.wanted(), "the writes were done, only the answers were lost"
    place.work(later=ENOUGH)
    assert place.synced() == [("True", "Applied")] * ROWS
    assert place.cohorts() == place.wanted()


@pytest.mark.parametrize("code", every(2, [500, 503, 409]))
def test_a_server_in_trouble_is_tried_again_later_and_not_at_once(place: Place, code: int) -> None:
    place.fault("status", code=code, verbs=["PATCH"], seconds=60)
    for _ in range(20):
        place.work()
    assert place.clear() <= 2 * ROWS
    assert [status for status, _ in place.synced()] == ["False"] * ROWS
    place.work(later=ENOUGH)
    assert place.synced() == [("True", "Applied")] * ROWS


def test_a_server_that_is_not_there_costs_no_wait_and_no_row(place: Place) -> None:
    place.running.stop(signal.SIGKILL)
    began = time.monotonic()
    place.work()
    assert time.monotonic() - began < patient(ROWS)
    assert place.synced() == [("False", "ClusterUnavailable")] * ROWS
    place.again()
    place.work(later=ENOUGH)
    assert place.synced() == [("True", "Applied")] * ROWS
    assert place.cohorts() == place.wanted()
