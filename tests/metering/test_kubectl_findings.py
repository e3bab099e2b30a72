"""What idles though it was made with kubectl: found by the same detector, told, and never stopped."""

import csv
import io
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditEvent
from apps.cluster.models import MirrorObject
from apps.errors import Conflict, NotAllowed
from apps.metering import periodic
from apps.metering.allocations.services.collect import collect
from apps.metering.billing.selectors import charges
from apps.metering.findings.selectors.verdicts import Judged
from apps.metering.findings.services import kubectl_findings, lifecycle, measuring, responses
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import (
    Allocation,
    Device,
    Finding,
    IdlePolicy,
    KubectlJudgement,
    RollPosition,
    Sample,
)
from apps.metering.specs import FindingKind, FindingPhase
from apps.notices.models import Notice
from apps.quotas.models import Offer
from apps.workloads.models import Workload
from apps.workloads.specs import Phase
from portal.pages.team.usage import finding_pages as pages
from tests.conftest import Cast, as_actor
from tests.factories import make_offer, make_workload
from tests.metering.hardware import CUT, WHOLE, node, tell
from tests.metering.kubectl_scene import MODEL, claimed, ends, priced, whole_h100
from tests.metering.traced import HOUR, NOW, seen, summed_up
from tests.workloads import bodies
from tests.workloads.rest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
MINUTE = timedelta(minutes=1)
UID = "r1"


@pytest.fixture
def offer(cast: Cast) -> Offer:
    """The offer of a whole H100 at 3.33 an hour."""
    return whole_h100(cast)


def made(cast: Cast, now: datetime, *, busy: bool = False) -> Allocation:
    """A whole GPU that the pod of a Job has held by kubectl for five hours; it idles, with memory held."""
    pod = bodies.ready_pod()
    owner = {"kind": "Job", "name": "train", "uid": "j-1", "controller": True, "apiVersion": "batch/v1"}
    pod["metadata"] |= {
        "namespace": cast.vision.object_name, "name": "train-x7", "uid": f"p-{UID}", "labels": {},
        "ownerReferences": [owner],
    }  # fmt: skip
    any_ = make_workload(cast.vision, cast.rosa, cast.offer, slug="any")
    tell(any_, node(), WHOLE, pod, claimed(cast, "gpu-01/gpu-0"))
    collect(cast.vision.cluster, now=now - 5 * HOUR)
    Device.objects.create(
        cluster=cast.vision.cluster, uuid="GPU-a", node="gpu-01", model=MODEL,
        first_seen_at=now - 5 * HOUR, last_seen_at=now,
    )  # fmt: skip
    seen("GPU-a", now - 5 * HOUR, now, busy=busy)
    return Allocation.objects.get(workload=None)


def judge(now: datetime) -> Judged | None:
    return kubectl_findings.judge_one(UID, now=now)


def found(cast: Cast, now: datetime = NOW) -> Finding:
    """Seen twice."""
    made(cast, now)
    judge(now - 7 * MINUTE)
    judge(now)
    return Finding.objects.get()


def test_it_is_found_with_evidence_money_and_what_it_blocks_and_all_of_the_team_are_told(
    cast: Cast, offer: Offer
) -> None:
    waits = make_workload(cast.speech, cast.leon, offer, slug="waits")
    Workload.objects.filter(pk=waits.pk).update(phase=Phase.PENDING)
    row = found(cast)
    summed_up(cast.vision.cluster, NOW)
    row.refresh_from_db()
    assert (row.kind, row.phase, row.workload, row.stops_at) == (FindingKind.HOARDER, "Open", None, None)
    assert row.made == Allocation.objects.get(workload=None)
    ((begins, until),) = row.idle
    assert until == NOW.timestamp()
    money = Decimal("3.33") * Decimal(int(until - begins)) / 3600
    assert row.wasted == money.quantize(Decimal("1e-8"))
    assert row.weekly == Decimal("3.33") * 168
    assert row.blocks == {"count": 1, "devices": 1}
    assert row.evidence["figures"]["sm_active"] == 0.0
    assert [each["device"] for each in row.evidence["devices"]] == ["GPU-a"]
    assert "tenant=vision&device=GPU-a" in row.evidence["chart"]
    name, how = cast.vision.object_name, row.suggestion["words"]
    assert how.endswith(f"Whoever made it can end it: kubectl -n {name} delete job/train")
    told = Notice.objects.filter(kind="finding.found")
    assert set(told.values_list("user", flat=True)) == {cast.leon.pk, cast.rosa.pk}
    assert told.count() == 2
    (message,) = set(told.values_list("message", flat=True))
    assert message.startswith(f"{name}/job/train (made with kubectl): H100 whole, SM active 0 % for ")
    assert message.endswith(how)


