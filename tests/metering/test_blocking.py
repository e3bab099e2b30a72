"""What a finding blocks: what waits for its offer now, and what waited when it ended."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.metering.findings.selectors.blocking import Blocked, blocked_at, blocked_by
from apps.metering.findings.services.lifecycle import blocks_words
from apps.metering.models import Finding
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from tests import factories
from tests.conftest import Cast
from tests.factories import NOW

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def held(cast: Cast) -> Workload:
    """What holds devices; others are beside it."""
    return _row(cast, "held", Phase.STOPPED, NOW - 9 * MINUTE, NOW - 8 * MINUTE, ended_at=NOW)


def _row(
    cast: Cast, slug: str, phase: Phase, asked: datetime, started: datetime | None, **more: object
) -> Workload:
    row = factories.make_workload(cast.vision, cast.rosa, cast.offer, slug=slug)
    values = {"phase": phase, "asked_at": asked, "started_at": started, **more}
    Workload.objects.filter(pk=row.pk).update(**values)
    row.refresh_from_db()
    return row


def test_what_asked_before_it_ended_and_started_no_sooner_was_blocked(cast: Cast, held: Workload) -> None:
    _row(cast, "next", Phase.SUCCEEDED, NOW - 5 * MINUTE, NOW)
    _row(cast, "later", Phase.STOPPED, NOW - 2 * MINUTE, NOW + 3 * MINUTE)
    _row(cast, "had-its-place", Phase.SUCCEEDED, NOW - 5 * MINUTE, NOW - 4 * MINUTE)
    _row(cast, "came-after", Phase.SUCCEEDED, NOW, NOW + MINUTE)
    assert blocked_at(held, NOW) == Blocked(2, 2)


def test_what_has_waited_since_is_blocked_and_what_never_asked_to_run_is_not(
    cast: Cast, held: Workload
) -> None:
    _row(cast, "waits", Phase.PENDING, NOW - MINUTE, None)
    _row(cast, "by-hand", Phase.PENDING, NOW - MINUTE, None, held_at=NOW - MINUTE)
    _row(cast, "put-away", Phase.STOPPED, NOW - MINUTE, None, suspended=True)
    assert blocked_at(held, NOW) == Blocked(1, 1) == blocked_by(held)


def test_what_is_deleted_or_of_another_offer_is_not_blocked(cast: Cast, held: Workload) -> None:
    _row(cast, "gone", Phase.PENDING, NOW - MINUTE, None, deleted_at=timezone.now())
    other = _row(cast, "elsewhere", Phase.PENDING, NOW - MINUTE, None)
    whole = factories.make_offer(cast.offer.flavor, "h100-whole", profile="")
    Workload.objects.filter(pk=other.pk).update(offer=whole)
    assert blocked_at(held, NOW) == Blocked() == blocked_by(held)


def test_the_words_are_of_now_or_of_what_is_over() -> None:
    row = Finding(blocks=Blocked(1, 4).as_json())
    assert blocks_words(row) == "keeps 1 workload waiting, for 4 devices"
    row.closed_at = NOW
    assert blocks_words(row) == "kept 1 workload waiting, for 4 devices"
    assert blocks_words(Finding()) == ""
