"""The facts of hardware that are appended where what the cluster's GPUs are is new."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import UUIDField

from apps.cluster.mirror.rules.hardware import GPU_DRIVER
from apps.cluster.mirror.selectors import inventory as clusters
from apps.cluster.models import Cluster
from apps.metering.allocations.selectors.fleet import Wanted, fleet
from apps.metering.allocations.services import dead_gpus, kubectl_holdings, turns
from apps.metering.ledger.rules import segments
from apps.metering.ledger.rules.segments import ChangeKind, State
from apps.metering.ledger.selectors import facts
from apps.metering.ledger.services import invalidation
from apps.metering.models import Allocation, HardwareFact
from apps.metering.specs import Origin, TroubleKind
from apps.metering.telemetry.rules.sources.reading import Trouble
from apps.metering.telemetry.services import issues
from apps.prepared import Prepared

Since = Mapping[str, datetime]
_SECOND = timedelta(seconds=1)


class Said(NamedTuple):
    """What became so of a GPU; `at`: since when, where that is known by more than that it is seen now."""

    kind: ChangeKind
    value: dict[str, Any]
    at: datetime | None = None


@transaction.atomic
def observe(cluster: Cluster, *, now: datetime) -> int:
    """Append what became so of the cluster's GPUs since the last look, and mark its time; how many facts.

    RULE: a fact holds from `now` on; what is new of a GPU's being there or of its layout holds from its first
    holder on, because a claim may be seen before the node is, and that it is dead from its first word of that
    on. A claim of others ends where a workload of ours begins to hold its device. A GPU that vanished while
    somebody holds it is unhealthy; it is gone once nobody does. Of a pool of which slices are missing, the
    old view stands.
    """
    wanted = fleet(cluster)
    known = _known(cluster)
    over = _over(cluster, wanted, known)
    kubectl_holdings.keep(cluster, dict(_taken_by_kubectl(wanted)), over=_joined(over), now=now)
    held = set(_HELD(cluster.pk))
    dead = dead_gpus.found(cluster, known, now=now)
    dead_gpus.report(cluster, dead, now=now)
    _report_shares(cluster, wanted.values(), now)
    partial = _partial_pools(cluster, now)
    said: dict[str, list[Said]] = {}
    for gpu in sorted(wanted.keys() | known.keys()):
        state, xid = known.get(gpu, State()), dead[gpu].xid if gpu in dead else 0
        found = (
            _differences(state, wanted[gpu], xid, over.get(gpu, {}))
            if gpu in wanted
            else _vanished(state, xid, held=gpu in held)
        )
        if _pools_of(state) & partial:
            found = [each for each in found if gpu in wanted and each.kind not in _STRUCTURE]
        if found:
            said[gpu] = found
    first = _first_holders(cluster, said, known)
    since = {(gpu, str(kind)): at for gpu, at in first.items() for kind in _STRUCTURE}
    since |= {(gpu, str(ChangeKind.UNHEALTHY)): each.since for gpu, each in dead.items()}
    return _append(cluster, said, since, now)


def _taken_by_kubectl(
    found: Mapping[str, Wanted],
) -> Iterator[tuple[kubectl_holdings.Key, kubectl_holdings.Taken]]:
    """What of it is a tenant's and in use: the same time that the ledger gives to the tenant."""
    for gpu, wanted in found.items():
        about = wanted.present
        for uid, claim in wanted.claims.items():
            if not claim["tenant"] or claim["reserved"]:
                continue
            for device in claim["devices"]:
                where = UUID(claim["tenant"]), gpu, about["node"]
                part = int(about.get("part", 1))
                share = (wanted.layout or {}).get(device, part), int(about["denominator"])
                uuid = wanted.uuids.get(device, "")
                taken = kubectl_holdings.Taken(*where, *share, uuid=uuid)
                if device in claim.get("parts", ()):
                    of_device = Fraction(claim["parts"][device]).as_integer_ratio()
                    taken = kubectl_holdings.Taken(*where, *of_device, in_shares=True)
                yield (uid, device), taken


def _known(cluster: Cluster) -> dict[str, State]:
    found: dict[str, list[HardwareFact]] = {}
    for row in _FACTS(cluster.pk):
        found.setdefault(row.gpu, []).append(row)
    return {gpu: segments.current(facts.changes_of(rows)) for gpu, rows in found.items()}


_HELD = Prepared(
    lambda cluster: Allocation.objects.filter(
        cluster=cluster, origin=Origin.ALLOTMENT, ended_at=None
    ).values_list("gpu", flat=True),
    UUIDField(),
)
_FACTS = Prepared(lambda cluster: HardwareFact.objects.filter(cluster=cluster, outdone_at=None), UUIDField())
"""What holds; what was outdone says nothing of now."""


