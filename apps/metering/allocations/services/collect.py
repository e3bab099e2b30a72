"""Reads claims and pods from the mirror and writes allocations. Idempotent: equal facts make equal rows."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import CharField, DateTimeField, Exists, OuterRef, Q, QuerySet, UUIDField

from apps.cluster.mirror.rules import hardware as mirror_hardware
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects.names import LABEL_CORES
from apps.metering.allocations.rules import claim_intervals
from apps.metering.allocations.rules.claim_intervals import Claim, Fact, Shares
from apps.metering.allocations.rules.preemption import PREEMPTED, SEEN_WITHIN
from apps.metering.allocations.services import gpu_facts, kubectl_holdings, turns
from apps.metering.ledger.rules.segments import ChangeKind
from apps.metering.ledger.selectors import facts as ledger_facts
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation, HardwareFact
from apps.metering.specs import Origin, TroubleKind
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.metering.telemetry.services import issues
from apps.prepared import Prepared
from apps.quotas.catalogue.rules.drafts import CAPACITY_LABEL
from apps.quotas.kueue.observation import asked_of, limit_of
from apps.quotas.models import Offer
from apps.quotas.specs import CORE_MILLIS, CapacityType, Mechanism
from apps.workloads.models import Workload, WorkloadEvent
from apps.workloads.specs import Phase

LATE = timedelta(hours=1)
"""How long after a preemption its line in the workload's story may come."""
KNOWN_LATELY = timedelta(minutes=5)


class Touched(NamedTuple):
    """Workloads: those where what they hold changed, or what is given back of it, and those that hold on."""

    changed: set[UUID]
    steady: set[UUID]

    @property
    def workloads(self) -> set[UUID]:
        """All of them."""
        return self.changed | self.steady


def collect(cluster: Cluster, *, now: datetime) -> Touched:
    """Bring the allocations of one cluster up to what the mirror says.

    What ended counts as changed once, and for as long as its refund may not be known.
    """
    claims, pods, bare = _claims(cluster), _shares(cluster, now), _cores(cluster)
    held = {uid: claim.owner for uid, claim in claims.items()}
    held |= {pod.uid: owner for owner, pod in (*pods, *bare)}
    facts = claim_intervals.facts(claims.values()) + claim_intervals.share_facts(pod for _, pod in pods)
    facts += claim_intervals.core_facts(pod for _, pod in bare)
    changed, steady = _record(cluster, facts, _owners(held), now)
    changed |= _close_lost(cluster, now)
    gpu_facts.observe(cluster, now=now)
    troubles = [*kubectl_holdings.unpriced(cluster, now=now), *_without_start(facts)]
    known = issues.report(cluster, troubles, now=now)
    issues.resolve(cluster, [TroubleKind.NO_PRICE, TroubleKind.NO_START], still=known, now=now)
    changed |= _refunded_since(cluster, now) | _lost_with_their_gpu(cluster, now)
    return Touched(changed, steady - changed)


def _without_start(facts: Iterable[Fact]) -> list[Trouble]:
    """What is held without a word of the cluster since when, by node."""
    nodes = Counter(fact.node for fact in facts if fact.is_start_seen and fact.ended_at is None)
    return [
        Trouble(
            TroubleKind.NO_START, node, f"{count} held {'device' if count == 1 else 'devices'}: {_NO_START}"
        )
        for node, count in sorted(nodes.items())
    ]


_NO_START = (
    "the claim has no allocationTimestamp, so its time counts from when its pod began or the claim was first "
    "seen. The scheduler writes it where the feature gates DRADeviceBindingConditions and "
    "DRAResourceClaimDeviceStatus are on."
)


def _refunded_since(cluster: Cluster, now: datetime) -> set[UUID]:
    """Those that wait again, or were stopped, after a run that was priced to its end before its preemption
    was known: what it gives back would be told when they hold something again, and not while the owner asks.
    """
    moments = _PREEMPTED(cluster.pk, now - LATE)
    return {pk for pk, at, counted in moments if counted is None or counted + SEEN_WITHIN < at}


def _preempted(cluster: Any, since: Any) -> QuerySet[Any, Any]:
    lost = WorkloadEvent.objects.filter(
        source="kueue", reason=PREEMPTED, at__gte=since, workload__cluster=cluster,
        workload__phase__in=(Phase.PENDING, Phase.STARTING, Phase.STOPPED),
        workload__updated_at__gte=since,
    )  # fmt: skip
    return lost.values_list("workload", "at", "workload__cost_last_refund_end")


_PREEMPTED = Prepared(_preempted, UUIDField(), DateTimeField())


def _lost_with_their_gpu(cluster: Cluster, now: datetime) -> set[UUID]:
    """Those that ended shortly before it was known that their GPU had failed: they may be priced already."""
    return set(_LOST(cluster.pk, _FAILED(cluster.pk, now - KNOWN_LATELY), now - LATE))


