"""What asking for one's place costs while 10, 100, 1,000 (and 10,000) wait in the same queue."""

import math
import os
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.cluster.models import MirrorObject
from apps.cluster.objects.queueing import QueueState, asks_of, rank_of
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase
from apps.workloads.waiting.selectors import places, waiting
from tests.conftest import Cast, as_actor
from tests.drills.many import calls_of
from tests.factories import NOW, notebook_body

pytestmark = [pytest.mark.exhaustive, pytest.mark.django_db, pytest.mark.timeout(1200)]

LONGEST = int(os.environ.get("DRILL_WAITING", "1000"))
SIZES = [size for size in (10, 100, 1_000, 10_000) if size <= LONGEST]
SAMPLES = 40
STEEPEST = 0.1
IS_TIMED = LONGEST >= 10_000
"""The clock decides in the long drill alone; the gate counts Python's calls: a busy machine adds none."""
MOST_QUERIES = 20


def test_a_look_up_costs_the_same_however_many_wait(
    cast: Cast, record_property: Callable[[str, object], None]
) -> None:
    whole, place, calls = [], [], []
    for size in SIZES:
        _fill(cast, size)
        related = Workload.objects.select_related("cluster", "tenant__department", "offer__flavor", "owner")
        row = related.order_by("-asked_at")[0]  # the last one: a place is a count of those before it
        told = waiting.queue_of(as_actor(cast.rosa), row, NOW)
        assert told is not None
        assert (told["position"], told["of"]) == (size, size)
        rosa = as_actor(cast.rosa)
        look_up = partial(waiting.queue_of, rosa, row, NOW)
        calls.append(calls_of(look_up))
        if IS_TIMED:
            whole.append(_undisturbed(look_up))
            place.append(_undisturbed(partial(places.entry_of, row)))
    record_property("n", SIZES[-1])
    record_property("sizes", SIZES)
    record_property("Python's calls", calls)
    # The shortest queue is shown whole; from 100 on there is more than is shown.
    assert max(calls[1:]) - min(calls[1:]) < SIZES[0], "less than one per workload that waits"
    if not IS_TIMED:
        return
    record_property("look-up CPU ms", [round(seconds * 1000, 2) for seconds in whole])
    record_property("place alone CPU ms", [round(seconds * 1000, 2) for seconds in place])
    record_property("exponent", round(_exponent(whole), 4))
    assert _exponent(whole) <= STEEPEST, (SIZES, whole)


def test_a_look_up_reads_each_thing_once(cast: Cast, record_property: Callable[[str, object], None]) -> None:
    _fill(cast, 10)
    related = Workload.objects.select_related("cluster", "tenant__department", "offer__flavor", "owner")
    row = related.order_by("-asked_at")[0]
    with CaptureQueriesContext(connection) as asked:
        waiting.queue_of(as_actor(cast.rosa), row, NOW)
    record_property("queries", len(asked))
    assert len(asked) <= MOST_QUERIES


def _exponent(seconds: list[float]) -> float:
    """The slope of cost over size, both as logarithms: 0 is flat, 1 grows with the queue."""
    return statistics.linear_regression([math.log(n) for n in SIZES], [math.log(s) for s in seconds]).slope


def _undisturbed(ask: Callable[[], object]) -> float:
    """CPU seconds of the lowest tenth: whoever else uses the caches of this machine can only add to it."""
    taken = []
    for _ in range(SAMPLES):
        begun = time.thread_time()  # other work on the machine must not count; the database is in-process
        ask()
        taken.append(time.thread_time() - begun)
    return statistics.quantiles(taken, n=10)[0]


def _fill(cast: Cast, size: int) -> None:
    """Bring the queue of one tenant to that length; a second between each and the next."""
    start = Workload.objects.count()
    rows = [_row(cast, number) for number in range(start, size)]
    Workload.objects.bulk_create(rows, batch_size=200)
    MirrorObject.objects.bulk_create([_entry(row) for row in rows], batch_size=200)


def _row(cast: Cast, number: int) -> Workload:
    return Workload(
        id=uuid4(), cluster=cast.vision.cluster, tenant=cast.vision, owner=cast.rosa, slug=f"w{number}",
        name=f"w{number}", kind=Kind.NOTEBOOK, offer=cast.offer, spec=notebook_body(cast.offer.slug),
        phase=Phase.PENDING, object_name=f"w{number}", asked_at=NOW + timedelta(seconds=number),
    )  # fmt: skip


def _entry(row: Workload) -> MirrorObject:
    container = {"limits": {row.offer.resource_name: "1"}}
    body = {
        "metadata": {"uid": f"uid-{row.slug}", "creationTimestamp": f"{row.asked_at:%Y-%m-%dT%H:%M:%SZ}"},
        "spec": {"priority": 1000, "active": True, "podSets": [{"count": 1, "resources": [container]}]},
        "status": {},
    }
    return MirrorObject(
        cluster=row.cluster, kind="Workload", namespace=row.tenant.object_name, name=row.slug,
        uid=f"uid-{row.slug}", owner_kind="workload", owner_id=str(row.pk), body=body,
        queue_state=QueueState.WAITS, queue_rank=rank_of(body), queue_asks=asks_of(body),
        created_at=row.asked_at,
    )  # fmt: skip
