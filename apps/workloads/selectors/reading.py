"""Which workloads an actor sees, and a row in the shapes that the pure modules take. Reads only.

Visibility is the queryset: what an actor may not see is absent. Why one waits: `selectors.waiting`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import CharField, QuerySet, UUIDField

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.cluster.mirror.rules import hardware
from apps.cluster.mirror.rules.mirror_columns import moment
from apps.cluster.mirror.selectors import inventory
from apps.cluster.mirror.services import mirror_table
from apps.cluster.models import MirrorObject
from apps.cluster.specs import Observed
from apps.errors import NotFound
from apps.prepared import Prepared
from apps.quotas.catalogue.selectors.offers import offers_in
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.tenants.selectors import seen_by, sees, tenant_for
from apps.tenants.specs import QUEUE_NAME, REGISTRIES
from apps.web.requests.lookups import id_of, one
from apps.workloads import registry
from apps.workloads.cores_specs import CoresPlace, sized
from apps.workloads.manifests import rendering
from apps.workloads.manifests.pods import CONTAINER
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.secret_specs import Into, SecretKey
from apps.workloads.selectors import routing
from apps.workloads.spec import parsing
from apps.workloads.specs import (
    SIMULATION_PREFIXES,
    Kind,
    Phase,
    PlacementSpec,
    WorkloadSpec,
)
from apps.workloads.status import arrays, last_run, retries, runs, story
from apps.workloads.status.derivation import Facts
from apps.workloads.status.last_run import LastRun


@dataclass(frozen=True)
class Line:
    """One line of a workload's events: ours, or the cluster's."""

    at: datetime
    source: str
    type: str
    reason: str
    message: str


def workloads_for(actor: Actor) -> QuerySet[Workload]:
    """The workloads of the tenants an actor sees that are not gone."""
    found = Workload.objects.filter(deleted_at=None, tenant__in=seen_by(actor))
    return found.select_related(*_JOINED)


def seldom(rows: QuerySet[Workload]) -> list[Workload]:
    """These rows, of which there are mostly none: a join of eight tables takes PostgreSQL 6 ms to plan, be
    there a row or not.
    """
    return list(rows) if rows.values_list("pk", flat=True) else []


def complete(rows: Sequence[Workload]) -> None:
    """Give rows that were read alone what `workloads_for` reads with each, and the tenant's queue: every
    tenant, offer and owner is read once, however many rows share it.
    """
    tenants = {each.pk: each for each in _TENANTS(sorted({row.tenant_id for row in rows}))}
    offers = {each.pk: each for cluster in {row.cluster_id for row in rows} for each in offers_in(cluster)}
    chosen = {row.offer_id for row in rows} | {row.next_offer_id for row in rows if row.next_offer_id}
    # Those that are sold no more.
    offers |= Offer.objects.select_related("flavor").in_bulk(chosen - set(offers))
    owners = {each.pk: each for each in _OWNERS(sorted({row.owner_id for row in rows}))}
    clusters = {each.cluster_id: each.cluster for each in tenants.values()}
    Workload.join(rows, tenant=tenants, cluster=clusters, offer=offers, next_offer=offers, owner=owners)


_TENANTS = Prepared(
    lambda ids: Tenant.objects.filter(pk__in=ids).select_related("department", "cluster", "queue"),
    UUIDField(),
)
_OWNERS = Prepared(lambda ids: User.objects.filter(pk__in=ids), UUIDField())


def workload_for(actor: Actor, pk: str | UUID, tenant: str | None = None) -> Workload:
    """One workload by id, of that tenant if one is named, if the actor sees it; raises NotFound."""
    row = _WHOLE.first(id_of(pk))
    if row is None or not sees(actor, row.tenant) or tenant not in (None, row.tenant.slug):
        raise NotFound
    return row


_JOINED = ("cluster", "tenant__department", "owner", "offer__flavor", "next_offer")
_WHOLE = Prepared(
    lambda pk: Workload.objects.filter(pk=pk, deleted_at=None).select_related(*_JOINED), UUIDField()
)


def workload_named(actor: Actor, slug: str, tenant: str) -> Workload:
    """The workload with that slug in the tenant with that slug or id, if the actor sees it; raises
    NotFound.
    """
    return one(workloads_for(actor).filter(tenant=tenant_for(actor, tenant), slug=slug))


def spec_of(row: Workload) -> WorkloadSpec:
    """What is asked for now: the stored spec with the switch that stop and resume turn."""
    spec = parsing.stored(row.spec)
    return spec if spec.suspend == row.suspended else replace(spec, suspend=row.suspended)


def completed(spec: WorkloadSpec, offer: Offer) -> WorkloadSpec:
    """What is left open comes with the offer's devices, or cores; the offer is named by its slug."""
    named = replace(spec, offer=offer.slug)
    if offer.is_cores:
        cpu, memory = sized(spec.cpu_millis, spec.memory_bytes, per_core=offer.memory_bytes)
        # A count of 1 is what nothing said means.
        count = 0 if spec.count == 1 else spec.count
        named = replace(named, count=count, cpu_millis=cpu, memory_bytes=memory)
    return named.completed_with(
        cpu_millis=offer.cpu_millis,
        memory_bytes=offer.memory_bytes,
        run_seconds=settings.CONFIG.notebook_run_seconds if registry.of(spec.kind).is_leased else None,
    )