@pytest.mark.parametrize("second_works", [False, True])
def test_of_several_devices_all_must_idle_and_each_has_its_price(
    cast: Cast, offer: Offer, *, second_works: bool
) -> None:
    priced(make_offer(offer.flavor, "h100-3g", profile="3g.40gb"), "1.5")
    cluster, begins = cast.vision.cluster, NOW - 5 * HOUR
    any_ = make_workload(cast.vision, cast.rosa, cast.offer, slug="any")
    tell(any_, node(), CUT, claimed(cast, "gpu-01/gpu-0-mig-1", "gpu-01/gpu-0-mig-2"))
    collect(cluster, now=begins)
    for number in (1, 2):
        Device.objects.create(
            cluster=cluster, uuid=f"GPU-{number}", gpu_instance=number, profile="3g.40gb", node="gpu-01",
            instance_uuid=f"MIG-{number}", model=MODEL, first_seen_at=begins, last_seen_at=NOW,
        )  # fmt: skip
        seen(f"GPU-{number}", begins, NOW, busy=second_works and number == 2)
    judge(NOW)
    if second_works:
        assert not Finding.objects.exists()
        return
    summed_up(cluster, NOW)
    row = Finding.objects.get()
    assert row.weekly == 2 * Decimal("1.5") * 168
    assert len(row.evidence["devices"]) == 2
    ((since, until),) = row.idle
    assert row.wasted == (2 * Decimal("1.5") * Decimal(int(until - since)) / 3600).quantize(Decimal("1e-8"))
    assert row.suggestion["words"].endswith("delete pod/made-by-hand")


def test_no_policy_ever_stops_it(cast: Cast, offer: Offer) -> None:
    IdlePolicy.objects.create(tenant=cast.vision, mode="stop")
    row = found(cast)
    for minutes in range(1, 10):
        judge(NOW + minutes * MINUTE)
    row.refresh_from_db()
    assert (row.phase, row.stops_at) == (FindingPhase.OPEN, None)


def test_what_works_and_what_nobody_sees_is_not_found(cast: Cast, offer: Offer) -> None:
    made(cast, NOW, busy=True)
    judge(NOW)
    assert not Finding.objects.exists()
    Sample.objects.all().delete()
    judge(NOW)
    assert not Finding.objects.exists()


def test_it_stays_while_nothing_is_known_is_resolved_when_it_works_and_comes_back_counted(
    cast: Cast, offer: Offer
) -> None:
    row = found(cast)
    judge(NOW + 3 * HOUR)  # nothing was seen for three hours
    row.refresh_from_db()
    assert row.phase == FindingPhase.OPEN
    Sample.objects.all().delete()
    seen("GPU-a", NOW - 5 * HOUR, NOW + 3 * HOUR, busy=True)
    judge(NOW + 3 * HOUR)
    row.refresh_from_db()
    assert (row.phase, row.closed_at) == (FindingPhase.RESOLVED, NOW + 3 * HOUR)
    seen("GPU-a", NOW + 3 * HOUR, NOW + 8 * HOUR)
    judge(NOW + 8 * HOUR)
    again = Finding.objects.get(closed_at=None)
    assert (again.kind, again.repeat_count) == (FindingKind.FORGOTTEN, 1)


def test_it_is_resolved_when_it_is_gone_and_workloads_findings_are_left_alone(
    cast: Cast, offer: Offer
) -> None:
    row = found(cast)
    lifecycle.close_ended(now=NOW)
    kubectl_findings.close_ended(now=NOW)
    row.refresh_from_db()
    assert row.closed_at is None
    ends(UID)
    collect(cast.vision.cluster, now=NOW + MINUTE)
    assert kubectl_findings.judge_due(now=NOW + MINUTE) == 0
    row.refresh_from_db()
    assert row.phase == FindingPhase.RESOLVED
    assert row.closed_at == NOW + MINUTE
    assert not KubectlJudgement.objects.exists()


