"""What is foretold of starts: from leases and past runs, kept with its outcome, shown only while fresh."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.cluster.models import Cluster
from apps.cluster.watching.services import capabilities
from apps.workloads.models import StartEstimate, Workload, WorkloadEvent
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause, Explanation
from apps.workloads.waiting.selectors import waiting
from apps.workloads.waiting.services import predicting
from tests.cluster.abilities import FULL
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_workload, notebook_body
from tests.tenants.rest import Rest
from tests.workloads import bodies
from tests.workloads.queueing import tell, waits

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
HOUR = timedelta(hours=1)


def runs(cast: Cast, slug: str, *, stops_at: datetime | None) -> Workload:
    """Something of vision that holds one device, since an hour ago."""
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug=slug)
    Workload.objects.filter(pk=row.pk).update(phase=Phase.RUNNING, started_at=NOW - HOUR, stops_at=stops_at)
    tell(row, bodies.admitted(**{cast.offer.resource_name: "1"}), created=NOW - HOUR)
    return row


def ended(cast: Cast, *, took: timedelta) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug=f"past-{Workload.objects.count()}")
    begun = NOW - timedelta(days=3)
    Workload.objects.filter(pk=row.pk).update(
        phase=Phase.STOPPED, started_at=begun, ended_at=begun + took, deleted_at=NOW - timedelta(days=1)
    )


def latest(row: Workload) -> StartEstimate:
    return StartEstimate.objects.filter(workload=row).latest("made_at")


def test_leases_bound_what_is_foretold_and_it_is_shown_everywhere(cast: Cast) -> None:
    runs(cast, "one", stops_at=NOW + HOUR)
    runs(cast, "two", stops_at=NOW + 2 * HOUR)
    row = waits(cast.vision, cast.rosa, cast.offer, "next")
    assert predicting.predict(now=NOW) == 1
    made = latest(row)
    assert made.p10 is not None
    assert made.p50 is not None
    assert made.p90 is not None
    assert NOW < made.p10 < made.p50 < made.p90 <= NOW + HOUR
    found = waiting.explanation_for(as_actor(cast.rosa), row, NOW)
    assert found is not None
    assert f"About {made.p50:%H:%M} ({made.p10:%H:%M} to {made.p90:%H:%M})." in found.sentences
    told = waiting.queue_of(as_actor(cast.rosa), row, NOW)
    assert told is not None
    assert told["eta"] == {"p10": made.p10, "p50": made.p50, "p90": made.p90}
    assert f"About {made.p50:%H:%M}" in told["message"]


def test_past_runs_of_deleted_workloads_count(cast: Cast) -> None:
    for _ in range(6):
        ended(cast, took=timedelta(minutes=90))
    runs(cast, "one", stops_at=None)
    runs(cast, "two", stops_at=None)
    row = waits(cast.vision, cast.rosa, cast.offer, "next")
    predicting.predict(now=NOW)
    assert latest(row).p50 == NOW + timedelta(minutes=30)


def test_nothing_is_stored_where_nothing_is_known(cast: Cast) -> None:
    runs(cast, "one", stops_at=None)
    runs(cast, "two", stops_at=None)
    row = waits(cast.vision, cast.rosa, cast.offer, "next")
    assert predicting.predict(now=NOW) == 0
    found = waiting.explanation_for(as_actor(cast.rosa), row, NOW)
    assert found is not None
    assert found.starts is None
    assert "No start time: what runs has no known end." in found.sentences


def test_it_is_made_anew_only_when_it_moves_and_not_shown_once_stale(cast: Cast) -> None:
    holder = runs(cast, "one", stops_at=NOW + HOUR)
    runs(cast, "two", stops_at=None)
    row = waits(cast.vision, cast.rosa, cast.offer, "next")
    assert [predicting.predict(now=NOW), predicting.predict(now=NOW)] == [1, 0]
    Workload.objects.filter(pk=holder.pk).update(stops_at=NOW + 5 * HOUR)
    assert predicting.predict(now=NOW + timedelta(seconds=30)) == 1
    Workload.objects.filter(pk=holder.pk).update(stops_at=None)
    assert predicting.predict(now=NOW + timedelta(minutes=1)) == 1
    assert latest(row).p50 is None
    late = waiting.explanation_for(as_actor(cast.rosa), row, NOW + HOUR)
    assert late is not None
    assert late.starts is None


def test_each_prediction_gets_its_outcome(cast: Cast) -> None:
    runs(cast, "one", stops_at=NOW + HOUR)
    runs(cast, "two", stops_at=NOW + HOUR)
    starts, given_up = (waits(cast.vision, cast.rosa, cast.offer, slug) for slug in ("a", "b"))
    assert predicting.predict(now=NOW) == 2
    assert predicting.settle(now=NOW) == 0
    begun = NOW + timedelta(minutes=20)
    WorkloadEvent.objects.create(
        workload=starts, at=begun, source="allotment", type="Normal", reason=str(Phase.STARTING), message=""
    )
    Workload.objects.filter(pk=starts.pk).update(phase=Phase.RUNNING)
    Workload.objects.filter(pk=given_up.pk).update(phase=Phase.STOPPED)
    assert predicting.settle(now=NOW + HOUR) == 2
    assert latest(starts).started_at == begun
    assert (latest(given_up).started_at, latest(given_up).settled_at) == (None, NOW + HOUR)
    assert predicting.settle(now=NOW + HOUR) == 0
    inside = latest(starts).p10 <= begun <= latest(starts).p90  # type: ignore[operator]
    assert predicting.coverage() == (int(inside), 1)


def test_a_start_after_it_was_asked_for_again_is_another_waits(cast: Cast) -> None:
    runs(cast, "one", stops_at=NOW + HOUR)
    runs(cast, "two", stops_at=NOW + HOUR)
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    predicting.predict(now=NOW)
    for at, reason in ((5, "ResumeRequested"), (9, str(Phase.STARTING))):
        WorkloadEvent.objects.create(
            workload=row, at=NOW + timedelta(minutes=at), source="allotment", type="Normal", reason=reason
        )
    Workload.objects.filter(pk=row.pk).update(asked_at=NOW + timedelta(minutes=5))
    assert predicting.settle(now=NOW + HOUR) == 1
    assert latest(row).started_at is None


def test_a_rehearsal_says_when_it_would_start(cast: Cast) -> None:
    runs(cast, "one", stops_at=None)
    runs(cast, "two", stops_at=None)
    spec = {"kind": "notebook", "offer": cast.offer.slug, "cpu": "1", "memory": "1Gi"}
    answer = Rest(cast.rosa).send("POST", "/workloads?dry_run=true", {"tenant": "vision", "spec": spec})
    assert answer.status_code == 200
    assert answer.json()["queue"]["eta"] is None
    Workload.objects.filter(phase=Phase.RUNNING).update(stops_at=timezone.now() + HOUR)
    again = Rest(cast.rosa).send("POST", "/workloads?dry_run=true", {"tenant": "vision", "spec": spec})
    assert again.json()["queue"]["position"] == 1
    assert again.json()["queue"]["eta"].keys() == {"p10", "p50", "p90"}


@pytest.mark.parametrize("silent", ["cluster", "kueue"])
def test_nothing_starts_now_while_somebody_is_silent(cast: Cast, silent: str) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    if silent == "cluster":
        row.cluster.phase, row.cluster.silent_since = Cluster.Phase.SILENT, NOW
        row.cluster.save()
    else:
        other = make_workload(cast.speech, cast.leon, cast.offer, slug="other")
        wrong = {"type": "Synced", "status": "False", "reason": "WebhookUnavailable", "message": "x"}
        Workload.objects.filter(pk=other.pk).update(conditions=[wrong])
    spec = {"kind": "notebook", "offer": cast.offer.slug, "cpu": "1", "memory": "1Gi"}
    answer = (
        Rest(cast.rosa).send("POST", "/workloads?dry_run=true", {"tenant": "vision", "spec": spec}).json()
    )
    assert answer["fit"]["verdict"] == "waits"
    assert answer["alternatives"] == []
    found = waiting.explanation_for(as_actor(cast.rosa), row, NOW)
    assert found is not None
    assert found.cause is {"cluster": Cause.CLUSTER_SILENT, "kueue": Cause.KUEUE_SILENT}[silent]


def test_what_the_cluster_lacks_is_never_called_kueues_silence(cast: Cast) -> None:
    """Kueue says so itself: WorkloadPriorityClass "interactive" not found."""
    spec = parsing.as_json(parsing.parse(notebook_body(cast.offer.slug)))
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="a", spec=spec)
    silent = {"type": "QuotaReserved", "status": "False", "reason": "KueueUnavailable", "message": "x"}
    Workload.objects.filter(pk=row.pk).update(conditions=[silent])

    def why() -> Explanation:
        found = waiting.explanation_for(as_actor(cast.rosa), Workload.objects.get(pk=row.pk), NOW)
        assert found is not None
        return found

    assert why().cause is Cause.KUEUE_SILENT
    lacking = replace(FULL, priority_classes=frozenset({"batch"}))
    Cluster.objects.update(capabilities=capabilities.judge(lacking))
    assert why().cause is Cause.INCOMPLETE
    assert "Missing: preemptible, interactive, protected." in why().sentences[0]
    assert "kubectl apply -k k8s" in why().sentences[0]
    for page in ("/console/", f"/t/vision/workloads/{row.pk}/"):
        client = Client()
        client.force_login(cast.petra)
        shown = client.get(page).content.decode()
        assert "kubectl apply -k k8s" in shown, page
        assert "Kueue does not answer" not in shown, page
    lacking = replace(FULL, priority_classes=frozenset({"interactive"}))
    Cluster.objects.update(capabilities=capabilities.judge(lacking))
    assert why().cause is not Cause.INCOMPLETE, "a class that it does not name keeps it from nothing"
    Cluster.objects.update(capabilities=capabilities.judge(replace(FULL, namespaces=frozenset())))
    assert "Missing: allotment-system, allotment-access." in why().sentences[0]


def test_a_disk_that_no_class_makes_is_the_clusters_lack(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="a")
    stuck = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "unbound"}
    Workload.objects.filter(pk=row.pk).update(conditions=[stuck])
    Cluster.objects.update(capabilities=capabilities.judge(replace(FULL, has_default_storage=False)))
    found = waiting.explanation_for(as_actor(cast.rosa), Workload.objects.get(pk=row.pk), NOW)
    assert found is not None
    assert (found.cause, found.alternatives) == (Cause.INCOMPLETE, ())
    assert "storageclass.kubernetes.io/is-default-class=true" in found.sentences[0]
