"""What a tenant used, lent and borrowed over time: rule, history, page, file and REST."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.metering.lending.rules.steps import Held, Promise, Step, steps
from apps.metering.lending.selectors.lending_history import history
from apps.metering.models import Allocation
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Grant, Quota
from apps.tenants.models import Tenant
from tests import factories
from tests.conftest import Cast, as_actor

pytestmark = pytest.mark.both_databases

T0 = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
EDGES = [T0 + HOUR * number for number in range(5)]

ASKED = {"HX-Request": "true"}


def at(hours: float) -> datetime:
    return T0 + HOUR * hours


def shown(found: list[Step]) -> list[tuple[float | None, float | None, float | None, float | None]]:
    return [(s.guaranteed, s.own, s.lent, s.borrowed) for s in found]


def test_what_is_above_the_guarantee_is_borrowed_and_lent_by_those_with_idle_devices() -> None:
    promised = [Promise("vision", at(-5), 1), Promise("speech", at(-5), 2)]
    held = [Held("vision", at(-1), at(2)), Held("vision", at(1), at(2.5)), Held("vision", at(1), at(2))]
    vision = shown(steps("vision", held, promised, edges=EDGES))
    assert vision == [(1, 1, 0, 0), (1, 1, 0, 2), (1, 0.5, 0, 0), (1, 0, 0, 0)]
    speech = shown(steps("speech", held, promised, edges=EDGES))
    assert speech == [(2, 0, 0, 0), (2, 0, 2, 0), (2, 0, 0, 0), (2, 0, 0, 0)]


def test_a_change_inside_a_step_counts_from_its_moment() -> None:
    promised = [Promise("vision", at(-5), 0), Promise("vision", at(0.75), 1)]
    found = shown(steps("vision", [Held("vision", at(0.5), at(1))], promised, edges=EDGES))
    assert found[0] == (0.25, 0.25, 0, 0.25)


def test_lent_and_borrowed_of_a_department_are_the_same_devices() -> None:
    promised = [Promise(name, at(-5), count) for name, count in (("a", 3), ("b", 1), ("c", 2))]
    held = [Held("b", at(0), at(4)) for _ in range(4)] + [Held("c", at(1), at(3))]
    assert_lent_is_borrowed("abc", held, promised)


def test_lenders_that_are_alike_lend_the_same_device_once() -> None:
    promised = [Promise(name, at(-5), count) for name, count in (("a", 2), ("b", 0), ("c", 2), ("d", 2))]
    assert_lent_is_borrowed("abcd", [Held("b", at(0), at(4))], promised)


def test_lent_is_borrowed_whatever_a_department_does() -> None:
    chance = random.Random(4)
    promised = [Promise(name, at(hour), chance.randint(4, 9)) for name in "abcde" for hour in (-5, 1.3, 2.6)]
    held = []
    for _ in range(90):
        begins = chance.uniform(-1, 4)
        held.append(Held(chance.choice("ab"), at(begins), at(begins + chance.random()), chance.randint(1, 2)))
    assert_lent_is_borrowed("abcde", held, promised)


def assert_lent_is_borrowed(names: str, held: list[Held], promised: list[Promise]) -> None:
    parts = {name: steps(name, held, promised, edges=EDGES) for name in names}
    for number in range(4):
        row = [parts[name][number] for name in names]
        lent, borrowed = sum(s.lent or 0 for s in row), sum(s.borrowed or 0 for s in row)
        assert lent == pytest.approx(borrowed)
        assert lent > 0


def hold(cast: Cast, tenant: Tenant, begins: datetime, ends: datetime | None, device: str) -> None:
    row = factories.make_workload(tenant, cast.rosa, cast.offer, slug=f"w-{device}")
    Allocation.objects.create(
        cluster=tenant.cluster, tenant=tenant, workload=row, offer=cast.offer, claim_uid=device, node="n",
        device=f"n/{device}", share_numerator=1, share_denominator=7, started_at=begins, ended_at=ends,
    )  # fmt: skip


@pytest.mark.django_db
def test_the_quota_of_the_time_counts_and_not_todays(cast: Cast) -> None:
    """Vision: 1 until 02:00, then 3 again cut to 0 after the time; a grant of 2 more in [03:00, 04:00)."""
    for when, count in ((-9, 1), (2, 3), (5, 0)):
        quota_changes.set_quota(
            actor=as_actor(cast.petra), tenant=cast.vision, offer=cast.offer, amounts=Amounts(count, 2),
            now=at(when),
        )  # fmt: skip
    Grant.objects.create(
        tenant=cast.vision, offer=cast.offer, count=2, starts_at=at(3), ends_at=at(4), created_by="petra"
    )
    hold(cast, cast.vision, at(-3), None, "d1")
    hold(cast, cast.vision, at(1), at(3), "d2")
    hold(cast, cast.genomics, at(0), None, "d3")  # of another department: nothing of ours
    (found,) = history(cast.vision, begins=T0, step=HOUR, count=4)
    assert shown(list(found.steps)) == [(1, 1, 0, 0), (1, 1, 0, 1), (3, 2, 0, 0), (5, 1, 0, 0)]
    (other,) = history(cast.speech, begins=T0, step=HOUR, count=4)
    assert [s.lent for s in other.steps] == [0, 1, 0, 0]


@pytest.mark.django_db
def test_page_file_and_rest_tell_the_same(cast: Cast, client: Client) -> None:
    now = timezone.now()
    for device in ("d1", "d2", "d3"):
        hold(cast, cast.vision, now - 8 * 24 * HOUR, None, device)
    client.force_login(cast.rosa)
    page = " ".join(client.get("/t/vision/quota/?part=lent", headers=ASKED).content.decode().split())
    assert "borrowed 168 and lent 0 device-hours in 7 d" in page
    assert 'class="p-borrowed" x="0.000%" width="100.000%"' in page, "steps that are alike are one"
    assert "style=" not in page
    told: Any = client.get("/api/v1/tenants/vision/lending?lent=24h").json()["items"]
    assert [item["offer"] for item in told] == [cast.offer.slug]
    assert told[0]["values"]["borrowed"] == [1.0] * 24
    lines = client.get("/t/vision/quota/lent-and-borrowed.csv?lent=30d").content.decode().splitlines()
    assert len(lines) == 31
    assert lines[-1].startswith(f"{cast.offer.slug},")
    assert lines[-1].endswith(",2,2,0,0,1,0")
    client.force_login(cast.otto)
    assert client.get("/t/vision/quota/lent-and-borrowed.csv").status_code == 404
    assert client.get("/api/v1/tenants/vision/lending").status_code == 404


def test_before_a_guarantee_is_known_what_ran_is_unknown_and_not_borrowed() -> None:
    promised = [Promise("vision", at(-5), None), Promise("vision", at(1.5), 1)]
    found = steps(
        "vision", [Held("vision", at(0), at(4)), Held("vision", at(0), at(4))], promised, edges=EDGES
    )
    assert [s.unknown for s in found] == [2, 2, 0, 0], "a step is told where all of it is known"
    assert shown(found) == [(None,) * 4, (None,) * 4, (1, 1, 0, 1), (1, 1, 0, 1)]
    assert [s.idle for s in found] == [None, None, 0, 0]
    never = steps("vision", [Held("vision", at(0), at(4))], [], edges=EDGES)
    assert [(s.unknown, s.borrowed) for s in never] == [(1, None)] * 4


def test_what_a_neighbour_ran_before_its_guarantee_was_known_is_not_told_as_lent() -> None:
    promised = [Promise("vision", at(-5), 3), Promise("speech", at(2), 0)]
    held = [Held("vision", at(0), at(4)), Held("speech", at(1), at(4))]
    found = steps("vision", held, promised, edges=EDGES)
    assert shown(found) == [(3, 1, 0, 0), (3, 1, None, 0), (3, 1, 1, 0), (3, 1, 1, 0)]
    assert [(s.unknown, s.idle) for s in found] == [(0, 2), (2, None), (0, 1), (0, 1)]
    full = [Held("vision", at(0), at(4)) for _ in range(3)] + held[1:]
    assert [s.lent for s in steps("vision", full, promised, edges=EDGES)] == [0] * 4, "nothing was to be lent"


@pytest.mark.django_db
def test_history_from_before_the_first_quota_is_unknown(cast: Cast) -> None:
    """Vision ran before its quota was known; taken away and given again, it is known to be none between."""
    Quota.objects.all().delete()
    hold(cast, cast.vision, at(-3), None, "d1")

    def told() -> list[tuple[float | None, float | None, float]]:
        (found,) = history(cast.vision, begins=T0, step=HOUR, count=4)
        return [(s.own, s.borrowed, s.unknown) for s in found.steps]

    assert told() == [(None, None, 1)] * 4
    made = quota_changes.set_quota(
        actor=as_actor(cast.petra), tenant=cast.vision, offer=cast.offer, amounts=Amounts(1, 0), now=at(1)
    )
    assert told() == [(None, None, 1), (1, 0, 0), (1, 0, 0), (1, 0, 0)]
    quota_changes.delete_quota(actor=as_actor(cast.petra), quota=made, now=at(2))
    assert told() == [(None, None, 1), (1, 0, 0), (0, 1, 0), (0, 1, 0)]
    later = history(cast.vision, begins=at(3), step=HOUR, count=1)[0].steps[0]
    assert (later.own, later.borrowed, later.unknown) == (0, 1, 0), "no word in the time, but one before it"
    quota_changes.set_quota(
        actor=as_actor(cast.petra), tenant=cast.vision, offer=cast.offer, amounts=Amounts(1, 0), now=at(3.5)
    )
    later = history(cast.vision, begins=at(3), step=HOUR, count=1)[0].steps[0]
    assert (later.own, later.borrowed, later.unknown) == (0.5, 0.5, 0)


@pytest.mark.django_db
def test_picture_table_file_and_rest_tell_the_unknown_as_unknown(cast: Cast, client: Client) -> None:
    now = timezone.now()
    Quota.objects.all().delete()
    hold(cast, cast.vision, now - 8 * 24 * HOUR, None, "d1")
    client.force_login(cast.rosa)
    page = " ".join(client.get("/t/vision/quota/?part=lent", headers=ASKED).content.decode().split())
    assert "borrowed 0 and lent 0 device-hours in 7 d; 168 more are unknown" in page
    assert 'class="p-unknown" x="0.000%" width="100.000%"' in page
    assert 'class="p-borrowed" x="0' not in page
    assert "unknown: from before its quota was known here" in page
    assert '<td class="figure" data-label="Borrowed">unknown</td>' in page
    assert '<td class="figure" data-label="Unknown">1.0</td>' in page
    (told,) = client.get("/api/v1/tenants/vision/lending?lent=24h").json()["items"]
    for name in ("guaranteed", "used_of_guarantee", "lent", "idle", "borrowed"):
        assert told["values"][name] == [None] * 24
    assert told["values"]["unknown"] == [1.0] * 24
    lines = client.get("/t/vision/quota/lent-and-borrowed.csv?lent=24h").content.decode().splitlines()
    assert lines[0].endswith(",guaranteed,used_of_guarantee,lent,idle,borrowed,unknown")
    assert all(line.endswith("Z,,,,,,1") for line in lines[1:])