def standing_of(row: Workload) -> arrays.Standing | None:
    """How far an array is; None for what is none."""
    job = spec_of(row).job
    return arrays.standing(row.items, job.numbered) if job else None


def as_kept(row: Workload, wanted: WorkloadSpec) -> WorkloadSpec:
    """What a spec asks for as it would be stored, so that it compares with what is; of another offer, as it
    is.
    """
    if wanted.offer not in (row.offer.slug, str(row.offer_id)):
        return wanted
    before, full = spec_of(row), completed(wanted, row.offer)
    return before if full == completed(before, row.offer) else full


def spec_on(row: Workload, offer: Offer) -> WorkloadSpec:
    """What would be asked for on another offer: CPU and memory that came with the devices are the new
    offer's; what was asked for by name stays.
    """
    spec, old = spec_of(row), row.offer
    cpu = 0 if spec.cpu_millis == old.cpu_millis * spec.count else spec.cpu_millis
    memory = 0 if spec.memory_bytes == old.memory_bytes * spec.per_pod else spec.memory_bytes
    return replace(spec, offer=offer.slug, cpu_millis=cpu, memory_bytes=memory)


def next_spec(row: Workload) -> WorkloadSpec:
    """What it asks for when it starts again: on the offer that was chosen for then, if one was."""
    return spec_of(row) if row.next_offer is None else spec_on(row, row.next_offer)


def conditions_of(row: Workload) -> list[Any]:
    """What the reconcile saw, and what metering found of its use."""
    return [*row.conditions, *row.badges]


def usual_priority(row: Workload) -> int:
    """The priority it has of itself: the value of its class."""
    return spec_of(row).priority.rank


def applied_spec(row: Workload) -> WorkloadSpec:
    """The spec as manifests render it: complete, and with the lease's extension in a job's deadline."""
    spec = completed(spec_of(row), row.offer)
    if spec.max_run_seconds is None:
        return spec
    return replace(spec, max_run_seconds=spec.max_run_seconds + row.extended_seconds)


def pull_of(row: Workload) -> tuple[bool, bool]:
    """How the image of a run that begins now is pulled: whether a node may start it without asking the
    registry, and whether the pods name the tenant's pull secret.

    RULE: only what is named by digest is the same everywhere, and only kubelets that check who pulled an
    image keep it from tenants who may not have it.
    """
    is_checked = inventory.capability(row.cluster, "image-credentials").available
    return is_checked and parsing.has_digest(str(row.spec.get("image"))), row.tenant.has_registries


