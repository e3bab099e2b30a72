"""Brings a written past into an installation: through the ledger, the ingest and the roll-up of the present.

For the demo, and for whoever moves from another system and can write its past in these files.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid5

import orjson
from django.db import transaction

from apps.accounts.models import User
from apps.cluster.mirror.rules import hardware as mirror_hardware
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.metering.allocations.rules import claim_intervals
from apps.metering.allocations.services import gpu_facts
from apps.metering.history.rules import files
from apps.metering.history.rules.files import Work
from apps.metering.history.services.helpers import Helpers
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation, HardwareFact, RollPosition
from apps.metering.specs import Origin, Source
from apps.metering.telemetry.services.ingest import Ingested, store
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL
from apps.quotas.catalogue.selectors.stock import is_of
from apps.quotas.models import Offer, Price
from apps.quotas.specs import CapacityType
from apps.tenants.models import Membership, Tenant
from apps.workloads.models import Workload
from apps.workloads.spec.parsing import as_json, parse
from apps.workloads.specs import Kind, Phase

IMPORTED = "imported"
"""The label of work that was brought in."""
AT_ONCE = 100
_STRUCTURE = (ChangeKind.PRESENT, ChangeKind.LAYOUT)
_OUTCOMES = {"Complete": Phase.SUCCEEDED, "Failed": Phase.FAILED}


@dataclass(frozen=True)
class Span:
    """What is imported: [begins, ends), with samples every `step`."""

    begins: datetime
    ends: datetime
    step: timedelta


@dataclass
class Imported:
    """What came in; `homeless` work ran in namespaces of no tenant, or on devices that nobody knows."""

    span: Span
    workloads: dict[UUID, datetime]
    allocations: int
    homeless: int
    samples: Ingested


@dataclass(frozen=True)
class _Fleet:
    """What work of the past is matched with."""

    cluster: Cluster
    tenants: Mapping[str, Tenant]
    owners: Mapping[UUID, User]
    """The first member of each tenant."""
    members: Mapping[tuple[UUID, str], User]
    """By tenant and username."""
    devices: Mapping[str, mirror_hardware.DeviceView]
    offers: Mapping[str, Offer]


@dataclass(frozen=True)
class _Mine:
    """Work that is somebody's, and what it held."""

    pk: UUID
    work: Work
    tenant: Tenant
    owner: User
    facts: Sequence[claim_intervals.Fact]


def span_of(cluster: Cluster, folder: Path) -> Span:
    """The time of a written past, cut where this installation's own begins: one time has one ledger."""
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    begins, ends = (datetime.fromisoformat(manifest[name]) for name in ("from", "until"))
    own = HardwareFact.objects.filter(cluster=cluster, at__gt=begins)
    first = own.order_by("at").values_list("at", flat=True).first()
    held = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT).exclude(
        workload__labels__has_key=IMPORTED
    )
    row = held.order_by("started_at").values_list("started_at", flat=True).first()
    known = [ends, *(at for at in (first, row) if at is not None)]
    return Span(begins, max(begins, min(known)), timedelta(seconds=int(manifest["step"])))


def import_history(
    cluster: Cluster,
    folder: Path,
    *,
    now: datetime,
    helpers: Helpers | None = None,
    tell: Callable[[float], None] = lambda _: None,
    seen: Callable[[UUID], None] = lambda _: None,
) -> Imported:
    """Work and samples of a folder; again it changes nothing. `now` is when it is recorded, `tell` hears the
    share of the samples that is in, and `seen` each workload whose samples are all in.

    RULE: work belongs to the tenant in whose namespace (or under whose slug) it ran, and there to the member
    whom its annotation `allotment.dev/submitted-by` names, else to the first; it appears as finished. Prices
    are taken to have held since the past began where there was none. The ledger learns of it by `open_books`,
    once it is judged.
    """
    span = span_of(cluster, folder)
    with transaction.atomic():
        gpu_facts.observe(cluster, now=now)
        _extend_prices(cluster, span)
    with (folder / "events.jsonl").open("rb") as lines:
        found = files.work_of(lines)
    made = _import_all(_fleet(cluster), found, span)
    workloads = {row.pk: row.ended_at or span.ends for row in made if row is not None}
    allocations, total = Allocation.objects.filter(workload__in=workloads).count(), Ingested()
    ended = deque(sorted(workloads, key=workloads.__getitem__))
    for until, stored in _samples(cluster, folder, span, helpers or Helpers(0)):
        total += stored
        while ended and workloads[ended[0]] <= until:
            seen(ended.popleft())
        tell((until - span.begins) / (span.ends - span.begins))
    for pk in ended:
        seen(pk)
    return Imported(span, workloads, allocations, made.count(None), total)


