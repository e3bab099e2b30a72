"""Reads claims and pods from the mirror and writes allocations. Idempotent: equal facts make equal rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.cluster.mirror.rules import hardware as mirror_hardware
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.names import LABEL_CORES
from apps.metering.allocations.rules import claim_intervals
from apps.metering.allocations.rules.claim_intervals import Claim, Fact, Shares
from apps.metering.allocations.rules.preemption import PREEMPTED, SEEN_WITHIN
from apps.metering.allocations.services import gpu_facts, kubectl_holdings
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.selectors import facts as ledger_facts
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation, HardwareFact
from apps.metering.specs import Origin, TroubleKind
from apps.metering.telemetry.services import issues
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL
from apps.quotas.kueue.observation import asked_of, limit_of
from apps.quotas.specs import CORE_MILLIS, CapacityType, Mechanism
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase

LATE = timedelta(hours=1)
"""How long after a preemption its line in the workload's story may come."""
KNOWN_LATELY = timedelta(minutes=5)


def collect(cluster: Cluster, *, now: datetime) -> set[UUID]:
    """Bring the allocations of one cluster up to what the mirror says.

    Answers the workloads that hold something, or held something not yet priced to its end or not yet known
    to be refunded.
    """
    claims, pods, bare = _claims(cluster), _shares(cluster), _cores(cluster)
    held = {uid: claim.owner for uid, claim in claims.items()}
    held |= {pod.uid: owner for owner, pod in (*pods, *bare)}
    facts = claim_intervals.facts(claims.values()) + claim_intervals.share_facts(pod for _, pod in pods)
    facts += claim_intervals.core_facts(pod for _, pod in bare)
    touched = _record(cluster, facts, _owners(held), now) | _close_lost(cluster, now)
    gpu_facts.observe(cluster, now=now)
    told = issues.report(cluster, kubectl_holdings.unpriced(cluster, now=now), now=now)
    issues.resolve(cluster, [TroubleKind.NO_PRICE], still=told, now=now)
    return touched | _refunded_since(cluster, now) | _lost_with_their_gpu(cluster, now)


def _refunded_since(cluster: Cluster, now: datetime) -> set[UUID]:
    """Those that wait again, or were stopped, after a run that was priced to its end before its preemption
    was known: what it gives back would be told when they hold something again, and not while the owner asks.
    """
    since = now - LATE
    lost = WorkloadEvent.objects.filter(
        source="kueue", reason=PREEMPTED, at__gte=since, workload__cluster=cluster,
        workload__phase__in=(Phase.PENDING, Phase.STARTING, Phase.STOPPED),
        workload__updated_at__gte=since,
    )  # fmt: skip
    moments = lost.values_list("workload", "at", "workload__cost_last_refund_end")
    return {pk for pk, at, counted in moments if counted is None or counted + SEEN_WITHIN < at}


def _lost_with_their_gpu(cluster: Cluster, now: datetime) -> set[UUID]:
    """Those that ended shortly before it was known that their GPU had failed: they may be priced already."""
    known = HardwareFact.objects.filter(
        cluster=cluster, kind=ChangeKind.UNHEALTHY, recorded_at__gte=now - KNOWN_LATELY
    )
    ended = Q(ended_at=None) | Q(ended_at__gte=now - LATE)
    rows = Allocation.objects.filter(
        ended, cluster=cluster, workload__isnull=False, gpu__in=known.values("gpu")
    )
    return {row.work.pk for row in rows.select_related("workload")}


def _shares(cluster: Cluster) -> list[tuple[str, Shares]]:
    """Every pod of a workload whose offer a device plugin hands out, with the workload's id.

    RULE: what a run still holds of another offer is of its pods too: a workload that was given another offer
    has the new one while its old pod ends.
    """
    plugin = Mechanism.DEVICE_PLUGIN
    works = Workload.objects.filter(cluster=cluster, offer__mechanism=plugin)
    held = Allocation.objects.filter(
        cluster=cluster, origin=Origin.ALLOTMENT, ended_at=None, offer__mechanism=plugin
    )
    names: defaultdict[str, set[str]] = defaultdict(set)
    for pk, name in [
        *works.values_list("pk", "offer__resource_name"),
        *held.values_list("workload", "offer__resource_name"),
    ]:
        names[str(pk)].add(str(name))
    rows = MirrorObject.objects.filter(cluster=cluster, kind="Pod", owner_id__in=list(names))
    return [
        (row.owner_id, Shares(row.uid, name, limit_of(row.body, name), row.body, row.gone_at))
        for row in rows
        for name in sorted(names[row.owner_id])
    ]