def test_what_is_due_is_judged_once_in_a_while(cast: Cast, offer: Offer) -> None:
    made(cast, NOW)
    assert kubectl_findings.judge_due(now=NOW, budget=-1.0) == 0
    assert kubectl_findings.judge_due(now=NOW) == 1
    assert kubectl_findings.judge_due(now=NOW + MINUTE) == 0
    assert kubectl_findings.judge_due(now=NOW + 5 * MINUTE) == 1
    Allocation.objects.filter(workload=None).update(offer=None)
    assert kubectl_findings.judge_due(now=NOW + 11 * MINUTE) == 1
    assert kubectl_findings.judge_due(now=NOW + 12 * MINUTE) == 0


def test_its_waste_has_its_cause_on_the_bill_unless_it_is_dismissed(cast: Cast, offer: Offer) -> None:
    row = found(cast)
    cluster, later = cast.vision.cluster, NOW + 10 * MINUTE

    def causes() -> dict[str, Fraction]:
        rollup.roll(cluster, now=later)
        assert verifying.verify(cluster).flaws == []
        (sums,) = charges.charges(
            Allocation.objects.filter(workload=None), NOW - 5 * HOUR, NOW, now=later
        ).values()
        assert sums.charged == sums.effective + sums.waste + sums.unknown == 5 * Fraction("3.33")
        return sums.causes

    told = causes()
    measuring.price_rolled([cast.vision.pk], now=later)
    row.refresh_from_db()
    assert told["hoarded"] == Fraction(row.wasted)
    assert told["hoarded"] + told["idle"] == 5 * Fraction("3.33")
    responses.dismiss(actor=as_actor(cast.leon), finding=row, reason="a lesson", until=None, now=NOW)
    assert causes()["hoarded"] == 0


def test_leads_answer_it_and_nobody_acts_on_it_from_here(cast: Cast, offer: Offer) -> None:
    row = found(cast)
    with pytest.raises(NotAllowed):
        responses.snooze(actor=as_actor(cast.rosa), finding=row, until=NOW + HOUR, reason="", now=NOW)
    lead = as_actor(cast.leon)
    for act in (responses.stop, responses.warn, responses.resize, responses.extend):
        with pytest.raises(Conflict) as refused:
            act(actor=lead, finding=row, reason="idle", now=NOW)
        assert "made with kubectl" in str(refused.value.detail)
        assert "delete job/train" in (refused.value.hint or "")
    responses.snooze(actor=lead, finding=row, until=NOW + HOUR, reason="lunch", now=NOW)
    row.refresh_from_db()
    assert (row.phase, row.snoozed_until) == (FindingPhase.SNOOZED, NOW + HOUR)
    judge(NOW + 2 * HOUR)
    row.refresh_from_db()
    assert row.phase == FindingPhase.SNOOZED  # nothing is known of it since
    event = AuditEvent.objects.get(action="finding.snooze")
    assert event.target_name == f"hoarder {cast.vision.object_name}/job/train (made with kubectl)"


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def row(cast: Cast, offer: Offer) -> Finding:
    return found(cast, timezone.now().replace(microsecond=0))


def test_pages_show_evidence_and_how_to_end_it_and_offer_no_stop(cast: Cast, row: Finding) -> None:
    name = f"{cast.vision.object_name}/job/train (made with kubectl)"
    for user, url in (
        (cast.rosa, "/t/vision/findings/"),
        (cast.petra, "/console/findings/"),
        (cast.rosa, "/t/vision/usage/"),
    ):
        shown = client_of(user).get(url).content.decode()
        assert name in shown
        assert "stop/" not in shown
    url = f"/t/vision/findings/{row.pk}/"
    shown = client_of(cast.leon).get(url).content.decode()
    assert f"kubectl -n {cast.vision.object_name} delete job/train" in shown
    assert 'id="dismiss"' in shown
    assert 'id="stop"' not in shown
    assert 'id="warn"' not in shown
    assert client_of(cast.otto).get(url).status_code == 404
    assert client_of(cast.leon).get(f"{url}?span=7d").status_code == 200
    assert client_of(cast.leon).get(f"{url}dismiss/").status_code == 200
    assert client_of(cast.leon).post(f"{url}dismiss/", {"reason": "a lesson"}).status_code == 303
    row.refresh_from_db()
    assert row.phase == FindingPhase.DISMISSED


def test_the_list_of_rest_as_csv_names_it(cast: Cast, row: Finding) -> None:
    answer = Api(cast.rosa).client.get("/api/v1/findings", headers={"Accept": "text/csv"})
    (line,) = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (line["workload"], line["origin"]) == ("", "kubectl")
    assert (line["made_namespace"], line["made_name"]) == (cast.vision.object_name, "job/train")


