"""Another size of a notebook: applied while it is stopped, by a restart while it runs, never by surprise."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.errors import Conflict, DomainError, Invalid, NotAllowed, QuotaExceeded
from apps.quotas.models import Offer
from apps.workloads.lifecycle.selectors.admission_check import PriceMoved
from apps.workloads.lifecycle.services import resizing, verbs
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange, WorkloadSpec
from portal.api.base.writing import merged
from tests import factories
from tests.conftest import Cast, as_actor
from tests.factories import NOW
from tests.pages import fleet
from tests.workloads.asking import submit
from tests.workloads.in_process import House
from tests.workloads.rest import Api, made, rosa

__all__ = ["rosa"]
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def wide(cast: Cast) -> Offer:
    """An offer three times the price, of which the team may have two."""
    offer = factories.make_offer(cast.offer.flavor, "h100-3g-40gb", profile="3g.40gb", hourly="1.26")
    factories.make_quota(cast.vision, offer)
    return offer


def wanted(row: Workload, **changed: Any) -> WorkloadSpec:
    return parsing.parse(merged(parsing.as_json(reading.spec_of(row)), changed))


def resize(cast: Cast, row: Workload, *, restart: bool = False, **changed: Any) -> Workload:
    change = WorkloadChange(spec=wanted(row, **changed), restart=restart)
    return resizing.resize_workload(actor=as_actor(cast.rosa), workload=row, change=change, now=NOW)


def given(row: Workload, **columns: Any) -> Workload:
    Workload.objects.filter(pk=row.pk).update(**columns)
    row.refresh_from_db()
    return row


def test_a_stopped_notebook_takes_its_new_size_when_it_starts(cast: Cast, wide: Offer) -> None:
    row = given(submit(cast), phase=Phase.STOPPED, suspended=True)
    found = resize(cast, row, offer=wide.slug, count=2, memory="8Gi", max_run_seconds=7200)
    assert (found.phase, found.suspended, found.offer) == (Phase.STOPPED, True, wide)
    again = verbs.resume_workload(actor=as_actor(cast.rosa), workload=row, reason="", now=NOW)
    spec = reading.spec_of(again)
    assert (spec.offer, spec.count, spec.memory_bytes, spec.max_run_seconds) == (wide.slug, 2, 2**33, 7200)


def test_what_runs_is_ended_and_made_anew_only_where_it_may_be(cast: Cast, wide: Offer) -> None:
    house = House(submit(cast))
    house.start()
    before = house.controller["uid"]
    with pytest.raises(Invalid, match="only change while it waits or is stopped"):
        resize(cast, house.row, offer=wide.slug)
    assert reading.spec_of(house.row).offer == cast.offer.slug
    row = resize(cast, house.row, restart=True, offer=wide.slug)
    assert (row.phase, row.started_at, row.stops_at) == (Phase.PENDING, None, None)
    assert house.turn().phase == Phase.PENDING
    assert "Pod" not in house.kinds(), "its former self goes first"
    house.forget("Pod", "Workload", "ResourceClaim")
    house.turn()
    assert house.controller["uid"] != before
    assert house.start().phase == Phase.RUNNING
    assert WorkloadEvent.objects.filter(workload=row, reason="Restarted").count() == 1
    changes = AuditEvent.objects.get(action="workload.update").changes
    assert changes["offer"] == [cast.offer.slug, wide.slug]


def test_another_lease_restarts_nothing(cast: Cast) -> None:
    house = House(submit(cast))
    started = house.start().started_at
    uid = house.controller["uid"]
    resize(cast, house.row, restart=True, max_run_seconds=7200)
    row = house.turn()
    assert (row.phase, row.started_at, house.controller["uid"]) == (Phase.RUNNING, started, uid)
    assert started
    assert row.stops_at == started + timedelta(hours=2)


def test_work_that_runs_to_its_end_is_not_restarted(cast: Cast) -> None:
    row = given(submit(cast, kind="job", job={}), phase=Phase.RUNNING)
    with pytest.raises(Conflict, match="is not restarted") as refused:
        resize(cast, row, restart=True, count=2)
    assert "New like" in refused.value.hint or "new one like it" in refused.value.hint


def test_what_can_never_fit_is_refused_and_changes_nothing(cast: Cast) -> None:
    row = given(submit(cast), phase=Phase.RUNNING)
    for changed in ({"count": 5}, {"memory": "9Ti"}):
        with pytest.raises(QuotaExceeded):
            resize(cast, row, restart=True, **changed)
    row.refresh_from_db()
    assert (row.phase, reading.spec_of(row).count) == (Phase.RUNNING, 1)


def test_the_price_that_was_shown_is_the_price(cast: Cast, wide: Offer) -> None:
    row = given(submit(cast), phase=Phase.STOPPED, suspended=True)
    change = WorkloadChange(spec=wanted(row, offer=wide.slug))
    with pytest.raises(PriceMoved):
        resizing.resize_workload(
            actor=as_actor(cast.rosa), workload=row, change=change, now=NOW, seen_hourly=Decimal(1)
        )


def test_only_its_owner_and_those_above_change_it(cast: Cast) -> None:
    row = submit(cast)
    for user in (cast.ann, cast.otto):
        with pytest.raises(NotAllowed):
            resizing.resize_workload(
                actor=as_actor(user), workload=row, change=WorkloadChange(spec=wanted(row)), now=NOW
            )


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_what_has_ended_has_no_size(cast: Cast, phase: Phase) -> None:
    row = given(submit(cast), phase=phase)
    with pytest.raises(Conflict):
        resize(cast, row, restart=True, count=2)


def test_what_was_chosen_for_its_next_start_is_given_up_for_what_is_asked_now(
    cast: Cast, wide: Offer
) -> None:
    row = given(submit(cast), phase=Phase.STOPPED, suspended=True, next_offer=wide)
    found = resize(cast, row, count=2)
    assert (found.next_offer, found.offer) == (None, cast.offer)


def test_a_preview_tells_prices_and_quota_and_keeps_nothing(cast: Cast, wide: Offer) -> None:
    fleet.show_fleet(cast.vision.cluster, now=NOW)
    row = given(submit(cast), phase=Phase.RUNNING)
    fleet.reserve(cast.vision, {cast.offer: 3}, now=NOW)

    def told(**changed: Any) -> resizing.Resize:
        spec = wanted(row, **changed)
        return resizing.preview_resize(actor=as_actor(cast.rosa), workload=row, spec=spec, now=NOW)

    found = told(offer=wide.slug)
    assert (found.hourly_before, found.preview.hourly) == (Decimal("0.42"), Decimal("1.26"))
    assert (found.restarts, found.is_same, found.offer) == (True, False, wide)
    found = told(count=2)
    assert found.preview.verdict.kind == "now", "one is free, and one it gives back"
    assert "1 H100 1g.10gb can start now" in found.preview.verdict.message
    assert told(memory="8Gi").restarts
    lease = told(max_run_seconds=7200)
    assert (lease.restarts, lease.is_same) == (False, False)
    assert told().is_same
    before = Workload.objects.values().get()
    assert (before["phase"], before["generation"], before["offer_id"]) == ("Running", 1, cast.offer.pk)


def test_what_it_holds_itself_is_no_reason_to_wait(cast: Cast) -> None:
    fleet.show_fleet(cast.vision.cluster, now=NOW)
    row = given(submit(cast, max_wait_seconds=0), phase=Phase.RUNNING)
    fleet.reserve(cast.vision, {cast.offer: 4}, now=NOW)
    resize(cast, row, max_run_seconds=7200)
    found = resize(cast, row, restart=True, memory="8Gi")
    assert found.phase == Phase.PENDING
    given(row, phase=Phase.RUNNING)
    with pytest.raises(DomainError, match="wait"):
        resize(cast, row, restart=True, count=2)


def test_what_would_not_wait_starts_on_what_is_free(cast: Cast) -> None:
    """The first time, once it was stopped, and in another size."""
    fleet.show_fleet(cast.vision.cluster, now=NOW)
    house = House(submit(cast, max_wait_seconds=0))
    given(house.row, asked_at=timezone.now())
    assert (house.turn().phase, "Pod" in house.kinds()) == (Phase.PENDING, True)
    actor = as_actor(cast.rosa)
    verbs.stop_workload(actor=actor, workload=house.row, reason="", now=NOW)
    house.turn()
    house.forget("Pod", "Secret")
    assert house.turn().phase == Phase.STOPPED
    verbs.resume_workload(actor=actor, workload=house.row, reason="", now=timezone.now())
    assert (house.turn().phase, "Pod" in house.kinds()) == (Phase.PENDING, True)
    given(house.row, phase=Phase.RUNNING)
    resize(cast, house.row, restart=True, memory="8Gi")
    given(house.row, asked_at=timezone.now())
    house.turn()
    house.forget("Pod")
    assert (house.turn().phase, "Pod" in house.kinds()) == (Phase.PENDING, True)


def test_rest_restarts_what_runs_where_it_is_told_to(rosa: Api, wide: Offer) -> None:
    path = f"/{made(rosa)['id']}"
    Workload.objects.update(phase=Phase.RUNNING)
    size = {"spec": {"offer": wide.slug, "count": 2}}
    refused = rosa.call("patch", path, size, If_Match="*")
    assert refused.status_code == 422
    assert {each["pointer"] for each in refused.json()["errors"]} >= {"#/spec/offer", "#/spec/count"}
    dry = rosa.call("patch", f"{path}?restart=true&dry_run=true", size, If_Match="*")
    assert dry.json()["result"]["status"]["phase"] == "Pending"
    assert rosa.call("get", path).json()["status"]["phase"] == "Running"
    answer = rosa.call("patch", f"{path}?restart=true", size, If_Match="*")
    assert answer.status_code == 200
    assert (answer.json()["spec"]["offer"], answer.json()["status"]["phase"]) == (wide.slug, "Pending")
