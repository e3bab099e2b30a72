"""A correction is a new fact: the newest holds for every reader, the observed one stays beside it."""

from datetime import datetime, timedelta

import pytest

from apps.accounts.specs import Actor
from apps.audit.models import AuditEvent
from apps.errors import Invalid, NotAllowed
from apps.metering.allocations.rules.intervals import Interval
from apps.metering.allocations.selectors import allocations
from apps.metering.billing.selectors import costs
from apps.metering.billing.services import corrections
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation, Bucket, Correction
from apps.metering.specs import Origin
from apps.tenants.models import DepartmentManager, Tenant
from apps.workloads.models import Workload
from tests.conftest import Cast, as_actor
from tests.factories import make_user
from tests.metering.books import AT, HOUR, MINUTE, Books
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NOW = AT + 6 * HOUR


@pytest.fixture
def books(cast: Cast) -> Books:
    return Books(cast)


@pytest.fixture
def held(books: Books) -> Allocation:
    """A whole GPU from 09:00 to 12:00, rolled up."""
    found = books.hold(books.whole(), AT, AT + 3 * HOUR)
    books.roll(NOW)
    return found


def correct(
    held: Allocation, actor: Actor, began: datetime, ended: datetime | None, **more: str
) -> Correction:
    return corrections.correct_allocation(
        actor=actor, allocation=held, started_at=began, ended_at=ended,
        reason=more.get("reason", "The pod had failed; the node said so late."), now=NOW,
    )  # fmt: skip


def held_us(held: Allocation) -> int:
    return sum(Bucket.objects.filter(level=3600, allocation=held).values_list("share_us", flat=True))


def test_the_ledger_the_costs_and_rest_follow_the_newest_correction(
    books: Books, held: Allocation, cast: Cast
) -> None:
    petra = as_actor(cast.petra)
    correct(held, petra, AT, AT + HOUR)
    correct(held, petra, AT + 30 * MINUTE, AT + 2 * HOUR)
    books.roll(NOW)
    assert held_us(held) == 90 * 60 * 1_000_000
    held.refresh_from_db()
    assert (held.started_at, held.ended_at) == (AT, AT + 3 * HOUR)
    assert allocations.interval_of(held, NOW) == Interval(AT + 30 * MINUTE, AT + 2 * HOUR)
    lines = costs.costs(Allocation.objects.all(), costs.Group.TENANT, begins=AT, ends=NOW, now=NOW)
    assert [str(line.gpu_hours) for line in lines] == ["1.50000000"]
    period = f"?from={AT:%Y-%m-%dT%H:%M:%SZ}&to={NOW:%Y-%m-%dT%H:%M:%SZ}"
    (told,) = Api(cast.rosa).client.get(f"/api/v1/allocations{period}").json()["items"]
    assert (told["from"], told["to"]) == ("2026-11-20T09:30:00Z", "2026-11-20T11:00:00Z")
    assert verifying.verify(books.cluster).flaws == []


def test_readers_of_a_period_find_what_a_correction_moved_into_it_and_not_what_it_moved_out(
    books: Books, held: Allocation, cast: Cast
) -> None:
    correct(held, as_actor(cast.petra), AT + 4 * HOUR, AT + 5 * HOUR)
    rows = Allocation.objects.all()
    assert list(allocations.between(rows, AT, AT + 3 * HOUR)) == []
    assert list(allocations.between(rows, AT + 4 * HOUR, AT + 5 * HOUR)) == [held]
    books.roll(NOW)
    hours = Bucket.objects.filter(level=3600, allocation=held).values_list("starts_at", flat=True)
    assert list(hours) == [AT + 4 * HOUR]


def test_without_an_end_the_observed_end_holds(books: Books, held: Allocation, cast: Cast) -> None:
    correct(held, as_actor(cast.petra), AT + HOUR, None)
    books.roll(NOW)
    assert held_us(held) == 2 * 3600 * 1_000_000


def test_a_correction_is_kept_with_who_why_and_what_and_changes_nothing_else(
    books: Books, held: Allocation, cast: Cast
) -> None:
    correct(held, as_actor(cast.petra), AT, AT + HOUR, reason="Late.")
    (event,) = AuditEvent.objects.filter(action="allocation.corrected")
    assert (event.target_id, event.reason) == (str(held.pk), "Late.")
    assert event.changes["to"] == ["2026-11-20T12:00:00+00:00", "2026-11-20T10:00:00+00:00"]
    made = Correction.objects.get()
    assert (made.made_by, made.made_at) == ("platform", NOW)


def test_only_platform_engineers_correct(held: Allocation, cast: Cast) -> None:
    mina = make_user("manager")
    DepartmentManager.objects.create(department=cast.vision.department, user=mina)
    for user in (cast.rosa, cast.leon, cast.ann, cast.otto, mina):
        with pytest.raises(NotAllowed):
            correct(held, as_actor(user), AT, AT + HOUR)
    assert not Correction.objects.exists()


@pytest.mark.parametrize(
    ("began", "ended", "reason"),
    [
        (AT, AT + HOUR, " "),
        (AT + HOUR, AT, "r"),
        (NOW + HOUR, None, "r"),
        (AT, NOW + HOUR, "r"),
        (AT - timedelta(days=40), None, "r"),
    ],
)
def test_what_cannot_be_is_refused(
    held: Allocation, cast: Cast, began: datetime, ended: datetime | None, reason: str
) -> None:
    with pytest.raises(Invalid):
        correct(held, as_actor(cast.petra), began, ended, reason=reason)
    assert not Correction.objects.exists()


