"""Places in the queues, and what platform engineers do to them: effect first, permission, audit, one wait."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.audit.models import AuditEvent
from apps.cluster.models import MirrorObject
from apps.errors import Conflict, NotAllowed
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.queue.rules.effects import Arrangement
from apps.workloads.queue.services import arranging
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause
from apps.workloads.waiting.selectors import places, waiting
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_offer, make_quota, make_workload
from tests.tenants.rest import Rest
from tests.workloads import bodies
from tests.workloads.queueing import tell, waits

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def line(cast: Cast) -> list[Workload]:
    """Three of vision, the oldest first."""
    return [
        waits(cast.vision, cast.rosa, cast.offer, slug, age=timedelta(minutes=age))
        for slug, age in (("first", 30), ("second", 20), ("third", 10))
    ]


def place(row: Workload) -> tuple[int, int] | None:
    found = places.place(places.entry_of(row))
    return (found.position, found.of) if found else None


def arrange(cast: Cast, row: Workload, arrangement: Arrangement, who: Any = None) -> Workload:
    return arranging.arrange_workload(
        actor=as_actor(who or cast.petra), workload=row, arrangement=arrangement, reason="a demo", now=NOW
    )


def test_priority_goes_before_age_and_other_tenants_queue_elsewhere(cast: Cast, line: list[Workload]) -> None:
    waits(cast.speech, cast.leon, cast.offer, "elsewhere")
    waits(cast.vision, cast.rosa, cast.offer, "urgent", priority=2000)
    assert [place(row) for row in line] == [(2, 4), (3, 4), (4, 4)]
    assert {slug: places.place(entry) for slug, entry in _by_slug(line).items()} == {
        "first": (2, 4), "second": (3, 4), "third": (4, 4),
    }  # fmt: skip


def test_only_who_asks_for_the_same_offer_stands_ahead(cast: Cast, line: list[Workload]) -> None:
    other = make_offer(cast.offer.flavor, "h100-7g", profile="7g.80gb")
    make_quota(cast.vision, other)
    large = waits(cast.vision, cast.rosa, other, "large", age=timedelta(hours=9))
    assert [place(row) for row in line] == [(1, 3), (2, 3), (3, 3)], "the older one takes other devices"
    assert place(large) == (1, 1)
    effect = arranging.effect_of(actor=as_actor(cast.petra), workload=line[2], arrangement=Arrangement.FRONT)
    assert (effect.before, effect.after, effect.of) == (3, 1, 3)


def _by_slug(line: list[Workload]) -> dict[str, MirrorObject]:
    entries = places.places_of(line)
    return {row.slug: entries[str(row.pk)] for row in line}


def test_what_is_admitted_gone_or_held_does_not_stand_in_the_queue(cast: Cast, line: list[Workload]) -> None:
    tell(line[0], bodies.admitted(), version=90)
    assert [place(row) for row in line] == [None, (1, 2), (2, 2)]
    tell(line[1], bodies.queued(active=False), version=91)
    assert [place(row) for row in line] == [None, None, (1, 1)]
    MirrorObject.objects.filter(owner_id=str(line[2].pk)).update(gone_at=NOW)
    assert place(line[2]) is None


def test_who_was_sent_back_for_unready_pods_queues_from_then_on(line: list[Workload]) -> None:
    late = bodies.condition("Evicted", reason="PodsReadyTimeout", at="2026-11-20T08:59:59Z")
    tell(line[0], bodies.queued(late), created=line[0].asked_at, version=90)
    assert [place(row) for row in line] == [(3, 3), (1, 3), (2, 3)]


def test_a_look_up_asks_as_often_however_many_wait(cast: Cast) -> None:
    counted = []
    for length in (1, 2, 40):  # the first look parses the fleet
        rows = [waits(cast.vision, cast.rosa, cast.offer, f"r{length}-{n}") for n in range(length)]
        related = Workload.objects.select_related("cluster", "tenant__department", "offer__flavor")
        row = related.get(pk=rows[-1].pk)
        with CaptureQueriesContext(connection) as asked:
            told = waiting.queue_of(as_actor(cast.rosa), row, NOW)
        counted.append(len(asked))
        assert told is not None
        assert told["position"] is not None
    assert counted[1] == counted[2]


def test_a_place_is_read_from_an_index_and_never_from_the_queue(cast: Cast, line: list[Workload]) -> None:
    with CaptureQueriesContext(connection) as asked:
        places.entry_of(line[1])
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL plans by statistics: this needs thousands of rows there, and an ANALYZE")
    with connection.cursor() as cursor:
        cursor.execute(f"{connection.ops.explain_query_prefix()} {asked[0]['sql']}")
        plan = [str(row[-1]) for row in cursor.fetchall()]
    counts = [step for step in plan if "mirror_by_place" in step]
    assert len(counts) == 2, plan
    assert all("COVERING INDEX" in step for step in counts), plan


def test_the_effect_is_told_first_and_changes_nothing(cast: Cast, line: list[Workload]) -> None:
    found = arranging.effect_of(actor=as_actor(cast.petra), workload=line[2], arrangement=Arrangement.FRONT)
    assert (found.before, found.after, found.of, found.priority) == (3, 1, 3, 1001)
    assert found.sentences[:2] == ("third goes from 3rd to 1st of 3.", "first, second one place later.")
    line[2].refresh_from_db()
    assert (line[2].queue_priority, line[2].generation) == (None, 1)


def test_the_effect_is_told_of_the_whole_queue_however_long(cast: Cast, line: list[Workload]) -> None:
    seen = MirrorObject.objects.get(owner_id=str(line[0].pk))
    MirrorObject.objects.bulk_create(
        MirrorObject(
            cluster=seen.cluster, kind="Workload", namespace=seen.namespace,
            name=f"other-{n}", uid=f"u{n}", resource_version=100 + n, queue_state=seen.queue_state,
            queue_rank=f"{seen.queue_rank.partition(' ')[0]} 2026-11-20T07:00:00Z u{n:04d}", body=seen.body,
            queue_asks=seen.queue_asks,
        )
        for n in range(600)
    )  # fmt: skip
    with CaptureQueriesContext(connection) as asked:
        found = arranging.effect_of(
            actor=as_actor(cast.petra), workload=line[2], arrangement=Arrangement.FRONT
        )
    assert (found.before, found.after, found.of) == (603, 1, 603)
    assert found.sentences[:2] == (
        "third goes from 603rd to 1st of 603.", "other-0, other-1, other-2 and 599 more one place later.",
    )  # fmt: skip
    assert len(asked) <= 10


def test_a_move_is_stored_audited_and_told(cast: Cast, line: list[Workload]) -> None:
    moved = arrange(cast, line[2], Arrangement.FRONT)
    assert (moved.queue_priority, moved.generation) == (1001, 2)
    event = AuditEvent.objects.get(action="workload.move")
    assert (event.actor, event.reason, event.changes) == ("platform", "a demo", {"priority": [None, 1001]})
    assert WorkloadEvent.objects.filter(workload=moved, reason="Moved").count() == 1
    back = arrange(cast, moved, Arrangement.USUAL)
    assert back.queue_priority is None


def test_a_hold_is_explained_and_a_release_ends_it(cast: Cast, line: list[Workload]) -> None:
    held = arrange(cast, line[0], Arrangement.HOLD)
    found = waiting.explanation_for(as_actor(cast.rosa), held, NOW)
    assert found is not None
    assert found.cause is Cause.HELD
    assert found.sentences[0].startswith(
        "Held by a platform engineer since 09:00: a demo. It keeps its place"
    )
    assert arrange(cast, held, Arrangement.HOLD).generation == held.generation
    tell(held, bodies.queued(active=False), created=held.asked_at, version=95)
    back = arranging.effect_of(actor=as_actor(cast.petra), workload=held, arrangement=Arrangement.RELEASE)
    assert (back.before, back.after, back.of) == (None, 1, 3)
    assert arrange(cast, held, Arrangement.RELEASE).held_at is None


def test_only_platform_engineers_may(cast: Cast, line: list[Workload]) -> None:
    for who in (cast.rosa, cast.leon):
        with pytest.raises(NotAllowed, match="platform engineers"):
            arrange(cast, line[0], Arrangement.FRONT, who)


def test_only_what_waits_can_be_moved_and_only_once_kueue_has_seen_it(
    cast: Cast, line: list[Workload]
) -> None:
    Workload.objects.filter(pk=line[0].pk).update(phase=Phase.RUNNING)
    with pytest.raises(Conflict, match="only waiting work"):
        arrange(cast, line[0], Arrangement.HOLD)
    MirrorObject.objects.filter(owner_id=str(line[1].pk)).delete()
    with pytest.raises(Conflict, match="has not seen it yet"):
        arrange(cast, line[1], Arrangement.HOLD)


def test_a_stop_ends_a_hold_and_a_move(cast: Cast, line: list[Workload]) -> None:
    arrange(cast, line[0], Arrangement.FRONT)
    held = arrange(cast, line[0], Arrangement.HOLD)
    stopped = verbs.stop_workload(actor=as_actor(cast.rosa), workload=held, reason="", now=timezone.now())
    assert (stopped.held_at, stopped.hold_reason, stopped.queue_priority) == (None, "", None)


def test_rest_moves_holds_and_releases(cast: Cast, line: list[Workload]) -> None:
    petra, path = Rest(cast.petra), f"/workloads/{line[2].pk}"
    rehearsed = petra.send("POST", f"{path}/move?dry_run=true", {"to": "front"}).json()
    assert (rehearsed["effect"]["position_before"], rehearsed["effect"]["position_after"]) == (3, 1)
    assert petra.get(path).json()["generation"] == 1
    assert petra.send("POST", f"{path}/move", {"to": "front", "reason": "demo"}).status_code == 202
    assert petra.send("POST", f"{path}/hold", {"reason": "fair"}, match='"2"').status_code == 202
    told = petra.get(path).json()["status"]["queue"]
    assert (told["cause"], told["eta"]) == ("Held", None)
    assert petra.send("POST", f"{path}/release", {}).status_code == 202
    assert petra.send("POST", f"{path}/move", {"to": "top"}).status_code == 422
    assert Rest(cast.rosa).send("POST", f"{path}/hold", {}).status_code == 403
    assert Rest(cast.otto).send("POST", f"{path}/hold", {}).status_code == 404


def test_the_board_shows_all_that_waits_and_asks_before_it_acts(cast: Cast, line: list[Workload]) -> None:
    client = Client()
    client.force_login(cast.petra)
    page = client.get("/console/queue/").content.decode()
    assert "3 wait" in page
    found = [page.index(f"/workloads/{row.pk}/") for row in line]
    assert found == sorted(found)
    address = f"/console/queue/{line[2].pk}/front/"
    assert "third goes from 3rd to 1st of 3." in client.get(address).content.decode()
    assert client.post(address, {"reason": "demo"}).status_code == 303
    line[2].refresh_from_db()
    assert line[2].queue_priority == 1001
    assert client.get(f"/console/queue/{line[2].pk}/top/").status_code == 404


def test_the_board_goes_on_page_by_page(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.pages.console.fleet.queue_board.PAGE", 2)
    rows = [
        waits(cast.vision, cast.rosa, cast.offer, f"r{number}", age=timedelta(minutes=9 - number))
        for number in range(3)
    ]
    client = Client()
    client.force_login(cast.ann)
    first = client.get("/console/queue/").content.decode()
    assert [f"/workloads/{row.pk}/" in first for row in rows] == [True, True, False]
    address = first.split('href="?after=')[1].split('"')[0]
    second = client.get(f"/console/queue/?after={address}").content.decode()
    assert [f"/workloads/{row.pk}/" in second for row in rows] == [False, False, True]
    assert "Move to the front" not in second


def test_the_board_shows_what_the_queue_has_not_answered_for_yet(cast: Cast) -> None:
    new = make_workload(cast.vision, cast.rosa, cast.offer, slug="just-asked")
    client = Client()
    client.force_login(cast.petra)
    assert f"/workloads/{new.pk}/" in client.get("/console/queue/").content.decode()


def board(cast: Cast) -> str:
    client = Client()
    client.force_login(cast.petra)
    return " ".join(client.get("/console/queue/").content.decode().split())


def test_work_made_with_kubectl_has_its_reason_and_stays_when_it_is_held(cast: Cast) -> None:
    waits(cast.vision, cast.rosa, cast.offer, "ours", age=timedelta(minutes=9))
    seen = MirrorObject.objects.get(kind="Workload")
    rank = f"{seen.queue_rank}z"
    MirrorObject.objects.create(
        cluster=seen.cluster, kind="Workload", namespace=seen.namespace,
        name="job-bare", uid="bare", resource_version=99, queue_state="waits", queue_rank=rank,
        queue_asks=seen.queue_asks, body=seen.body, created_at=NOW,
    )  # fmt: skip
    page = board(cast)
    assert "job-bare" in page
    assert page.count("quota allows it, but none is free in North. It starts when enough come free.") == 2
    MirrorObject.objects.filter(name="job-bare").update(queue_state="held")
    page = board(cast)
    assert "job-bare" in page
    assert "Held outside the portal: spec.active of its Kueue Workload is false." in page


def test_what_the_board_leaves_out_is_counted(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.pages.console.fleet.queue_board.PAGE", 2)
    for number in range(5):
        row = make_workload(cast.vision, cast.rosa, cast.offer, slug=f"held-{number}")
        Workload.objects.filter(pk=row.pk).update(held_at=NOW)
    assert "3 more are held, not in the queue yet" in board(cast)


def test_nobody_else_sees_the_board(cast: Cast, line: list[Workload]) -> None:
    client = Client()
    client.force_login(cast.leon)
    assert client.get("/console/queue/").status_code == 404
    assert client.get(f"/console/queue/{line[0].pk}/hold/").status_code == 404
