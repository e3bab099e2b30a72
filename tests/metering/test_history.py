"""A written past comes in by the product's own ingest, and the books of that time balance."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.db.models import Max, Min, Sum

from apps.accounts.specs import system_actor
from apps.cluster.mirror.rules.hardware import GPU_DRIVER
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects import trim
from apps.metering.allocations.services import gpu_facts
from apps.metering.billing.services import pricing_run
from apps.metering.findings.rules import money
from apps.metering.findings.selectors import blocking
from apps.metering.findings.services import lifecycle, measuring
from apps.metering.history.rules import files
from apps.metering.history.selectors import progress
from apps.metering.history.services.importer import Imported, import_history, open_books, span_of
from apps.metering.ledger.services import rollup, verifying
from apps.metering.models import Allocation, Bucket, Device, Finding, Sample
from apps.metering.specs import Account, FindingPhase
from apps.metering.telemetry.rules.sources.reading import micros
from apps.notices.models import Notice
from apps.quotas.catalogue.services.adoption import adopt_inventory
from apps.quotas.models import Price
from apps.tenants.models import Tenant
from apps.tenants.specs import Role
from apps.workloads.models import Workload
from apps.workloads.specs import Kind, Phase
from sandbox.fleet import history
from sandbox.fleet.nodes import node_object
from sandbox.fleet.slices import resource_slices
from sandbox.fleet.spec import load_fleet
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(400), pytest.mark.both_databases]
UNTIL = datetime(2026, 11, 20, tzinfo=UTC)
BEGINS = UNTIL - timedelta(days=1)
NOW = UNTIL + timedelta(minutes=10)
PEOPLE = {"vision": ("kim", "of-another-team")}
PLAN = history.Plan("laptop", 7, 1, 1800, ("vision", "speech"), UNTIL, PEOPLE)


def judged(found: Imported) -> int:
    return lifecycle.keep_ended({pk: lifecycle.findings_at_end(pk) for pk in found.workloads})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past")
    history.write(PLAN, folder)
    return folder


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("week")
    history.write(replace(PLAN, days=7, step=60), folder)
    return folder


@pytest.fixture
def fleet(cluster: Cluster) -> Cluster:
    """The same fleet, seen for the first time after the past was over; vision and speech have members."""
    laptop = load_fleet("laptop")
    for node, _ in laptop.node_pools():
        body = node_object(laptop, node, 7, NOW)
        _mirror(cluster, "Node", node, trim.node(body))
        for published in resource_slices(laptop, node, 7):
            _mirror(cluster, "ResourceSlice", published["metadata"]["name"], published)
    adopt_inventory(actor=system_actor("seed"), cluster=cluster, now=NOW)
    research = factories.make_department(cluster, "research")
    for slug in ("vision", "speech"):
        tenant = factories.make_tenant(research, slug)
        factories.join(tenant, factories.make_user(f"lead-of-{slug}"), Role.LEAD)
    factories.join(Tenant.objects.get(slug="vision"), factories.make_user("kim"), Role.MEMBER)
    return cluster


def _mirror(cluster: Cluster, kind: str, name: str, body: dict[str, object]) -> None:
    MirrorObject.objects.create(cluster=cluster, kind=kind, name=name, uid=f"{kind}-{name}", body=body)


def test_a_past_comes_in_and_its_books_balance(fleet: Cluster, written: Path) -> None:
    found = import_history(fleet, written, now=NOW)
    lines = (written / "samples.jsonl").read_bytes().splitlines()
    told = [orjson.loads(line) for line in lines]
    assert found.samples.stored == sum(line["count"] for line in told)
    assert found.homeless == 0
    assert Allocation.objects.filter(ended_at=None).count() == 0
    assert Allocation.objects.count() == found.allocations > 10
    times = Sample.objects.aggregate(first=Min("ts"), last=Max("ts"))
    assert (times["first"], times["last"]) == (BEGINS + timedelta(minutes=30), UNTIL)
    assert set(Sample.objects.values_list("seconds", flat=True)) == {1800}
    open_books(fleet, found.span, now=NOW)
    rollup.roll(fleet, now=NOW)
    hours = Bucket.objects.filter(level=86400, starts_at=BEGINS)
    gpus = hours.values("gpu", "denominator").annotate(total=Sum("share_us"))
    assert len(gpus) >= 6
    assert {row["total"] for row in gpus} - {row["denominator"] * 86_400_000_000 for row in gpus} == set()
    seen = hours.filter(account=Account.TENANT).aggregate(seen=Sum("seen_us"), held=Sum("held_us"))
    assert 0 < seen["seen"] <= seen["held"]


@pytest.mark.exhaustive
def test_the_ledger_of_an_imported_week_holds_where_the_present_began_before_it_came_in(
    fleet: Cluster, week: Path
) -> None:
    """As in the demo: the fleet was seen, and rolled up, between the week's end and its import."""
    seen = UNTIL + timedelta(seconds=344)
    gpu_facts.observe(fleet, now=seen)
    rollup.roll(fleet, now=UNTIL + timedelta(hours=1))
    imported = UNTIL + timedelta(hours=2)
    found = import_history(fleet, week, now=imported)
    assert found.allocations > 50
    assert judged(found)
    open_books(fleet, found.span, now=imported)
    rollup.roll(fleet, now=imported)
    verdict = verifying.verify(fleet)
    assert verdict.waiting == 0
    assert verdict.buckets > 7 * 288
    assert [str(flaw) for flaw in verdict.flaws] == []