def _cores(cluster: Cluster) -> list[tuple[str, Shares]]:
    """Every pod of a workload that asked for cores and no device, with the workload's id and its cores."""
    bare = {"cluster": cluster, "offer__mechanism": Mechanism.NODE}
    works = Workload.objects.filter(**bare, deleted_at=None).values_list("pk", flat=True)
    held = Allocation.objects.filter(**bare, origin=Origin.ALLOTMENT, ended_at=None)
    ids = {str(pk) for pk in (*works, *held.values_list("workload", flat=True))}
    rows = MirrorObject.objects.filter(cluster=cluster, kind="Pod", owner_id__in=ids) if ids else ()
    return [
        (
            row.owner_id,
            Shares(row.uid, "cpu", -(-asked_of(row.body)[0] // CORE_MILLIS), row.body, row.gone_at),
        )
        for row in rows
        if LABEL_CORES in (row.body["metadata"].get("labels") or {})
    ]


def _claims(cluster: Cluster) -> dict[str, Claim]:
    """Every claim of a workload, those gone since the last pruning included."""
    rows = list(MirrorObject.objects.filter(cluster=cluster, kind="ResourceClaim", owner_kind="workload"))
    pods = MirrorObject.objects.filter(
        cluster=cluster, kind="Pod", uid__in={row.controller_uid for row in rows}
    )
    by_uid = {pod.uid: pod for pod in pods}
    found = {}
    for row in rows:
        pod = by_uid.get(row.controller_uid)
        found[row.uid] = Claim(
            uid=row.uid,
            owner=row.owner_id,
            body=row.body,
            gone_at=row.gone_at,
            pod=pod.body if pod else None,
            pod_gone_at=pod.gone_at if pod else None,
        )
    return found


def _owners(held: Mapping[str, str]) -> dict[str, Workload]:
    """The workload of each holder's uid, where it is one of ours."""
    rows = Workload.objects.filter(pk__in=set(held.values())).select_related("offer__flavor", "tenant")
    by_id = {str(row.pk): row for row in rows}
    return {uid: by_id[owner] for uid, owner in held.items() if owner in by_id}


@transaction.atomic
def _record(cluster: Cluster, facts: list[Fact], owners: dict[str, Workload], now: datetime) -> set[UUID]:
    known = {
        (row.claim_uid, row.device): row
        for row in Allocation.objects.filter(
            origin=Origin.ALLOTMENT, claim_uid__in={fact.claim_uid for fact in facts}
        )
    }
    devices = {f"{d.pool}/{d.name}": d for d in clusters.devices(cluster)}
    touched, changed = set(), []
    for fact in facts:
        owner, row = owners.get(fact.claim_uid), known.get((fact.claim_uid, fact.device))
        if owner is None or (row is not None and row.ended_at is not None):
            continue
        touched.add(owner.pk)
        if row is None:
            row = _open(cluster, fact, owner, devices.get(fact.device))
            changed.append((ledger_facts.gpu_of(row), row.started_at, row.ended_at or now))
        elif fact.ended_at is not None:
            Allocation.objects.filter(pk=row.pk, ended_at=None).update(ended_at=fact.ended_at)
            changed.append((ledger_facts.gpu_of(row), fact.ended_at, now))
    invalidation.mark(cluster, changed)
    return touched


def _open(
    cluster: Cluster, fact: Fact, owner: Workload, device: mirror_hardware.DeviceView | None
) -> Allocation:
    share = device or owner.offer
    row, _ = Allocation.objects.get_or_create(
        origin=Origin.ALLOTMENT,
        claim_uid=fact.claim_uid,
        device=fact.device,
        defaults={
            "cluster": cluster,
            "tenant": owner.tenant,
            "workload": owner,
            "offer": owner.offer,
            "node": fact.node,
            "capacity": _capacity(owner, device),
            "device_uuid": device.uuid if device else "",
            "gpu": _gpu(fact, device),
            "share_numerator": 0 if fact.cores else share.share_numerator,
            "share_denominator": 1 if fact.cores else share.share_denominator,
            "units": fact.cores or 1,
            "started_at": fact.started_at,
            "ended_at": fact.ended_at,
        },
    )
    return row


def _gpu(fact: Fact, device: mirror_hardware.DeviceView | None) -> str:
    """The ledger's name of the GPU; empty for cores."""
    if device:
        return mirror_hardware.gpus([device])[0].id
    return "" if fact.cores else fact.device.partition("#")[0]


def _capacity(owner: Workload, device: mirror_hardware.DeviceView | None) -> str:
    """How the node was bought, as its label says now; a plugin's devices have their flavor's word."""
    labels = device.labels if device else owner.offer.flavor.node_labels
    found = str(labels.get(CAPACITY_LABEL, ""))
    return found if found in set(CapacityType) else ""


def _close_lost(cluster: Cluster, now: datetime) -> set[UUID]:
    """End what is open though the mirror no longer knows the claim: its tombstone was pruned unread."""
    held = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT, ended_at=None)
    touched = set()
    for row in held.exclude(claim_uid__in=_known(cluster)).select_related("workload"):
        ended_at = max(row.started_at, row.work.ended_at or now)
        with transaction.atomic():
            Allocation.objects.filter(pk=row.pk).update(ended_at=ended_at)
            invalidation.mark(cluster, [(ledger_facts.gpu_of(row), ended_at, now)])
        touched.add(row.work.pk)
    return touched


def _known(cluster: Cluster) -> Iterable[str]:
    held = MirrorObject.objects.filter(cluster=cluster, kind__in=["ResourceClaim", "Pod"])
    return held.values_list("uid", flat=True)