def test_its_picture_is_looked_back_at_from_its_end(cast: Cast, offer: Offer) -> None:
    row = found(cast)
    ends(UID)
    collect(cast.vision.cluster, now=NOW)
    rollup.roll(cast.vision.cluster, now=NOW + 2 * HOUR)
    long_after = NOW + timedelta(days=40)
    RollPosition.objects.update(until=long_after)
    shown = pages.detail(as_actor(cast.rosa), row, QueryDict(), now=long_after)["use"]()
    assert not shown.chart.is_empty
    assert not shown.is_fresh


def test_its_page_draws_what_its_devices_did(cast: Cast, row: Finding) -> None:
    rollup.roll(cast.vision.cluster, now=timezone.now())
    client, url = client_of(cast.leon), f"/t/vision/findings/{row.pk}/"
    shown = client.get(url).content.decode()
    assert "use-table" in shown
    assert f"{url}use.csv?span=" in shown
    answer = client.get(f"{url}use.csv?span=24h")
    assert 'filename="job-train-use-24h.csv"' in answer["Content-Disposition"]
    assert [line for line in answer.content.decode().splitlines()[1:] if line.split(",")[3]]
    assert client_of(cast.otto).get(f"{url}use.csv").status_code == 404


def test_rest_and_files_tell_it(cast: Cast, row: Finding) -> None:
    client = Api(cast.rosa).client
    (item,) = client.get("/api/v1/findings").json()["items"]
    assert (item["workload"], item["origin"], item["countdown"]) == (None, "kubectl", None)
    assert item["made"] == {"namespace": cast.vision.object_name, "name": "job/train", "uid": UID}
    assert item["suggestion"]["action"] == "kubectl"
    assert client.get(f"/api/v1/findings/{row.pk}").json()["id"] == str(row.pk)
    assert Api(cast.otto).client.get("/api/v1/findings").json()["items"] == []
    refused = Api(cast.leon).client.post(
        f"/api/v1/findings/{row.pk}/act", {"action": "stop", "reason": "x"}, content_type="application/json"
    )
    assert refused.status_code == 409
    body = client_of(cast.rosa).get(reverse("findings-file", args=["vision"])).content.decode()
    (line,) = csv.DictReader(io.StringIO(body))
    assert (line["workload"], line["owner"]) == (
        f"{cast.vision.object_name}/job/train (made with kubectl)",
        "",
    )


def test_a_finding_is_of_a_workload_or_of_what_was_made_with_kubectl(cast: Cast, row: Finding) -> None:
    both: dict[str, Any] = {"workload": Workload.objects.first()}
    for values in (both, {"made": None}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Finding.objects.filter(pk=row.pk).update(**values)


def test_what_made_the_pod_is_told_as_far_as_it_is_known(cast: Cast, offer: Offer) -> None:
    held = made(cast, NOW)
    assert (held.root, held.device_uuid) == ("job/train", "GPU-a")
    # As rows of before are: completed at the next look, and nothing else of them changes.
    Allocation.objects.filter(workload=None).update(root="", device_uuid="")
    MirrorObject.objects.filter(kind="Pod").delete()
    collect(cast.vision.cluster, now=NOW)
    now = Allocation.objects.get(workload=None)
    assert (now.pk, now.root, now.device_uuid) == (held.pk, "pod/made-by-hand", "GPU-a")
    assert (now.started_at, now.ended_at) == (held.started_at, None)


def test_what_would_be_made_again_is_not_what_ends_it(cast: Cast, offer: Offer) -> None:
    """A Deployment makes a ReplicaSet that was deleted anew; its name and the pod's hash make that one's."""
    held = made(cast, NOW)
    pod = MirrorObject.objects.get(kind="Pod", name="train-x7")
    pod.body["metadata"] |= {
        "labels": {"pod-template-hash": "7d9f"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "chat-7d9f", "uid": "s", "controller": True}],
    }
    pod.save()
    Allocation.objects.filter(workload=None).update(root="")
    collect(cast.vision.cluster, now=NOW)
    assert Allocation.objects.get(pk=held.pk).root == "deployment/chat"


def test_the_clock_judges_it(cast: Cast, offer: Offer) -> None:
    made(cast, timezone.now().replace(microsecond=0))
    periodic.judge_workloads()
    assert Finding.objects.get().made == Allocation.objects.get(workload=None)
