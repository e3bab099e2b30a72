"""The verbs: who may, what is refused, what is written."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings

from apps.accounts.models import User
from apps.accounts.specs import system_actor
from apps.audit.models import AuditEvent
from apps.errors import (
    AlreadyExists,
    Conflict,
    DoesNotFitNow,
    DomainError,
    Invalid,
    NotAllowed,
    NotFound,
    OfferNotAllowed,
    QuotaExceeded,
)
from apps.quotas.allowances.rules.fit import VerdictKind
from apps.quotas.models import Price, Quota
from apps.tenants.models import Membership
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadChange, WorkloadRequest
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_flavor, make_offer, make_quota, make_workload
from tests.workloads.asking import asked, change, submit

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def running(cast: Cast, **spec: Any) -> Workload:
    row = submit(cast, **spec)
    Workload.objects.filter(pk=row.pk).update(
        phase=Phase.RUNNING, started_at=NOW, stops_at=NOW + timedelta(hours=8)
    )
    row.refresh_from_db()
    return row


def test_a_request_is_stored_with_its_defaults_and_its_audit_line(cast: Cast) -> None:
    row = submit(cast)
    spec = reading.spec_of(row)
    assert (row.phase, row.generation, row.owner, row.tenant) == (Phase.PENDING, 1, cast.rosa, cast.vision)
    assert spec.max_run_seconds == settings.CONFIG.notebook_run_seconds
    assert row.object_name.startswith("nb-ada-")
    event = AuditEvent.objects.get(target_id=str(row.pk))
    assert (event.action, event.actor, event.chain) == ("workload.create", "researcher", "tenant:vision")


def test_open_cpu_and_memory_are_what_comes_with_the_devices(cast: Cast) -> None:
    spec = parsing.parse({"kind": "notebook", "offer": cast.offer.slug, "count": 2})
    request = WorkloadRequest(spec=spec, slug="two")
    row = verbs.submit_workload(actor=as_actor(cast.rosa), tenant=cast.vision, request=request, now=NOW)
    stored = reading.spec_of(row)
    assert (stored.cpu_millis, stored.memory_bytes) == (
        2 * cast.offer.cpu_millis,
        2 * cast.offer.memory_bytes,
    )


def test_what_can_never_fit_is_refused_with_the_figures(cast: Cast) -> None:
    with pytest.raises(QuotaExceeded) as refused:
        submit(cast, count=9)
    assert refused.value.extra["quota"] == {
        "offer": cast.offer.slug, "requested": 9, "nominal_quota": 2, "borrowing_limit": 2,
    }  # fmt: skip
    assert Workload.objects.count() == 0


def test_more_cpu_than_ever_comes_with_the_quota_is_refused(cast: Cast) -> None:
    with pytest.raises(QuotaExceeded, match="CPU"):
        submit(cast, cpu="17")
    assert submit(cast, cpu="16").pk


def test_what_does_not_fit_now_waits_unless_waiting_is_excluded(cast: Cast) -> None:
    assert submit(cast).phase == Phase.PENDING
    with pytest.raises(DoesNotFitNow):
        submit(cast, slug="at-once", max_wait_seconds=0)


def test_an_offer_without_quota_names_alternatives(cast: Cast) -> None:
    make_offer(make_flavor(cast.vision.cluster, "a100", "NVIDIA A100"), "a100-whole", profile="")
    with pytest.raises(OfferNotAllowed) as refused:
        submit(cast, offer="a100-whole")
    assert [entry["offer"] for entry in refused.value.extra["alternatives"]] == [cast.offer.slug]


def test_an_unknown_offer_is_a_wrong_field(cast: Cast) -> None:
    with pytest.raises(Invalid) as refused:
        submit(cast, offer="nothing")
    assert [(p.pointer, p.code) for p in refused.value.problems] == [("/spec/offer", "reference_not_found")]


def test_a_lease_longer_than_the_longest_is_refused(cast: Cast) -> None:
    with pytest.raises(Invalid, match="at most"):
        submit(cast, max_run_seconds=settings.CONFIG.longest_run_seconds + 1)


def test_a_slug_is_taken_while_its_workload_lives(cast: Cast) -> None:
    row = submit(cast)
    with pytest.raises(AlreadyExists):
        submit(cast)
    Workload.objects.filter(pk=row.pk).update(deleted_at=NOW)
    assert submit(cast).pk != row.pk


@pytest.mark.parametrize(
    "slug", ["kube-system", "default", "UPPER", "-a", "a-", "a.b", "a" * 41, "allotment-x"]
)
def test_hostile_slugs_are_wrong_fields(cast: Cast, slug: str) -> None:
    with pytest.raises(Invalid) as refused:
        submit(cast, slug=slug)
    assert {problem.pointer for problem in refused.value.problems} == {"/slug"}


def test_a_missing_slug_is_made_of_the_name_and_made_free(cast: Cast) -> None:
    request = replace(asked(), slug="", name="Ada's Lab")
    actor = as_actor(cast.rosa)
    slugs = [
        verbs.submit_workload(actor=actor, tenant=cast.vision, request=request, now=NOW).slug
        for _ in range(2)
    ]
    assert slugs[0] != slugs[1]
    assert all(slug.startswith("ada-s-lab") for slug in slugs)


@pytest.mark.parametrize(
    "key",
    [
        "kueue.x-k8s.io/queue-name",
        "allotment.dev/uid",
        "a.kubernetes.io/x",
        "pod-security.kubernetes.io/x",
        "a b",
        "",
    ],
)
def test_labels_of_the_cluster_are_refused(cast: Cast, key: str) -> None:
    with pytest.raises(Invalid) as refused:
        submit(cast, labels={key: "x"})
    assert all(problem.pointer.startswith("/labels/") for problem in refused.value.problems)


def test_simulation_labels_reach_a_pod_on_a_simulated_cluster_alone(cast: Cast) -> None:
    labels = {"pod-complete.stage.kwok.x-k8s.io/delay": "12s", "team": "a"}
    with pytest.raises(Invalid):
        submit(cast, labels=labels)
    cast.vision.cluster.is_simulated = True
    cast.vision.cluster.save()
    row = submit(cast, labels=labels)
    assert reading.place_of(row).annotations == {"pod-complete.stage.kwok.x-k8s.io/delay": "12s"}


def test_strangers_may_not_submit_and_auditors_only_look(cast: Cast) -> None:
    for user in (cast.otto, cast.ann):
        with pytest.raises(NotAllowed):
            submit(cast, user)


VERBS: dict[str, Callable[[User, Workload], object]] = {
    "stop": lambda user, row: verbs.stop_workload(actor=as_actor(user), workload=row, reason="", now=NOW),
    "resume": lambda user, row: verbs.resume_workload(actor=as_actor(user), workload=row, reason="", now=NOW),
    "extend": lambda user, row: verbs.extend_workload(
        actor=as_actor(user), workload=row, seconds=60, reason="", now=NOW
    ),
    "delete": lambda user, row: verbs.delete_workload(
        actor=as_actor(user), workload=row, keep_volumes=False, now=NOW
    ),
    "update": lambda user, row: verbs.update_workload(
        actor=as_actor(user), workload=row, change=WorkloadChange(name="x"), now=NOW
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_owner_lead_and_platform_may_operate_and_nobody_else(cast: Cast, verb: str) -> None:
    row = running(cast)
    other = User.objects.create_user("member")
    Membership.objects.create(tenant=cast.vision, user=other)
    for user in (cast.otto, cast.ann, other):
        with pytest.raises(NotAllowed):
            VERBS[verb](user, row)
    for user in (cast.rosa, cast.leon, cast.petra):
        VERBS[verb](user, row)


def test_an_owner_who_left_the_tenant_may_not_operate(cast: Cast) -> None:
    row = running(cast)
    Membership.objects.filter(user=cast.rosa).delete()
    with pytest.raises(NotAllowed):
        VERBS["stop"](cast.rosa, row)


def test_stop_records_intent_once(cast: Cast) -> None:
    row = running(cast)
    first, again = VERBS["stop"](cast.rosa, row), VERBS["stop"](cast.rosa, row)
    assert isinstance(first, Workload)
    assert isinstance(again, Workload)
    assert (first.suspended, first.phase, first.generation, again.generation) == (True, Phase.STOPPING, 2, 2)
    assert AuditEvent.objects.filter(action="workload.stop").count() == 1


def test_resume_queues_again_with_a_fresh_lease(cast: Cast) -> None:
    row = running(cast)
    VERBS["extend"](cast.rosa, row)
    VERBS["stop"](cast.rosa, row)
    VERBS["resume"](cast.rosa, row)
    row.refresh_from_db()
    assert (row.suspended, row.phase, row.started_at, row.stops_at, row.extended_seconds) == (
        False, Phase.PENDING, None, None, 0,
    )  # fmt: skip


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_what_is_final_neither_stops_nor_resumes(cast: Cast, phase: Phase) -> None:
    row = submit(cast)
    Workload.objects.filter(pk=row.pk).update(phase=phase)
    for verb in ("stop", "resume"):
        with pytest.raises(Conflict):
            VERBS[verb](cast.rosa, row)
    VERBS["delete"](cast.rosa, row)


def test_a_lease_is_extended_at_most_to_the_longest_run(cast: Cast) -> None:
    row = running(cast)
    later = verbs.extend_workload(actor=as_actor(cast.rosa), workload=row, seconds=3600, reason="", now=NOW)
    assert later.stops_at == NOW + timedelta(hours=9)
    with pytest.raises(Conflict) as refused:
        verbs.extend_workload(
            actor=as_actor(cast.rosa),
            workload=row,
            seconds=settings.CONFIG.longest_run_seconds,
            reason="",
            now=NOW,
        )
    assert refused.value.code == "extension_limit"
    assert refused.value.extra["extendable_until"] == "2026-11-23T09:00:00Z"


def test_what_waits_has_no_lease_to_extend(cast: Cast) -> None:
    with pytest.raises(Conflict):
        VERBS["extend"](cast.rosa, submit(cast))


def test_a_lease_that_ran_out_is_stopped_by_the_system(cast: Cast) -> None:
    row = running(cast)
    assert verbs.stop_expired(now=NOW + timedelta(hours=7)) == 0
    assert verbs.stop_expired(now=NOW + timedelta(hours=8)) == 1
    row.refresh_from_db()
    assert (row.suspended, row.phase) == (True, Phase.STOPPING)
    assert AuditEvent.objects.get(action="workload.stop").actor == system_actor("lease").username
    assert verbs.stop_expired(now=NOW + timedelta(hours=9)) == 0


def test_the_same_again_is_no_change(cast: Cast) -> None:
    row = submit(cast)
    assert change(cast, row).generation == 1
    assert AuditEvent.objects.filter(action="workload.update").count() == 0


def test_a_waiting_request_may_be_changed(cast: Cast) -> None:
    row = change(cast, submit(cast), memory="8Gi")
    assert (row.generation, row.spec["memory"]) == (2, "8Gi")


def whole(cast: Cast) -> str:
    """An offer of whole GPUs with twice the CPU, and room for the tenant."""
    offer = make_offer(cast.offer.flavor, "h100-whole", profile="", hourly="2.94")
    offer.cpu_millis = 2 * cast.offer.cpu_millis
    offer.save()
    make_quota(cast.vision, offer)
    Price.objects.update(valid_from=NOW - timedelta(days=1))
    return offer.slug


def move(cast: Cast, row: Workload, offer: str, **seen: Any) -> Workload:
    return verbs.move_to_offer(actor=as_actor(cast.rosa), workload=row, offer=offer, now=NOW, **seen)


def test_what_waits_moves_to_another_offer_as_it_is(cast: Cast) -> None:
    row = submit(cast, image="team/lab:3", max_run_seconds=7200, cpu="4", memory="8Gi", labels={"team": "a"})
    moved = move(cast, row, whole(cast), seen_hourly=Decimal("2.94"))
    assert (moved.pk, moved.slug, moved.labels) == (row.pk, row.slug, {"team": "a"})
    assert (moved.offer.slug, moved.generation, moved.phase) == ("h100-whole", 2, Phase.PENDING)
    kept = {name: row.spec[name] for name in ("image", "memory", "max_run_seconds", "volumes")}
    assert {name: moved.spec[name] for name in kept} == kept
    assert reading.spec_of(moved).cpu_millis == 2 * cast.offer.cpu_millis, "CPU comes with the devices"
    assert Workload.objects.count() == 1
    assert "offer" in AuditEvent.objects.get(action="workload.update").changes


def test_a_move_at_another_price_than_was_seen_changes_nothing(cast: Cast) -> None:
    row = submit(cast)
    with pytest.raises(admission_check.PriceMoved):
        move(cast, row, whole(cast), seen_hourly=Decimal("1.00"))
    row.refresh_from_db()
    assert (row.generation, row.offer.slug) == (1, cast.offer.slug)


def test_what_runs_is_not_moved(cast: Cast) -> None:
    with pytest.raises(Conflict, match="not wait"):
        move(cast, running(cast), whole(cast))


def test_a_running_one_changes_only_its_lease_and_suspension(cast: Cast) -> None:
    row = running(cast)
    with pytest.raises(Invalid) as refused:
        change(cast, row, memory="8Gi")
    assert [(p.pointer, p.code) for p in refused.value.problems] == [("/spec/memory", "read_only_field")]
    assert change(cast, row, max_run_seconds=7200).generation == 2
    assert change(cast, row, suspend=True).phase == Phase.STOPPING


def test_less_is_asked_for_whatever_became_of_the_quota(cast: Cast) -> None:
    row = running(cast, count=2)
    Quota.objects.update(nominal_quota=1, borrowing_limit=0)
    row = change(cast, row, idle_policy={"action": "warn"})
    row = change(cast, row, max_run_seconds=3600)
    with pytest.raises(QuotaExceeded):
        change(cast, row, max_run_seconds=7200)
    assert change(cast, row, suspend=True).phase == Phase.STOPPING


def test_a_volume_that_is_there_is_never_changed_away(cast: Cast) -> None:
    row = submit(cast)
    with pytest.raises(Invalid, match="volume"):
        change(cast, row, volumes=[])
    more = [*row.spec["volumes"], {"name": "data", "size": "1Gi", "mount_path": "/data"}]
    assert len(change(cast, row, volumes=more).spec["volumes"]) == 2


def test_a_preview_stores_nothing_and_tells_price_and_fit(cast: Cast) -> None:
    found = verbs.preview_workload(
        actor=as_actor(cast.rosa), tenant=cast.vision, request=asked(count=2, max_run_seconds=7200), now=NOW
    )
    assert Workload.objects.count() == 0
    assert found.verdict.kind is VerdictKind.WAITS
    assert [str(found.hourly), str(found.total)] == ["0.84000000", "1.68000000"]
    assert [m["kind"] for m in found.manifests] == [
        "PersistentVolumeClaim",
        "Secret",
        "Pod",
    ]
    assert found.queue is not None


def test_a_preview_refuses_what_a_request_would(cast: Cast) -> None:
    for user, request, error in (
        (cast.otto, asked(), NotAllowed),
        (cast.rosa, asked(count=9), QuotaExceeded),
        (cast.rosa, asked(slug="kube-x"), Invalid),
    ):
        with pytest.raises(error):
            verbs.preview_workload(actor=as_actor(user), tenant=cast.vision, request=request, now=NOW)


def test_a_request_at_a_price_that_was_seen_is_taken_and_refused_at_another(cast: Cast) -> None:
    def at(seen: str) -> Workload:
        return verbs.submit_workload(
            actor=as_actor(cast.rosa), tenant=cast.vision, request=asked(), now=NOW, seen_hourly=Decimal(seen)
        )

    with pytest.raises(admission_check.PriceMoved) as moved:
        at("0.41")
    assert moved.value.extra == {"old": Decimal("0.41"), "new": Decimal("0.42")}
    assert not Workload.objects.exists()
    assert at("0.42").slug == "nb-ada"


def test_a_tenant_on_its_way_out_takes_no_new_work(cast: Cast) -> None:
    cast.vision.deleting_at = NOW
    cast.vision.save()
    with pytest.raises(Conflict):
        submit(cast)


def test_others_do_not_see_it_and_the_deleted_is_gone(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer)
    assert reading.workload_for(as_actor(cast.ann), row.pk) == row
    for user, key in ((cast.otto, row.pk), (cast.rosa, "no-uuid"), (cast.rosa, cast.vision.pk)):
        with pytest.raises(NotFound):
            reading.workload_for(as_actor(user), key)
    Workload.objects.update(deleted_at=NOW)
    with pytest.raises(DomainError):
        reading.workload_for(as_actor(cast.rosa), row.pk)