def _failed(cluster: Any, since: Any) -> QuerySet[Any, str]:
    known = HardwareFact.objects.filter(cluster=cluster, kind=ChangeKind.UNHEALTHY, recorded_at__gte=since)
    return known.order_by("gpu").values_list("gpu", flat=True).distinct()


def _lost(cluster: Any, gpus: Any, late: Any) -> QuerySet[Any, UUID]:
    ended = Q(ended_at=None) | Q(ended_at__gte=late)
    rows = Allocation.objects.filter(ended, cluster=cluster, workload__isnull=False, gpu__in=gpus)
    return rows.values_list("workload", flat=True)


_FAILED = Prepared(_failed, UUIDField(), DateTimeField())
_LOST = Prepared(_lost, UUIDField(), CharField(), DateTimeField())


def _shares(cluster: Cluster, now: datetime) -> list[tuple[str, Shares]]:
    """Every pod of a workload whose offer a device plugin hands out, with the workload's id.

    RULE: what a run still holds of another offer is of its pods too: a workload that was given another offer
    has the new one while its old pod ends. Of a workload that went longer ago no pod is left.
    """
    names: defaultdict[str, set[str]] = defaultdict(set)
    for pk, name in [*_OF_PLUGINS(cluster.pk, now - clusters.KEPT), *_HELD_OF_PLUGINS(cluster.pk)]:
        names[str(pk)].add(str(name))
    rows = _pods(cluster, list(names))
    return [
        (row.owner_id, Shares(row.uid, name, limit_of(row.body, name), row.body, row.gone_at))
        for row in rows
        for name in sorted(names[row.owner_id])
    ]


def _cores(cluster: Cluster) -> list[tuple[str, Shares]]:
    """Every pod of a workload that asked for cores and no device, with the workload's id and its cores."""
    ids = {str(pk) for pk in (*_OF_CORES(cluster.pk), *_HELD_OF_CORES(cluster.pk))}
    rows = _pods(cluster, sorted(ids))
    return [
        (
            row.owner_id,
            Shares(row.uid, "cpu", -(-asked_of(row.body)[0] // CORE_MILLIS), row.body, row.gone_at),
        )
        for row in rows
        if LABEL_CORES in (row.body["metadata"].get("labels") or {})
    ]


def _works(cluster: Any, mechanism: Mechanism) -> QuerySet[Workload]:
    """Of the cluster by their offer: SQLite reads all of the workload's cluster before it looks at one's."""
    return Workload.objects.filter(offer__cluster=cluster, offer__mechanism=mechanism)


def _held(cluster: Any, mechanism: Mechanism) -> QuerySet[Allocation]:
    rows = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT, ended_at=None)
    return rows.filter(offer__mechanism=mechanism)


_OF_PLUGINS = Prepared(
    lambda cluster, since: (
        _works(cluster, Mechanism.DEVICE_PLUGIN)
        .filter(Q(deleted_at=None) | Q(deleted_at__gte=since))
        .values_list("pk", "offer__resource_name")
    ),
    UUIDField(),
    DateTimeField(),
)
_HELD_OF_PLUGINS = Prepared(
    lambda cluster: _held(cluster, Mechanism.DEVICE_PLUGIN).values_list("workload", "offer__resource_name"),
    UUIDField(),
)
_OF_CORES = Prepared(
    lambda cluster: _works(cluster, Mechanism.NODE).filter(deleted_at=None).values_list("pk", flat=True),
    UUIDField(),
)
_HELD_OF_CORES = Prepared(
    lambda cluster: _held(cluster, Mechanism.NODE).values_list("workload", flat=True), UUIDField()
)
# Without the cluster: SQLite reads all tombstones of its pods as well.
_PODS = Prepared(
    lambda cluster, owners: MirrorObject.objects.filter(
        _is_unsettled(cluster), kind="Pod", owner_id__in=owners
    ),
    UUIDField(),
    CharField(),
)


def _pods(cluster: Cluster, owners: list[str]) -> list[MirrorObject]:
    """The pods of these workloads of which the end is not recorded yet."""
    return [row for row in _PODS(cluster.pk, owners) if row.cluster_id == cluster.pk]


def _is_unsettled(cluster: Any) -> Q:
    """Of objects that hold something, what is there, and what is gone of which the end is not recorded yet.

    RULE: an allocation that has ended stays as it is, and tombstones stay for a day: read with all the
    others, they cost every look more, the more came and went that day.
    """
    recorded = Allocation.objects.filter(origin=Origin.ALLOTMENT, claim_uid=OuterRef("uid"))
    held = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT, ended_at=None)
    return Q(gone_at=None) | ~Exists(recorded) | Q(uid__in=held.values("claim_uid"))


def _claims(cluster: Cluster) -> dict[str, Claim]:
    """Every claim of a workload whose end is not recorded yet."""
    rows = _CLAIMS(cluster.pk)
    pods = _BY_UID(cluster.pk, sorted({row.controller_uid for row in rows}))
    by_uid = {pod.uid: pod for pod in pods if pod.kind == "Pod"}
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
            seen_at=row.seen_at,
        )
    return found


