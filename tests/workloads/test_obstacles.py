"""What keeps one workload besides quota, read from conditions, Events and its tenant's queue."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.cluster.mirror.rules.mirror_columns import Sighting
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.errors import Conflict
from apps.quotas.models import Offer, TenantQueue
from apps.quotas.specs import HoldReason
from apps.tenants.specs import TrustLevel
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.queue.rules.effects import Arrangement
from apps.workloads.queue.services import arranging
from apps.workloads.specs import Phase
from apps.workloads.waiting.rules.situation import Cause, Explanation
from apps.workloads.waiting.selectors import places, waiting
from portal.pages.team.workloads import workload_detail
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_workload
from tests.workloads import bodies
from tests.workloads.queueing import tell, waits

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def starting(cast: Cast, reason: str, message: str = "") -> Workload:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    ready = {"type": "Ready", "status": "False", "reason": reason, "message": message}
    Workload.objects.filter(pk=row.pk).update(phase=Phase.STARTING, conditions=[ready])
    row.refresh_from_db()
    return row


def why(cast: Cast, row: Workload) -> Explanation:
    found = waiting.explanation_for(as_actor(cast.rosa), row, NOW)
    assert found is not None
    return found


def event(row: Workload, reason: str, message: str) -> None:
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "nb-0", "namespace": row.tenant.object_name, "uid": "p1", "resourceVersion": "5",
            "labels": {"allotment.dev/uid": str(row.pk), "allotment.dev/owner": "workload"},
        },
    }  # fmt: skip
    told: dict[str, Any] = {
        "metadata": {"name": "e1", "namespace": row.tenant.object_name, "uid": "e1", "resourceVersion": "6"},
        "involvedObject": {"kind": "Pod", "uid": "p1"},
        "reason": reason, "message": message, "type": "Warning",
    }  # fmt: skip
    mirror_table.record_seen(row.cluster, [Sighting("Pod", pod)], now=NOW)
    mirror_table.record_seen(row.cluster, [Sighting("Event", told)], now=NOW)


def refuse(row: Workload, reason: str, message: str, since: datetime = NOW - timedelta(minutes=2)) -> None:
    told = {"type": "Synced", "status": "False", "reason": reason, "message": message}
    row.conditions = [told | {"since": since.isoformat()}]
    row.save()


def test_an_image_that_cannot_be_pulled_is_named_with_what_to_do(cast: Cast) -> None:
    row = starting(cast, "ImagePullBackOff", 'Back-off pulling image "jupyter/pytorch:1"')
    found = why(cast, row)
    assert found.cause is Cause.IMAGE
    assert found.sentences[0].startswith(
        "Its image cannot be pulled: jupyter/pytorch:1. The cluster says: Back-off"
    )
    assert "correct the image and start it again" in found.sentences[0]


def test_an_image_that_is_given_to_nobody_unknown_says_who_puts_the_secret(cast: Cast) -> None:
    said = "pull access denied, repository does not exist or may require authorization: authorization failed"
    found = why(cast, starting(cast, "ErrImagePull", said))
    assert found.cause is Cause.IMAGE
    assert "it is private: then a lead of the team adds the login of its registry" in found.frees


def test_a_disk_that_cannot_be_mounted_is_told_in_the_clusters_words(cast: Cast) -> None:
    row = starting(cast, "Starting")
    event(row, "FailedAttachVolume", "Multi-Attach error for volume pvc-1")
    found = why(cast, row)
    assert found.cause is Cause.VOLUME
    assert "The cluster says: Multi-Attach error for volume pvc-1." in found.sentences[0]


@pytest.mark.parametrize(
    ("reason", "message", "words"),
    [
        (
            "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: prepare devices: gpu-3 is not allocatable",
            "Its devices cannot be handed to its pod. The cluster says: Failed to prepare dynamic",
        ),
        (
            "FailedCreatePodSandBox",
            'Failed to create pod sandbox: plugin type="calico" failed (add)',
            "Its node cannot set its pod up. The cluster says: Failed to create pod sandbox: plugin type=",
        ),
        (
            "NewInKubernetes",
            "Nobody has read of this.",
            "The cluster warns of it (NewInKubernetes). The cluster says: Nobody has read of this. What ends",
        ),
    ],
)
def test_a_warning_about_its_pod_is_told_in_the_clusters_words(
    cast: Cast, reason: str, message: str, words: str
) -> None:
    row = starting(cast, "Starting")
    event(row, reason, message)
    found = why(cast, row)
    assert found.cause is Cause.WARNED
    assert found.sentences[0].startswith(words)


def test_a_container_that_waits_says_for_what_without_any_event(cast: Cast) -> None:
    found = why(cast, starting(cast, "CreateContainerConfigError", 'secret "key" not found'))
    assert found.cause is Cause.WARNED
    assert 'lacks something that it names. The cluster says: secret "key" not found.' in found.sentences[0]


def test_what_starts_as_it_should_needs_no_explanation(cast: Cast) -> None:
    assert waiting.explanation_for(as_actor(cast.rosa), starting(cast, "Starting"), NOW) is None


def test_a_tenants_hold_is_not_what_keeps_work_that_kueue_let_in(cast: Cast) -> None:
    TenantQueue.objects.create(
        tenant=cast.vision, cluster=cast.vision.cluster, hold_reason=HoldReason.MANUAL, hold_detail="Held."
    )
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    message = "0/3 nodes are available"
    ready, scheduled = (
        {"type": name, "status": "False", "reason": "Unschedulable", "message": message,
         "since": NOW.isoformat()}
        for name in ("Ready", "PodScheduled")
    )  # fmt: skip
    Workload.objects.filter(pk=row.pk).update(conditions=[ready, scheduled])
    row.refresh_from_db()
    found = why(cast, row)
    assert (found.cause, found.smaller, found.detail) == (Cause.FITS_NO_NODE, None, message)
    assert f"and none is free. It has been so since {NOW:%H:%M}." in found.sentences[0]
    with pytest.raises(Conflict, match="admitted already"):
        arranging.effect_of(actor=as_actor(cast.petra), workload=row, arrangement=Arrangement.HOLD)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (HoldReason.BUDGET, Cause.BUDGET),
        (HoldReason.SUSPENDED, Cause.SUSPENDED),
        (HoldReason.MANUAL, Cause.TENANT_HELD),
    ],
)
def test_a_held_tenant_queue_speaks_for_itself(cast: Cast, reason: HoldReason, cause: Cause) -> None:
    words = "November's budget of 900.00 EUR is spent: ask platform for more."
    TenantQueue.objects.create(
        tenant=cast.vision, cluster=cast.vision.cluster, hold_reason=reason, hold_detail=words
    )
    found = why(cast, waits(cast.vision, cast.rosa, cast.offer, "a"))
    assert (found.cause, found.sentences[0]) == (cause, words)


CLOSED = [
    (
        {"min_trust_level": TrustLevel.TRUSTED},
        "needs trust level trusted; vision is standard. It waits until a platform engineer changes that; or",
    ),
    (
        {"enabled": False},
        "is switched off: nothing new starts on it. It waits until a platform engineer offers it again.",
    ),
]


@pytest.mark.parametrize(("change", "words"), CLOSED, ids=["trust", "switched-off"])
def test_an_offer_that_was_closed_is_the_reason_and_not_the_quota(
    cast: Cast, client: Client, change: dict[str, Any], words: str
) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    Offer.objects.filter(pk=cast.offer.pk).update(**change)
    row = Workload.objects.get(pk=row.pk)
    found = why(cast, row)
    assert found.cause is Cause.CLOSED
    assert found.sentences[0].startswith(f"{cast.offer.name} {words}")
    client.force_login(cast.rosa)
    queue = client.get(f"/api/v1/workloads/{row.pk}").json()["status"]["queue"]
    assert (queue["cause"], queue["position"]) == ("Closed", 1)
    assert found.sentences[0] in queue["message"]


def test_what_was_let_in_before_its_offer_closed_goes_on(cast: Cast) -> None:
    row = starting(cast, "Starting")
    Offer.objects.filter(pk=cast.offer.pk).update(enabled=False)
    assert waiting.explanation_for(as_actor(cast.rosa), Workload.objects.get(pk=row.pk), NOW) is None


@pytest.mark.parametrize(
    ("reason", "cause"), [("InCohortReclamation", Cause.RECLAIMED), ("InClusterQueue", Cause.PREEMPTED)]
)
def test_a_preemption_is_told_until_it_runs_again(cast: Cast, reason: str, cause: Cause) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    gone = (bodies.condition("Evicted", reason="Preempted"), bodies.condition("Preempted", reason=reason))
    tell(row, bodies.queued(*gone), created=row.asked_at, version=90)
    found = why(cast, row)
    assert found.cause is cause
    assert found.sentences[0].startswith("Preempted 09:00: ")


def test_a_release_is_no_preemption(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    tell(row, bodies.queued(bodies.condition("Evicted", reason="Deactivated")), version=90)
    assert places.entry_of(row) is not None
    assert why(cast, row).cause not in (Cause.RECLAIMED, Cause.PREEMPTED)


def test_what_waits_unseen_is_on_its_way(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="new")
    assert why(cast, row).cause is Cause.ON_ITS_WAY


def test_a_namespace_with_as_many_objects_as_it_may_hold_says_what_to_do(cast: Cast) -> None:
    """The words are those of Kubernetes 1.36 to the 201st claim of 200."""
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    refused = (
        'PersistentVolumeClaim team-vision/nb-home: persistentvolumeclaims "nb-home" is forbidden: exceeded '
        "quota: objects, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=200, limited: "
        "persistentvolumeclaims=200"
    )
    refuse(row, "Forbidden", refused)
    found = why(cast, row)
    assert found.cause is Cause.REFUSED
    assert found.sentences[0] == (
        "vision has as many persistentvolumeclaims as a tenant may have (200). Delete workloads or volumes "
        "that are no longer needed; then it goes on by itself within a minute."
    )


def test_what_the_cluster_goes_on_refusing_is_not_on_its_way(cast: Cast) -> None:
    row = make_workload(cast.vision, cast.rosa, cast.offer, slug="nb")
    refuse(row, "Invalid", "Job a: spec.x: too long")
    assert "The cluster says: Job a: spec.x: too long." in why(cast, row).sentences[0]
    refuse(row, "NotFound", "namespaces vision not found", since=NOW - timedelta(seconds=20))
    assert why(cast, row).cause is Cause.ON_ITS_WAY, "it is tried again first"
    for reason in ("ClusterUnavailable", "Unauthorized", "Terminating"):
        refuse(row, reason, "No answer.")
        assert why(cast, row).cause is Cause.ON_ITS_WAY, "nobody refused it"


def test_a_quota_that_was_cut_below_what_is_asked_is_told(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a", age=timedelta(hours=1))
    cast.vision.quotas.update(nominal_quota=0, borrowing_limit=0)
    assert why(cast, row).cause is Cause.TOO_LARGE


OUT = bodies.condition(
    "Evicted",
    reason="DeactivatedDueToRequeuingLimitExceeded",
    message="exceeding the maximum number of retries",
)


def test_what_kueue_took_out_says_so_until_it_is_started_again(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a", age=timedelta(days=30))
    tell(row, bodies.queued(OUT, active=False), version=90)
    found = why(cast, row)
    assert found.cause is Cause.DEACTIVATED
    assert (
        "as often as Kueue tries. Kueue says: exceeding the maximum number of retries." in found.sentences[0]
    )
    asked = verbs.resume_workload(actor=as_actor(cast.rosa), workload=row, reason="fixed", now=NOW)
    assert asked.asked_at == NOW
    assert why(cast, asked).cause is Cause.ON_ITS_WAY
    assert verbs.resume_workload(actor=as_actor(cast.rosa), workload=asked, reason="", now=NOW) == asked


def test_a_check_that_is_open_and_a_queue_that_is_not_active_are_no_moment(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    checked = bodies.queued(bodies.condition("QuotaReserved"))
    checked["status"]["admissionChecks"] = [{"name": "provision", "state": "Pending", "message": "no node"}]
    tell(row, checked, version=90)
    assert why(cast, row).cause is Cause.CHECKED
    tell(row, bodies.waiting(), version=91)
    active = bodies.condition("Active", "False", reason="FlavorNotFound", message="references missing h100")
    name = cast.vision.object_name
    body = {
        "metadata": {"name": name, "uid": "q", "resourceVersion": "92"},
        "status": {"conditions": [active]},
    }
    mirror_table.record_seen(row.cluster, [Sighting("ClusterQueue", body)], now=NOW)
    found = why(cast, row)
    assert found.cause is Cause.NOT_TAKEN_IN
    assert "Kueue says: references missing h100." in found.sentences[0]


def test_what_a_hand_took_out_offers_to_start_it_again(cast: Cast) -> None:
    """RULE: once Kueue has said since when; not where the platform holds it, which ends by a release."""
    row, rosa = waits(cast.vision, cast.rosa, cast.offer, "a", age=timedelta(days=30)), as_actor(cast.rosa)
    tell(row, bodies.queued(active=False), version=89)
    assert "or stop it and start it." in why(cast, row).frees
    assert not workload_detail.page(rosa, row, now=NOW)["may"].get("resume")
    tell(row, bodies.queued(bodies.condition("Evicted", reason="Deactivated"), active=False), version=90)
    assert "Start it again, which sets it to true" in why(cast, row).frees
    assert workload_detail.page(rosa, row, now=NOW)["may"].get("resume")
    row.held_at = NOW
    assert not workload_detail.page(rosa, row, now=NOW)["may"].get("resume")
    asked = verbs.resume_workload(actor=rosa, workload=row, reason="", now=NOW)
    assert why(cast, asked).cause is Cause.ON_ITS_WAY
    assert not workload_detail.page(rosa, asked, now=NOW)["may"].get("resume")


def test_what_was_released_here_is_on_its_way_back(cast: Cast) -> None:
    row = waits(cast.vision, cast.rosa, cast.offer, "a")
    entry = tell(row, bodies.queued(active=False), version=90)
    assert why(cast, row).cause is Cause.DEACTIVATED
    MirrorObject.objects.filter(pk=entry.pk).update(sent_hash="ours")
    assert why(cast, row).cause is Cause.ON_ITS_WAY