def test_what_a_pod_did_is_seen_on_its_own_allocation(fleet: Cluster, written: Path) -> None:
    import_history(fleet, written, now=NOW)
    truth = [orjson.loads(line) for line in (written / "truth.jsonl").read_bytes().splitlines()]
    trained = {each["name"].rpartition("-")[0] for each in truth if each["behaviour"] == "train"}
    held = Allocation.objects.filter(workload__name__in=trained).order_by("started_at")
    busy = 0
    for row in held:
        device = Device.objects.filter(uuid=row.device_uuid) | Device.objects.filter(
            instance_uuid=row.device_uuid
        )
        samples = Sample.objects.filter(device__in=device, ts__gt=row.started_at, ts__lte=row.ended_at)
        busy += samples.filter(sm_active__gt=300_000).count()
    assert busy > 5


def test_work_appears_as_finished_workloads_of_its_tenant(fleet: Cluster, written: Path) -> None:
    import_history(fleet, written, now=NOW)
    rows = list(Workload.objects.select_related("tenant", "owner"))
    assert {row.tenant.slug for row in rows} == {"vision", "speech"}
    assert {row.owner.username for row in rows} == {"lead-of-vision", "lead-of-speech", "kim"}
    assert {row.kind for row in rows} == {Kind.NOTEBOOK, Kind.JOB}
    assert {row.phase for row in rows} <= {Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED}
    assert Phase.SUCCEEDED in {row.phase for row in rows}
    for row in rows:
        assert row.started_at is not None
        assert row.ended_at is not None
        assert BEGINS <= row.created_at <= row.started_at <= row.ended_at <= UNTIL
    # Nothing of it waits to be brought into the cluster.
    assert all(row.observed_generation == row.generation and row.due_at is None for row in rows)


@pytest.mark.exhaustive
def test_a_past_that_is_imported_again_changes_nothing(fleet: Cluster, written: Path) -> None:
    first = import_history(fleet, written, now=NOW)
    prices, rows = Price.objects.count(), Workload.objects.count()
    again = import_history(fleet, written, now=NOW)
    assert (again.samples.stored, again.samples.duplicates) == (0, first.samples.stored)
    assert (again.allocations, again.span) == (first.allocations, first.span)
    assert (Price.objects.count(), Workload.objects.count()) == (prices, rows)