def place_of(row: Workload, controller: Mapping[str, Any] | None = None) -> PlacementSpec:
    """Where its objects go, beside the object that makes its pods as it is there. Only a simulator's
    annotations reach a pod, on a simulated cluster alone.
    """
    simulated = row.cluster.is_simulated
    passed = {k: v for k, v in row.labels.items() if simulated and k.startswith(SIMULATION_PREFIXES)}
    return PlacementSpec(
        workload_id=str(row.pk),
        object_name=row.object_name,
        tenant=row.tenant.slug,
        namespace=row.tenant.object_name,
        queue=QUEUE_NAME,
        named_by=named_by(controller),
        resource_name=row.offer.resource_name,
        cores=cores_of(row.offer),
        generation=row.generation,
        annotations=passed,
        keeps_image=row.keeps_image and parsing.has_digest(str(row.spec.get("image"))),
        pull_secret=REGISTRIES if row.names_pull_secret else "",
        secrets=tuple(SecretKey(name, Into(into)) for name, into in row.run_secrets),
        gateway=routing.gateway_of(row),
    )


def named_by(controller: Mapping[str, Any] | None) -> str:
    """The headless Service that names the pod of a notebook's StatefulSet; empty where it has none."""
    return str((controller or {}).get("spec", {}).get("serviceName") or "")


def cores_of(offer: Offer) -> CoresPlace | None:
    """Where the cores of an offer are; None for one of devices."""
    if not offer.is_cores:
        return None
    return CoresPlace(offer.flavor.object_name, offer.flavor.node_labels)


def facts_of(row: Workload, spec: WorkloadSpec, observed: Iterable[Observed]) -> Facts:
    """What the row and its spec say, and which devices its claims were given, for `status.derive`."""
    failure = failure_of(row)
    return Facts(
        kind=Kind(row.kind),
        generation=row.generation,
        cluster=row.cluster.slug,
        flavor=row.offer.flavor.slug,
        wanted=not row.suspended,
        deleting=row.deleting_at is not None,
        phase=Phase(row.phase),
        asked_at=row.asked_at,
        max_wait_seconds=spec.max_wait_seconds,
        conditions=row.conditions,
        started_at=row.started_at,
        ended_at=row.ended_at,
        device_ids=device_ids(row.cluster_id, observed),
        items=spec.job.numbered if spec.job else (),
        pods=spec.pods,
        has_devices=spec.count > 0,
        failures=failure.failures if failure else 0,
    )


def failure_of(row: Workload) -> LastRun | None:
    """How its last pod failed, while another is tried in its place."""
    return retries.failed_last(last_run.stored(row.last_run), row.conditions, row.generation)


def device_ids(cluster: UUID, observed: Iterable[Observed]) -> Mapping[str, str]:
    """pool/device -> uuid, from what the drivers published of the pools that the claims among these objects
    were given devices of.
    """
    claims = [seen.body for seen in observed if seen.ref.kind == "ResourceClaim"]
    pools = {pool for claim in claims for _, pool, _ in hardware.allocated(claim)}
    if not pools:
        return {}
    slices = MirrorObject.objects.filter(cluster=cluster, kind="ResourceSlice", gone_at=None)
    ours = slices.filter(body__spec__pool__name__in=sorted(pools))
    devices = hardware.devices(ours.values_list("body", flat=True))
    return {f"{device.pool}/{device.name}": device.uuid for device in devices if device.uuid}


def manifests_of(row: Workload) -> list[dict[str, Any]]:
    """The objects that a workload has, or would have if it were not stopped."""
    return rendering.render(applied_spec(row), place_of(row))


def events_of(row: Workload) -> list[Line]:
    """Our transitions and the cluster's own Events about its objects, newest first."""
    ours = [
        Line(event.at, event.source, event.type, event.reason, event.message)
        for event in WorkloadEvent.objects.filter(workload=row).order_by("-at", "-pk")[:500]
    ]
    theirs = set(cluster_events_of(row)).difference(ours)
    return sorted([*ours, *theirs], key=lambda line: line.at, reverse=True)