def _differences(state: State, wanted: Wanted, xid: int, over: Since) -> list[Said]:
    found: list[Said] = []
    if not state.present or state.value(ChangeKind.PRESENT) != wanted.present:
        found.append(Said(ChangeKind.PRESENT, wanted.present))
    layout = None if wanted.layout is None else {"instances": wanted.layout}
    if layout is not None and state.value(ChangeKind.LAYOUT) != layout:
        found.append(Said(ChangeKind.LAYOUT, layout))
    flags = (
        (wanted.cordoned, ChangeKind.CORDONED, ChangeKind.UNCORDONED),
        (wanted.reserved, ChangeKind.RESERVED, ChangeKind.UNRESERVED),
    )
    found += [Said(on if so else off, {}) for so, on, off in flags if state.is_so(on) != so]
    found += _health(state, xid, unhealthy=wanted.unhealthy or xid > 0, is_ours=wanted.is_ours)
    return found + list(_of_claims(state, wanted, over))


def _report_shares(cluster: Cluster, wanted: Iterable[Wanted], now: datetime) -> None:
    by_node: defaultdict[str, list[str]] = defaultdict(list)
    for each in wanted:
        for device, claims in sorted(each.in_shares.items()):
            by_node[each.present["node"]].append(f"{device} by {', '.join(claims)}")
    troubles = [
        Trouble(TroubleKind.IN_SHARES, node, f"{'; '.join(those)}. {_IN_SHARES}")
        for node, those in sorted(by_node.items())
    ]
    known = issues.report(cluster, troubles, now=now)
    issues.resolve(cluster, [TroubleKind.IN_SHARES], still=known, now=now)


_IN_SHARES = (
    "These claims have shares of devices that others may have too (consumable capacity), and nothing says "
    "how large: the claim consumes no memory of the device, the device publishes none, or it is a MIG slice. "
    "What the other holders leave of these devices counts as held by nobody that is known, and nobody is "
    "charged for it."
)


def _partial_pools(cluster: Cluster, now: datetime) -> set[str]:
    """The names of the pools of which slices are missing, each reported."""
    names = {name for driver, name in clusters.partial_pools(cluster) if driver == GPU_DRIVER}
    troubles = [Trouble(TroubleKind.POOL_PARTIAL, name, _PARTIAL) for name in sorted(names)]
    known = issues.report(cluster, troubles, now=now)
    issues.resolve(cluster, [TroubleKind.POOL_PARTIAL], still=known, now=now)
    return names


_PARTIAL = (
    "The DRA driver says that this pool has more ResourceSlices than it published. What was known of its "
    "GPUs stands until they are there; if that lasts, see the log of the driver's kubelet plugin on the node."
)


def _pools_of(state: State) -> set[str]:
    """Of the devices that it was last seen to have."""
    return {name.rpartition("/")[0] for name in state.instances or {}} if state.present else set()


def _of_claims(state: State, wanted: Wanted, over: Since) -> Iterator[Said]:
    """What others hold now; before that, in order, that those are over of which it is known when."""
    before = _claims_of(state)
    for uid in sorted(over, key=over.__getitem__):
        before = {other: claim for other, claim in before.items() if other != uid}
        yield Said(ChangeKind.CLAIMS, {"claims": before}, over[uid])
    claims = {uid: _as_told(claim, before.get(uid, {})) for uid, claim in wanted.claims.items()}
    if before != claims:
        yield Said(ChangeKind.CLAIMS, {"claims": claims})


def _claims_of(state: State) -> dict[str, Any]:
    """What others held of a GPU when that was last seen to change."""
    return (state.value(ChangeKind.CLAIMS) or {}).get("claims") or {}


def _over(cluster: Cluster, wanted: Mapping[str, Wanted], known: Mapping[str, State]) -> Mapping[str, Since]:
    """By GPU, which claims of others are gone though seen so only now, and since when somebody else holds one
    of their devices, or one that nobody can have beside it.
    """
    gone = {
        (gpu, device): uid
        for gpu, state in known.items()
        for uid, claim in _claims_of(state).items()
        if gpu in wanted and uid not in wanted[gpu].claims
        for device in claim["devices"]
        # Of a device in shares the next holder says nothing: others may hold it at the same time.
        if "#" not in device and device not in claim.get("parts", ())
    }
    found: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    rows = Allocation.objects.filter(
        cluster=cluster, origin=Origin.ALLOTMENT, gpu__in={gpu for gpu, _ in gone}
    )
    devices = clusters.devices_by_name(cluster) if gone else {}
    for row in rows.order_by("started_at") if gone else ():
        seen = facts.moment(known[row.gpu].changed_at(ChangeKind.CLAIMS))
        # A start is a whole second: it may lie before the look that saw the claim, which came before it.
        if row.started_at + _SECOND <= seen or (row.ended_at and row.ended_at <= seen):
            continue
        for (gpu, device), uid in gone.items():
            if gpu == row.gpu and turns.are_one(row.device, device, devices):
                found[gpu].setdefault(uid, max(row.started_at, seen))
    return found


def _joined(over: Mapping[str, Since]) -> Since:
    return {uid: at for each in over.values() for uid, at in each.items()}