def _unsettled_claims(cluster: Any) -> QuerySet[MirrorObject]:
    """By id: which they are is read off indexes, and no tombstone's body with it."""
    claims = MirrorObject.objects.filter(cluster=cluster, kind="ResourceClaim")
    there = claims.filter(gone_at=None)
    gone = claims.filter(_is_unsettled(cluster), gone_at__isnull=False)
    either = there.values("pk").union(gone.values("pk"))
    return MirrorObject.objects.filter(pk__in=either, owner_kind="workload")


_CLAIMS = Prepared(_unsettled_claims, UUIDField())
# Without their kind: SQLite reads all tombstones of it as well.
_BY_UID = Prepared(
    lambda cluster, uids: MirrorObject.objects.filter(cluster=cluster, uid__in=uids),
    UUIDField(),
    CharField(),
)


def _owners(held: Mapping[str, str]) -> dict[str, Workload]:
    """The workload of each holder's uid, where it is one of ours."""
    by_id = {str(row.pk): row for row in _OWNERS(sorted(set(held.values())))}
    return {uid: by_id[owner] for uid, owner in held.items() if owner in by_id}


_OWNERS = Prepared(
    lambda pks: Workload.objects.filter(pk__in=pks).select_related("offer__flavor", "tenant"), UUIDField()
)


@transaction.atomic
def _record(cluster: Cluster, facts: list[Fact], owners: dict[str, Workload], now: datetime) -> Touched:
    rows = _RECORDED(sorted({fact.claim_uid for fact in facts}))
    known = {(row.claim_uid, row.device): row for row in rows}
    devices = clusters.devices_by_name(cluster)
    touched, spans, opened = Touched(set(), set()), [], []
    exclusive: list[Allocation] = []
    for fact in facts:
        owner, row = owners.get(fact.claim_uid), known.get((fact.claim_uid, fact.device))
        if owner is None or (row is not None and row.ended_at is not None):
            continue
        device = devices.get(fact.device)
        if row is None and _part(fact, device) is None:
            continue
        if row is None:
            row = _open(cluster, fact, owner, device)
            opened.append(row)
            spans.append((ledger_facts.gpu_of(row), row.started_at, row.ended_at or now))
        elif fact.ended_at is not None:
            Allocation.objects.filter(pk=row.pk, ended_at=None).update(ended_at=fact.ended_at)
            spans.append((ledger_facts.gpu_of(row), fact.ended_at, now))
        else:
            touched.steady.add(owner.pk)
            continue
        touched.changed.add(owner.pk)
        if not fact.is_shared:
            exclusive.append(row)
    invalidation.mark(cluster, spans)
    if opened:
        gpu_facts.begin_with(cluster, opened, now=now)
    touched.changed.update(turns.end_before_the_next(cluster, exclusive, devices))
    return touched


_RECORDED = Prepared(
    lambda uids: Allocation.objects.filter(origin=Origin.ALLOTMENT, claim_uid__in=uids), CharField()
)


def _part(fact: Fact, device: mirror_hardware.DeviceView | None) -> Fraction | None:
    """What of its device it holds; None: it is shares of one, and nothing says how large. That is no
    allocation: `in-shares` names it.
    """
    return Fraction(1) if fact.memory is None else mirror_hardware.part_of(device, fact.memory)


def _open(
    cluster: Cluster, fact: Fact, owner: Workload, device: mirror_hardware.DeviceView | None
) -> Allocation:
    part = _part(fact, device) or Fraction(1)
    in_shares = part < 1
    above, below = part.as_integer_ratio() if in_shares else _share(fact, device or owner.offer)
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
            "device_uuid": device.uuid if device and not in_shares else "",
            "gpu": _gpu(fact, device),
            "share_numerator": above,
            "share_denominator": below,
            "in_shares": in_shares,
            "units": fact.cores or 1,
            "started_at": fact.started_at,
            "is_start_seen": fact.is_start_seen,
            "ended_at": fact.ended_at,
        },
    )
    return row


def _share(fact: Fact, of: mirror_hardware.DeviceView | Offer) -> tuple[int, int]:
    """What of a GPU a whole device is; cores are nothing of one."""
    return (0, 1) if fact.cores else (of.share_numerator, of.share_denominator)


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
    touched = set()
    for row in _WITHOUT_CLAIM(cluster.pk):
        ended_at = max(row.started_at, row.work.ended_at or now)
        with transaction.atomic():
            Allocation.objects.filter(pk=row.pk).update(ended_at=ended_at)
            invalidation.mark(cluster, [(ledger_facts.gpu_of(row), ended_at, now)])
        touched.add(row.work.pk)
    return touched


def _without_claim(cluster: Any) -> QuerySet[Allocation]:
    held = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT, ended_at=None)
    known = MirrorObject.objects.filter(cluster=cluster, uid=OuterRef("claim_uid"))
    return held.filter(~Exists(known)).select_related("workload")


_WITHOUT_CLAIM = Prepared(_without_claim, UUIDField())
