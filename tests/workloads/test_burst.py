"""One task takes along what others wait for: side by side, each row once, and nothing of one is another's."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Barrier, active_count
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone
from structlog.contextvars import bound_contextvars, get_contextvars

from apps.cluster.gateway.port import Gateway
from apps.cluster.reconciling.services import burst, sweep, wake
from apps.cluster.reconciling.services.frame import Result, run_reconcile
from apps.workloads.models import Workload
from tests.cluster.doubles import FakeCluster
from tests.conftest import Cast
from tests.factories import make_workload
from tests.patience import patient

LATER = timedelta(hours=1)
pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(not settings.CONFIG.database_url, reason="needs PostgreSQL (ALLOTMENT_DATABASE_URL)"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
Act = Callable[[UUID | str], None]


@pytest.fixture
def rows(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """Four wishes."""
    monkeypatch.setattr(wake, "hint", lambda *_, **__: None)
    return [make_workload(cast.vision, cast.rosa, cast.offer, slug=f"nb-{n}").pk for n in range(4)]


def follow(pk: UUID, act: Act) -> None:
    burst.follow(Workload, str(pk), act, owner="workload")


class Looks:
    """A reconcile that only counts, and does what it is given for a row in its middle."""

    def __init__(self, act: Act = lambda _: None) -> None:
        self.act, self.seen = act, Counter[UUID]()

    def __call__(self, pk: UUID | str) -> None:
        run_reconcile(Workload, pk, self._body, owner="workload", gateway=FakeCluster())

    def _body(self, row: Workload, _gateway: Gateway, _now: datetime) -> Result:
        self.seen[row.pk] += 1
        self.act(row.pk)
        return Result()


def test_wishes_that_wait_are_taken_along_side_by_side_and_their_hints_do_nothing(rows: list[UUID]) -> None:
    together, threads = Barrier(len(rows)), active_count()

    def meets(_: UUID | str) -> None:
        together.wait(patient(10))

    looks = Looks(meets)

    follow(rows[0], looks)

    assert active_count() == threads
    assert looks.seen == Counter(rows)
    assert set(Workload.objects.values_list("observed_generation", "attempts", "lease_owner")) == {(1, 0, "")}
    for row in rows:
        follow(row, looks)
    assert looks.seen == Counter(rows)


def test_the_log_names_the_row_that_is_looked_at(rows: list[UUID]) -> None:
    known: dict[UUID, Any] = {}
    looks = Looks(lambda pk: known.update({UUID(str(pk)): get_contextvars()}))

    with bound_contextvars(task="t", workload_id=str(rows[0])):
        follow(rows[0], looks)

    said = {row: (found["task"], found["workload_id"]) for row, found in known.items()}
    assert said == {row: ("t", str(row)) for row in rows}


def test_a_row_that_fails_stops_no_other(rows: list[UUID], caplog: pytest.LogCaptureFixture) -> None:
    looks = Looks()

    def fails(pk: UUID | str) -> None:
        if str(pk) == str(rows[1]):
            raise KeyError("spec")
        looks(pk)

    follow(rows[0], fails)

    assert looks.seen == Counter([rows[0], *rows[2:]])
    assert f"{rows[1]}, taken along" in caplog.text
    with pytest.raises(KeyError):
        follow(rows[1], fails)


def test_the_task_hears_that_the_database_is_away_and_nothing_is_lost(rows: list[UUID]) -> None:
    looks = Looks()

    def away(pk: UUID | str) -> None:
        if str(pk) == str(rows[1]):
            raise OperationalError("the connection is closed")
        looks(pk)

    with pytest.raises(OperationalError):
        follow(rows[0], away)

    assert looks.seen[rows[0]] == 1
    assert set(sweep.due(Workload, timezone.now())) == set(rows) - set(looks.seen)
    follow(rows[1], looks)
    assert looks.seen == Counter(rows)


@pytest.mark.parametrize(
    "facts",
    [
        {"lease_until": LATER, "lease_owner": "another"},
        {"attempts": 1, "due_at": -LATER},
        {"observed_generation": 1, "due_at": -LATER},
        {"deleted_at": -LATER},
    ],
    ids=["held", "failed before", "only noted", "gone"],
)
def test_only_untried_wishes_are_taken_along(facts: dict[str, Any], rows: list[UUID]) -> None:
    now, looks = timezone.now(), Looks()
    moments = {name: now + value if isinstance(value, timedelta) else value for name, value in facts.items()}
    Workload.objects.filter(pk__in=rows[2:]).update(**moments)

    follow(rows[0], looks)

    assert looks.seen == Counter(rows[:2])


def test_what_the_cluster_tells_takes_nobody_along(rows: list[UUID]) -> None:
    looks = Looks()
    Workload.objects.filter(pk=rows[0]).update(observed_generation=1, due_at=timezone.now())

    follow(rows[0], looks)

    assert looks.seen == Counter(rows[:1])