def open_books(cluster: Cluster, span: Span, *, now: datetime) -> None:
    """Has all of a past that is in rolled up, once.

    RULE: the fleet is taken to have been as it is first known here.
    """
    with transaction.atomic():
        invalidation.mark(cluster, _extend_hardware(cluster, span, now))
        RollPosition.objects.filter(cluster=cluster, since__gt=span.begins).update(since=span.begins)


def _import_all(fleet: _Fleet, found: Sequence[Work], span: Span) -> list[Workload | None]:
    """RULE: a few in each transaction: where one writes at a time, the present must get its turn."""
    made: list[Workload | None] = []
    for first in range(0, len(found), AT_ONCE):
        with transaction.atomic():
            made += _import(fleet, found[first : first + AT_ONCE], span)
    return made


def _samples(
    cluster: Cluster, folder: Path, span: Span, helpers: Helpers
) -> Iterator[tuple[datetime, Ingested]]:
    """Stores piece after piece; until when, and what became of it.

    RULE: judged by the end of the past, not by today: it may be older than samples are kept.
    """
    with (folder / "samples.jsonl").open("rb") as lines:
        read = partial(files.batch_of, until=span.ends)
        for batch in helpers.ahead(read, files.pieces_of(lines)):
            if not batch.count:
                return
            yield batch.until, store(cluster, batch, source=Source.HISTORY, now=span.ends, is_marked=False)


def _extend_hardware(cluster: Cluster, span: Span, now: datetime) -> list[invalidation.Stretch]:
    """What is first known of each GPU's being there and of its layout holds since the past began.

    Answers the time that this changes, GPU by GPU: the past, and what lies between it and the first look,
    which may be rolled up already as a time in which there was no such GPU.
    """
    first: dict[tuple[str, str], HardwareFact] = {}
    for row in HardwareFact.objects.filter(cluster=cluster, kind__in=_STRUCTURE).order_by("at", "pk"):
        first.setdefault((row.gpu, row.kind), row)
    HardwareFact.objects.bulk_create(
        HardwareFact(
            cluster=cluster, gpu=gpu, kind=kind, at=span.begins, value=row.value, recorded_at=now,
        )
        for (gpu, kind), row in first.items()
        if row.at > span.begins
    )  # fmt: skip
    until: dict[str, datetime] = {}
    for (gpu, _), row in first.items():
        until[gpu] = max(span.ends, row.at, until.get(gpu, span.ends))
    return [invalidation.Stretch(gpu, span.begins, at) for gpu, at in sorted(until.items())]


def _extend_prices(cluster: Cluster, span: Span) -> None:
    """An offer's first price is taken to have held before; no price that there was is changed."""
    for offer in Offer.objects.filter(cluster=cluster):
        first = Price.objects.filter(offer=offer, tenant=None, capacity="").order_by("valid_from").first()
        if first is not None and first.valid_from > span.begins:
            Price.objects.create(
                offer=offer, hourly=first.hourly, currency=first.currency, valid_from=span.begins,
                least_seconds=first.least_seconds, created_by="import",
            )  # fmt: skip


def _fleet(cluster: Cluster) -> _Fleet:
    tenants = {}
    for tenant in Tenant.objects.filter(cluster=cluster, deleted_at=None):
        tenants[tenant.slug] = tenants[tenant.object_name] = tenant
    members = Membership.objects.filter(tenant__in=tenants.values()).select_related("user").order_by("-pk")
    owners = {each.tenant_id: each.user for each in members}
    by_name = {(each.tenant_id, each.user.username): each.user for each in members}
    devices = clusters.devices_by_name(cluster)
    offers = list(Offer.objects.filter(cluster=cluster, deleted_at=None).select_related("flavor"))
    by_device = {name: offer for name, device in devices.items() for offer in offers if is_of(device, offer)}
    return _Fleet(cluster, tenants, owners, by_name, devices, by_device)


def _import(fleet: _Fleet, found: Sequence[Work], span: Span) -> list[Workload | None]:
    """Jobs and StatefulSets with what they held, None for what cannot be anybody's."""
    mine = [_mine(fleet, work, span) for work in found]
    known = [each for each in mine if each is not None]
    rows = _workloads(fleet, known)
    held = [
        _allocation(fleet, each, fact, row=rows[each.pk], ends=span.ends)
        for each in known
        for fact in each.facts
    ]
    # What was brought in before stays.
    Allocation.objects.bulk_create(held, ignore_conflicts=True)
    return [rows[each.pk] if each else None for each in mine]