def cluster_events_of(row: Workload) -> list[Line]:
    """The cluster's own Events about its objects that it still has."""
    lines = map(_kubernetes_line, mirror_table.events_for(row.pk))
    return [line for line in lines if line]


def last_place(row: Workload) -> MirrorObject | None:
    """The last Kueue Workload of its that is gone, as the mirror keeps it for a while."""
    return _LAST_PLACE.first(str(row.pk))


_LAST_PLACE = Prepared(
    lambda owner: MirrorObject.objects.filter(
        owner_id=owner, kind="Workload", gone_at__isnull=False
    ).order_by("-gone_at")[:1],
    CharField(),
)


def runs_of(row: Workload) -> tuple[runs.Run, ...]:
    """The runs of its container as the mirror still knows them, newest first."""
    pods = MirrorObject.objects.filter(cluster=row.cluster_id, kind="Pod", owner_id=str(row.pk))
    return runs.runs_of(pods.values_list("body", flat=True), CONTAINER)


def _kubernetes_line(body: Mapping[str, Any]) -> Line | None:
    stamp = (
        body.get("lastTimestamp")
        or body.get("eventTime")
        or body.get("metadata", {}).get("creationTimestamp")
    )
    at = moment(stamp)
    if at is None:
        return None
    reason, message = str(body.get("reason", "")), str(body.get("message", ""))
    return Line(at, "kubernetes", str(body.get("type", "Normal")), reason, message)


def story_of(row: Workload) -> tuple[story.Step, ...]:
    """The steps from the request to its end."""
    facts = story.Facts(
        kind=Kind(row.kind),
        phase=Phase(row.phase),
        conditions=row.conditions,
        placement=row.placement,
        created_at=row.asked_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        has_devices=not row.offer.is_cores,
    )
    return story.tell(facts)


def extendable_until(row: Workload) -> datetime | None:
    """How far its lease may be pushed: the installation's longest run, counted from the start of this run."""
    return row.started_at + timedelta(seconds=settings.CONFIG.longest_run_seconds) if row.started_at else None


def countdown(row: Workload, now: datetime) -> dict[str, Any] | None:
    """When it will be stopped and why, the earliest reason; None while it does not run or has no end."""
    stop = row.first_stop
    if stop is None or row.phase != Phase.RUNNING:
        return None
    is_idle, by_hours = stop == row.idle_stops_at, stop not in (row.idle_stops_at, row.stops_at)
    told = (row.idle or {}) if is_idle else {}
    words = "its working hours end then" if by_hours else "its time is over then"
    message = str(told.get("message", "")) if is_idle else words
    return {
        "stops_at": stop,
        "reason": "Idle" if is_idle else "WorkingHours" if by_hours else "MaxRunTime",
        "message": "stopping" if stop <= now else message,
        "extendable_until": moment(told.get("extendable_until")) if is_idle else extendable_until(row),
        "left": max(stop - now, timedelta()),
        "evidence": told.get("evidence"),
    }


def port_of(row: Workload) -> int:
    """Where the pods of what opens answer."""
    spec, port = spec_of(row), registry.of(row.kind).port
    if port is None:
        raise TypeError(f"a {row.kind} has no port")
    return port(spec.block)


def endpoints(row: Workload) -> list[dict[str, Any]]:
    """Where it answers: the address of its Service inside the cluster."""
    if not registry.of(row.kind).opens or row.phase not in (Phase.STARTING, Phase.RUNNING):
        return []
    url = f"http://{row.object_name}.{row.tenant.object_name}.svc:{port_of(row)}/"
    name = "ide" if row.kind == Kind.NOTEBOOK else str(row.kind)
    return [{"name": name, "url": url, "ready": row.phase == Phase.RUNNING}]