def test_prices_hold_since_the_past_began_and_none_is_changed(fleet: Cluster, written: Path) -> None:
    before = dict(Price.objects.values_list("pk", "hourly"))
    import_history(fleet, written, now=NOW)
    assert before.items() <= dict(Price.objects.values_list("pk", "hourly")).items()
    for offer, hourly in Price.objects.filter(valid_from=BEGINS).values_list("offer", "hourly"):
        assert Price.objects.get(offer=offer, valid_from=NOW).hourly == hourly
    workload = Workload.objects.filter(started_at__isnull=False).first()
    assert workload is not None


def test_the_past_ends_where_this_installation_began_to_look(
    fleet: Cluster, written: Path, tmp_path: Path
) -> None:
    gpu_facts.observe(fleet, now=UNTIL - timedelta(hours=6))
    assert span_of(fleet, written).ends == UNTIL - timedelta(hours=6)
    import_history(fleet, written, now=NOW)
    assert Sample.objects.aggregate(last=Max("ts"))["last"] <= UNTIL - timedelta(hours=6)
    assert Allocation.objects.aggregate(last=Max("ended_at"))["last"] <= UNTIL - timedelta(hours=6)


def test_each_try_of_a_job_is_charged_at_the_offer_that_it_ran_on(fleet: Cluster, tmp_path: Path) -> None:
    tries = [("h100-0", "gpu-0", 0), ("l4-0", "gpu-1", 1)]
    _write_retried(tmp_path, tries)
    found = import_history(fleet, tmp_path, now=NOW)
    (pk,) = found.workloads
    rows = Allocation.objects.filter(workload=pk).order_by("started_at").select_related("offer__flavor")
    ran = [row.offer and (row.offer.flavor.model, row.offer.profile) for row in rows]
    assert ran == [("NVIDIA H100 80GB HBM3", ""), ("NVIDIA L4", "")]
    assert [row.capacity for row in rows] == ["on-demand", "spot"]
    pricing_run.price_workloads([pk], now=NOW)
    work = Workload.objects.get(pk=pk)
    hourly = [Price.objects.get(offer=row.offer, valid_from=NOW).hourly for row in rows]
    assert len(set(hourly)) == 2
    assert work.cost_allocated == sum(hourly) / 2