def _as_told(claim: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """RULE: a UUID that was told of a claim's device holds as long as the claim does, as an allocation's."""
    uuids = {**claim.get("uuids", {}), **before.get("uuids", {})}
    return {**claim, "uuids": uuids} if uuids else claim


def _health(state: State, xid: int, *, unhealthy: bool, is_ours: bool = True) -> list[Said]:
    was_unhealthy = state.is_so(ChangeKind.UNHEALTHY)
    if not unhealthy:
        return [Said(ChangeKind.HEALTHY, {})] if was_unhealthy else []
    about: dict[str, Any] = {"xid": xid} if xid else {} if is_ours else {"is_ours": False}
    is_known = was_unhealthy and state.value(ChangeKind.UNHEALTHY) == about
    return [] if is_known else [Said(ChangeKind.UNHEALTHY, about)]


def _vanished(state: State, xid: int, *, held: bool) -> list[Said]:
    if not state.present:
        return []
    sick = _health(state, xid, unhealthy=True) if held or xid else []
    if held:
        return sick
    claims = [Said(ChangeKind.CLAIMS, {"claims": {}})] if state.claims else []
    return [*sick, Said(ChangeKind.GONE, {}), *claims]


_STRUCTURE = (ChangeKind.PRESENT, ChangeKind.LAYOUT)


def _append(
    cluster: Cluster, said: Mapping[str, list[Said]], since: Mapping[tuple[str, str], datetime], now: datetime
) -> int:
    rows = [
        HardwareFact(
            cluster=cluster,
            gpu=gpu,
            kind=each.kind,
            at=min(now, each.at or since.get((gpu, each.kind), now)),
            value=each.value,
            recorded_at=now,
        )
        for gpu, found in said.items()
        for each in found
    ]
    HardwareFact.objects.bulk_create(rows, batch_size=500)
    _outdo(cluster, {row.gpu for row in rows})
    # The bucket of `now` itself: a fact may be read later than its bucket was made.
    invalidation.mark(cluster, {(row.gpu, row.at, now + facts.MICROSECOND) for row in rows})
    return len(rows)


def _first_holders(
    cluster: Cluster, said: Mapping[str, list[Said]], known: Mapping[str, State]
) -> dict[str, datetime]:
    """When the first holder of what is new began, for GPUs whose structure changed."""
    changed = {gpu for gpu, found in said.items() if any(each.kind in _STRUCTURE for each in found)}
    first: dict[str, datetime] = {}
    rows = Allocation.objects.filter(cluster=cluster, origin=Origin.ALLOTMENT, gpu__in=changed)
    for row in rows.prefetch_related("corrections"):
        state = known.get(row.gpu, State())
        began = row.interval[0]
        old = row.device in (state.instances or {}) or (state.present and state.instances is None)
        if not old and facts.micros(began) > state.since:
            first[row.gpu] = min(began, first.get(row.gpu, began))
    return first


@transaction.atomic
def begin_with(cluster: Cluster, holders: Iterable[Allocation], *, now: datetime) -> None:
    """Let what a GPU is hold from the start of these holders, who were seen after it; append that.

    RULE: nobody is given a device that is not there. A start is the scheduler's word, in whole seconds, and a
    claim may be seen after its node; where what was known at the start had no such device, what came next and
    has it holds from then on.
    """
    rows = {row.gpu: row for row in sorted(holders, key=lambda row: row.started_at, reverse=True)}
    known: dict[str, list[HardwareFact]] = {}
    facts_of = HardwareFact.objects.filter(cluster=cluster, gpu__in=rows, kind__in=_STRUCTURE)
    for fact in facts_of.order_by("at", "pk"):
        known.setdefault(fact.gpu, []).append(fact)
    said = {gpu: _since_its_start(rows[gpu], its) for gpu, its in known.items()}
    _append(cluster, said, {}, now)


def _since_its_start(row: Allocation, known: Sequence[HardwareFact]) -> list[Said]:
    state, began = State(), facts.micros(row.started_at)
    for change in facts.changes_of(known):
        if change.at > max(began, state.since) and _has(state, row.device):
            break
        state.apply(change)
    if state.since <= began or not _has(state, row.device):
        return []
    return [Said(kind, dict(value), row.started_at) for kind in _STRUCTURE if (value := state.value(kind))]


def _has(state: State, device: str) -> bool:
    return state.present and (state.instances is None or device in state.instances)


def _outdo(cluster: Cluster, gpus: Collection[str]) -> None:
    """Tells what holds of these GPUs from what held until a later fact of its group came."""
    last: dict[tuple[str, str], HardwareFact] = {}
    outdone = []
    known = HardwareFact.objects.filter(cluster=cluster, outdone_at=None, gpu__in=gpus)
    for row in known.order_by("at", "pk"):
        group = row.gpu, segments.GROUPS.get(row.kind, row.kind)
        if before := last.get(group):
            before.outdone_at = row.at
            outdone.append(before)
        last[group] = row
    HardwareFact.objects.bulk_update(outdone, ["outdone_at"], batch_size=500)