def _mine(fleet: _Fleet, work: Work, span: Span) -> _Mine | None:
    """RULE: its id follows from the object's uid, so that a second import finds it."""
    tenant = fleet.tenants.get(work.namespace)
    first = fleet.owners.get(tenant.pk) if tenant else None
    owner = fleet.members.get((tenant.pk, work.person), first) if tenant else None
    facts = [f for f in claim_intervals.facts(files.cut(work.claims, span.ends)) if f.started_at < span.ends]
    facts = [fact for fact in facts if fact.device in fleet.offers]
    if tenant is None or owner is None or not facts:
        return None
    return _Mine(uuid5(fleet.cluster.pk, work.uid), work, tenant, owner, facts)


def _allocation(
    fleet: _Fleet, mine: _Mine, fact: claim_intervals.Fact, *, row: Workload, ends: datetime
) -> Allocation:
    """RULE: each device is charged as the offer that it is of; a retry may have run on another than the
    first.
    """
    device, ended_at = fleet.devices[fact.device], min(fact.ended_at or ends, ends)
    return Allocation(
        origin=Origin.ALLOTMENT, claim_uid=fact.claim_uid, device=fact.device, cluster=fleet.cluster,
        tenant=mine.tenant, workload=row, offer=fleet.offers[fact.device], node=fact.node,
        capacity=_capacity(device), device_uuid=device.uuid, gpu=mirror_hardware.gpus([device])[0].id,
        share_numerator=device.share_numerator, share_denominator=device.share_denominator,
        started_at=fact.started_at, ended_at=max(fact.started_at, ended_at),
    )  # fmt: skip


def _workloads(fleet: _Fleet, mine: Sequence[_Mine]) -> dict[UUID, Workload]:
    """The rows of work by id; what is not there yet is made, with the times of the past."""
    rows = Workload.objects.in_bulk([each.pk for each in mine])
    same = Workload.objects.filter(slug__in={names.slugify(each.work.name) for each in mine}, deleted_at=None)
    taken = set(same.values_list("tenant", "slug"))
    new = []
    for each in mine:
        if each.pk not in rows:
            row = rows[each.pk] = _workload(fleet, each, taken)
            taken.add((each.tenant.pk, row.slug))
            new.append(row)
    Workload.objects.bulk_create(new)
    for row in new:
        row.created_at, row.updated_at = row.asked_at, row.ended_at or row.asked_at
    Workload.objects.bulk_update(new, ["created_at", "updated_at"])
    return rows


def _workload(fleet: _Fleet, mine: _Mine, taken: Container[tuple[UUID, str]]) -> Workload:
    work, facts = mine.work, mine.facts
    offer = fleet.offers[facts[0].device]
    kind = Kind.JOB if work.kind == "Job" else Kind.NOTEBOOK
    document = parse({"kind": str(kind), "offer": offer.slug, "image": _image(work)}).completed_with(
        cpu_millis=offer.cpu_millis,
        memory_bytes=offer.memory_bytes,
        run_seconds=8 * 3600 if kind is Kind.NOTEBOOK else None,
    )
    phase = _OUTCOMES.get(work.outcome, Phase.STOPPED)
    slug = names.slugify(work.name)
    if (mine.tenant.pk, slug) in taken:
        slug = f"{slug[:32].rstrip('-')}-{uuid5(mine.tenant.pk, work.name).hex[:7]}"
    return Workload(
        id=mine.pk, cluster=fleet.cluster, tenant=mine.tenant, owner=mine.owner, slug=slug,
        name=work.name, labels={IMPORTED: "true"}, kind=kind, offer=offer, spec=as_json(document),
        suspended=phase is Phase.STOPPED, object_name=names.object_name(work.name, mine.pk), phase=phase,
        asked_at=work.asked_at, started_at=min(fact.started_at for fact in facts),
        ended_at=max(fact.ended_at or fact.started_at for fact in facts), observed_generation=1,
    )  # fmt: skip


def _image(work: Work) -> str:
    containers = (((work.body.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers")
    return str(containers[0]["image"]) if containers else "unknown"


def _capacity(device: mirror_hardware.DeviceView) -> str:
    """How the device's node was bought, as its label says now."""
    found = str(device.labels.get(CAPACITY_LABEL, ""))
    return found if found in set(CapacityType) else ""