def _write_retried(folder: Path, tries: list[tuple[str, str, int]]) -> None:
    """A Job of vision whose pods ran half an hour each, an hour apart, each on a device of its own."""
    job = _event(BEGINS, "jobs.batch", {"uid": "job", "name": "train"})
    lines = [job]
    for node, device, hour in tries:
        begins = BEGINS + timedelta(hours=hour)
        pod = {"uid": f"pod-{hour}", "name": f"train-{hour}", "ownerReferences": [_controlled("job")]}
        claim = {
            "uid": f"claim-{hour}",
            "name": f"train-{hour}",
            "ownerReferences": [_controlled(f"pod-{hour}")],
        }
        result = {"driver": GPU_DRIVER, "pool": node, "device": device}
        held = {"allocationTimestamp": begins.isoformat(), "devices": {"results": [result]}}
        lines += [
            _event(begins, "pods", pod, spec={"nodeName": node}),
            _event(begins, "resourceclaims.resource.k8s.io", claim, status={"allocation": held}),
            _event(begins + timedelta(minutes=30), "pods", pod, "DELETED", spec={"nodeName": node}),
        ]
    manifest = {"from": BEGINS.isoformat(), "until": UNTIL.isoformat(), "step": 1800}
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    (folder / "events.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    (folder / "samples.jsonl").write_bytes(b"")


def _event(
    at: datetime, resource: str, meta: dict[str, Any], change: str = "ADDED", **body: Any
) -> dict[str, Any]:
    body["metadata"] = {"namespace": "vision", **meta}
    return {"time": at.isoformat(), "type": change, "resource": resource, "object": body}


def _controlled(uid: str) -> dict[str, Any]:
    return {"uid": uid, "controller": True}


def test_work_of_a_namespace_of_nobody_is_counted_and_left_out(fleet: Cluster, written: Path) -> None:
    from apps.tenants.models import Tenant

    Tenant.objects.filter(slug="speech").update(slug="other", object_name="other")
    found = import_history(fleet, written, now=NOW)
    assert found.homeless > 0
    assert set(Workload.objects.values_list("tenant__slug", flat=True)) == {"vision"}


def test_a_past_of_half_hours_accuses_nobody(fleet: Cluster, written: Path) -> None:
    found = import_history(fleet, written, now=NOW)
    assert judged(found) == Finding.objects.count() == 0


def test_what_ended_is_judged_once_and_its_findings_are_closed(fleet: Cluster, tmp_path: Path) -> None:
    history.write(replace(PLAN, step=60), tmp_path)
    found = import_history(fleet, tmp_path, now=NOW)
    assert judged(found) == Finding.objects.count() > 0
    open_books(fleet, found.span, now=NOW)
    rollup.roll(fleet, now=NOW)
    measuring.price_workloads(found.workloads, now=NOW)
    for row in Finding.objects.select_related("workload"):
        assert row.phase == FindingPhase.RESOLVED
        assert row.closed_at == row.confirmed_at == row.work.ended_at
        assert row.closed_at
        assert row.since < row.closed_at
        assert row.evidence["figures"]["coverage"] > 0
        assert (row.wasted > 0) == (row.weekly > 0) == (row.kind in money.CAUSES)
        assert row.suggestion["words"]
        assert row.blocks == blocking.blocked_at(row.work, row.closed_at).as_json()
    saved = [row.suggestion["saving_weekly"] for row in Finding.objects.all()]
    assert any(Decimal(each) > 0 for each in saved if each)
    assert Notice.objects.count() == 0
    assert judged(found) == 0


def test_the_command_says_what_came_in_and_what_is_missing(
    fleet: Cluster,
    written: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[int] = []
    monkeypatch.setattr(progress, "note", said.append)
    call_command("import_history", str(written), "--cluster", fleet.slug, "--no-roll")
    assert said == sorted(said)
    assert (said[0], said[-1]) == (0, 100)
    assert len(said) > 3
    lines = capsys.readouterr().out.splitlines()
    assert any("0 could not be attributed" in line for line in lines)
    # In the terminal one line per ten percent at most, not a flood.
    coming = [line for line in lines if line.startswith("The history is coming in, ")]
    assert len(coming) == len(set(coming)) <= 11
    assert coming[-1] == "The history is coming in, 100 %."
    with pytest.raises(CommandError, match="has no manifest"):
        call_command("import_history", str(tmp_path), "--cluster", fleet.slug)
    with pytest.raises(CommandError, match="no cluster"):
        call_command("import_history", str(written), "--cluster", "nowhere")


def test_a_line_of_a_piece_is_cut_at_the_end_and_two_pods_of_a_device_are_one_reading() -> None:
    labels = {"UUID": "GPU-1", "Hostname": "n1", "namespace": "vision"}
    line = {
        "until": "2026-11-20T00:02:00Z", "from": "2026-11-20T00:00:30Z", "step": 30, "count": 4,
        "values": {"DCGM_FI_DEV_GPU_UTIL": [10, 20, 30, 40], "DCGM_FI_DEV_FB_USED": 100},
    }  # fmt: skip
    lines = [orjson.dumps({**line, "labels": {**labels, "pod": pod}}) for pod in ("a", "b")]
    (piece,) = files.pieces_of(lines)
    found = files.batch_of(piece, UNTIL + timedelta(seconds=100)).every()
    assert [reading.ts for reading in found] == [micros(UNTIL) + 30_000_000 * n for n in (1, 2, 3)]
    assert [reading.values[:1] for reading in found] == [(20,), (40,), (60,)]
    assert {reading.device.pods for reading in found} == {(("vision", "a"), ("vision", "b"))}
    assert files.batch_of(piece, UNTIL).count == 0