def test_what_has_been_pruned_is_closed(books: Books, held: Allocation, cast: Cast) -> None:
    rollup.roll(books.cluster, now=AT + timedelta(days=20))
    rollup.prune(books.cluster, now=AT + timedelta(days=20))
    with pytest.raises(Invalid, match="closed before 2026-11-26"):
        correct(held, as_actor(cast.petra), AT, AT + HOUR)


def test_time_that_somebody_else_held_is_refused_with_who_holds_it(books: Books, cast: Cast) -> None:
    gpu = books.whole()
    mine = books.hold(gpu, AT + HOUR, AT + 2 * HOUR)
    other = books.hold(gpu, AT + 2 * HOUR, AT + 3 * HOUR, row=books.workload("speech"))
    books.roll(NOW)
    with pytest.raises(Invalid) as refused:
        correct(mine, as_actor(cast.petra), AT + HOUR, AT + 150 * MINUTE)
    (problem,) = refused.value.problems
    assert problem.pointer == "/to"
    assert problem.detail == (
        f"{other.work.slug} of speech held n1/GPU-1 from 2026-11-20 11:00:00 to 11:30:00 UTC."
    )
    with pytest.raises(Invalid, match="held n1/GPU-1 from 2026-11-20 11:00:00 to 12:00:00"):
        correct(mine, as_actor(cast.petra), AT + HOUR, AT + 5 * HOUR)
    # As the newest correction says, not as it was observed.
    correct(other, as_actor(cast.petra), AT + 150 * MINUTE, None)
    correct(mine, as_actor(cast.petra), AT + HOUR, AT + 150 * MINUTE)
    books.roll(NOW)
    assert verifying.verify(books.cluster).flaws == []


def test_what_was_made_with_kubectl_is_a_holder_too(books: Books, cast: Cast) -> None:
    gpu = books.whole()
    mine = books.hold(gpu, AT, AT + HOUR)
    claim = {"devices": [f"n1/{gpu}"], "tenant": str(cast.speech.pk), "reserved": False}
    books.fact(gpu, ChangeKind.CLAIMS, AT + HOUR, claims={"c-1": claim})
    made_with_kubectl(mine, "c-1", AT + HOUR, cast.speech, "job/train")
    with pytest.raises(Invalid, match="job/train of speech held n1/GPU-1 from 2026-11-20 10:00:00 to"):
        correct(mine, as_actor(cast.petra), AT, AT + 2 * HOUR)
    nobodys = {"devices": [f"n1/{gpu}"], "tenant": "", "reserved": False}
    books.fact(gpu, ChangeKind.CLAIMS, AT + HOUR, claims={"c-2": nobodys})
    Allocation.objects.filter(claim_uid="c-1").delete()
    with pytest.raises(Invalid, match="A claim of no tenant held n1/GPU-1 from"):
        correct(mine, as_actor(cast.petra), AT, AT + 2 * HOUR)


def test_other_parts_of_a_gpu_are_no_hindrance_and_a_pool_is_full_when_all_of_it_is_held(
    books: Books, cast: Cast
) -> None:
    cut, pool = books.cut(m0=3, m1=3), books.pool(gpus=1, replicas=2)
    slice_, beside = (books.hold(cut, AT, AT + HOUR, name=f"n1/m{n}") for n in (0, 1))
    correct(beside, as_actor(cast.petra), AT, AT + 3 * HOUR)
    correct(slice_, as_actor(cast.petra), AT, AT + 2 * HOUR)
    first, second, third = (
        books.hold(pool, AT + n * HOUR, AT + (n + 1) * HOUR, name=f"{pool}#0") for n in (0, 0, 1)
    )
    correct(first, as_actor(cast.petra), AT, AT + 2 * HOUR)
    with pytest.raises(Invalid) as refused:
        correct(second, as_actor(cast.petra), AT, AT + 90 * MINUTE)
    assert all(row.work.slug in refused.value.problems[0].detail for row in (first, third))


def test_time_before_the_gpu_or_the_workload_was_there_is_refused(books: Books, cast: Cast) -> None:
    held = books.hold(books.whole(), AT + HOUR, AT + 2 * HOUR)
    with pytest.raises(Invalid, match="n1/GPU-1 was not there from 2026-11-20 07:00:00 to 09:00:00 UTC"):
        correct(held, as_actor(cast.petra), AT - 2 * HOUR, None)
    asked = AT + 50 * MINUTE
    Workload.objects.filter(pk=held.work.pk).update(created_at=asked)
    with pytest.raises(Invalid, match="was asked for on 2026-11-20 09:50:00 UTC, and held nothing before"):
        correct(held, as_actor(cast.petra), asked - MINUTE, None)
    correct(held, as_actor(cast.petra), asked, None)


def test_what_contradicts_already_may_still_be_shortened(books: Books, cast: Cast) -> None:
    gpu = books.whole()
    books.hold(gpu, AT, AT + 2 * HOUR)
    twice = books.hold(gpu, AT + HOUR, AT + 3 * HOUR)
    correct(twice, as_actor(cast.petra), AT + 2 * HOUR, None)
    books.roll(NOW)
    assert verifying.verify(books.cluster).flaws == []


def made_with_kubectl(like: Allocation, claim: str, begins: datetime, tenant: Tenant, root: str) -> None:
    Allocation.objects.create(
        origin=Origin.KUBECTL, cluster=like.cluster, tenant=tenant, claim_uid=claim, root=root,
        node=like.node, device=like.device, gpu=like.gpu, share_numerator=1, share_denominator=1,
        started_at=begins,
    )  # fmt: skip
