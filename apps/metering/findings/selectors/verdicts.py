"""From stored samples to a verdict on a running workload: reads rows, asks the pure detector, decides nothing
else.

A workload may hold several devices, and each is judged by itself. Idle is a workload only when all of them
are; what one device's telemetry leaves open is open for the whole.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import fmean, median
from typing import Any

from django.db.models import BigIntegerField, CharField, DateTimeField, Q, QuerySet, UUIDField

from apps.metering.detector import gpu_models, trace, usage
from apps.metering.detector import judge as detector
from apps.metering.detector.judge import IDLE_FINDINGS, Verdict
from apps.metering.detector.rules import Case, Finding
from apps.metering.detector.sizing import Need
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.ledger.selectors.sample_times import Micros
from apps.metering.models import Allocation, Device, Sample
from apps.prepared import Prepared
from apps.quotas.models import Offer
from apps.quotas.specs import SharingMode
from apps.workloads.models import Workload

WINDOW = timedelta(days=4)
"""How far back samples are read: the detector calls a service abandoned after three days."""
YOUNG = timedelta(minutes=20)
"""What holds its devices for less, or for less than its policy's window, is not judged: images are still
being fetched.
"""
TOGETHER = timedelta(minutes=1)
"""The pods of one workload let go of their devices within."""
FRESH = timedelta(minutes=5)
RECENT = timedelta(hours=1)
LEAST_RECENT = 0.5
SIZED = frozenset({Finding.OVERSIZED, Finding.UNDERSIZED, Finding.WRONG_SHARING_MODE})
COLUMNS = (
    "seconds", Micros("ts"), "smi", "sm_active", "sm_occupancy", "tensor_active", "dram_active",
    "memory_used_mib", "memory_total_mib", "power_mw", "processes", "xid",
)  # fmt: skip
MILLION = 1_000_000
Span = tuple[float, float]


@dataclass(frozen=True)
class Figures:
    """Means over a device's evidence, ratios 0 to 1; None where nothing was measured."""

    sm: float | None = None
    smi: float | None = None
    tensor: float | None = None
    dram: float | None = None
    memory_mib: float | None = None
    watts: float | None = None
    work: float | None = None
    """Of the larger of SM and DRAM, sample by sample: what the effective price counts."""


@dataclass(frozen=True)
class DeviceVerdict:
    """What the detector says of one device."""

    held: Allocation
    verdict: Verdict
    coverage: float
    total_mib: float
    seen_until: datetime | None
    is_fresh: bool
    figures: Figures
    need: Need | None = None

    @property
    def label(self) -> Finding:
        """The main one."""
        return self.verdict.labels[0]


@dataclass(frozen=True)
class Judged:
    """What a workload is. `idle` are the seconds (unix) in which none of its devices did anything."""

    labels: tuple[Finding, ...]
    devices: Sequence[DeviceVerdict]
    idle: tuple[Span, ...] = ()
    idle_devices: int = 0
    begins: datetime | None = None

    @property
    def is_known(self) -> bool:
        """Whether telemetry says anything."""
        return Finding.UNKNOWN not in self.labels

    @property
    def is_fresh(self) -> bool:
        """Whether every device was seen until now, well enough to act on. Nothing is done without."""
        return self.is_known and bool(self.devices) and all(each.is_fresh for each in self.devices)

    @property
    def seen_until(self) -> datetime | None:
        """The last moment until which all devices were seen."""
        seen = [each.seen_until for each in self.devices if each.seen_until]
        return min(seen, default=None) if len(seen) == len(self.devices) else None


NOTHING = Judged((Finding.UNKNOWN,), ())
"""Of what holds no device, or has only just got one."""


def judge(row: Workload, policy: Policy, *, now: datetime) -> Judged | None:
    """The verdict on what a workload holds at `now`; None while that is nothing, or not for long enough."""
    return judge_held(_HELD(row.pk), policy, now=now, kind=str(row.kind))


def judge_ended(row: Workload, policy: Policy) -> Judged | None:
    """The verdict at the end of one that has ended, on what it held then; None as for `judge`."""
    if row.ended_at is None:
        return None
    last = row.allocations.filter(ended_at__gte=row.ended_at - TOGETHER)
    return judge_held(list(measured(last)), policy, now=row.ended_at, kind=str(row.kind))


def measured(rows: QuerySet[Allocation]) -> QuerySet[Allocation]:
    """Of these the devices, with what judging asks of them. Cores are not judged: nobody measures what they
    do.
    """
    return rows.exclude(share_numerator=0).order_by("device").select_related("tenant", "offer__flavor")


_HELD = Prepared(lambda pk: measured(Allocation.objects.filter(workload__pk=pk, ended_at=None)), UUIDField())


def judge_held(
    held: Sequence[Allocation], policy: Policy, *, now: datetime, kind: str = "job"
) -> Judged | None:
    """The verdict on the devices (`measured`) of one workload, or of one claim or pod made with kubectl; None
    as for `judge`, and where no offer is like a device.

    RULE: nobody says what is made with kubectl for, so it is judged as a job.
    """
    young = min(YOUNG, timedelta(seconds=policy.idle_seconds))
    is_new = not held or max(each.started_at for each in held) > now - young
    if is_new or any(each.offer is None for each in held):
        return None
    return combine([_device(kind, each, policy, now) for each in held], begins=now - WINDOW)


def combine(devices: Sequence[DeviceVerdict], *, begins: datetime | None = None) -> Judged:
    """RULE: unknown as soon as one device is; idle only if all are, as what most of them are; some idle and
    some not is oversized; else what half of the devices are.
    """
    idle = [each for each in devices if each.label in IDLE_FINDINGS]
    if any(each.label is Finding.UNKNOWN for each in devices):
        return Judged((Finding.UNKNOWN,), devices, begins=begins)
    if len(idle) == len(devices):
        order = [finding for finding in Finding if finding in IDLE_FINDINGS]
        count = Counter(each.label for each in devices)
        main = min(count, key=lambda label: (-count[label], order.index(label)))
        return Judged((main,), devices, _all_idle(devices), len(idle), begins)
    if idle:
        return Judged((Finding.OVERSIZED,), devices, (), len(idle), begins)
    said = Counter(label for each in devices for label in each.verdict.labels)
    labels = [label for label in Finding if 2 * said[label] >= len(devices) and label is not Finding.HEALTHY]
    spans = _all_idle(devices) if Finding.CRASH_LOOP in labels else ()
    return Judged(tuple(labels) or (Finding.HEALTHY,), devices, spans, 0, begins)


def _all_idle(devices: Sequence[DeviceVerdict]) -> tuple[Span, ...]:
    common = usage.merged(devices[0].verdict.idle)
    for each in devices[1:]:
        common = usage.without(common, usage.without(common, usage.merged(each.verdict.idle)))
    return tuple(common)


def _device(kind: str, held: Allocation, policy: Policy, now: datetime) -> DeviceVerdict:
    allocation, rows = _allocation(kind, held, policy, now), _rows(held, now)
    if not rows:
        unknown = Verdict(str(held.pk), (Finding.UNKNOWN,), (), 0.0, None, (allocation.start, allocation.end))
        return DeviceVerdict(held, unknown, 0.0, 0.0, None, is_fresh=False, figures=Figures())
    step = float(median(seconds for seconds, *_ in rows))
    seen = trace.clean(replace(allocation, step_s=step), [_sample(row) for row in rows])
    case = Case(usage.read_usage(seen))
    verdict = detector.judge_case(case)
    last = datetime.fromtimestamp(seen.samples[-1].ts, UTC) if seen.samples else None
    sized = SIZED.intersection(verdict.labels)
    return DeviceVerdict(
        held, verdict, seen.coverage, seen.total_mib, last,
        is_fresh=is_fresh(seen, now), figures=figures(seen.samples, verdict.evidence),
        need=case.need if sized else None,
    )  # fmt: skip


def offer_of(held: Allocation) -> Offer:
    """What it is charged as."""
    if held.offer is None:
        raise ValueError(f"{held.device} is like no offer")
    return held.offer


def is_fresh(seen: trace.Trace, now: datetime) -> bool:
    """RULE: a trusted sample in the last five minutes, and at least half of the last hour seen, by the
    step of the source. What a frozen exporter repeats is not trusted.
    """
    end, since = now.timestamp(), max(seen.allocation.start, (now - RECENT).timestamp())
    return seen.silent <= FRESH.total_seconds() and seen.seen(since, end) >= LEAST_RECENT


def figures(samples: Sequence[trace.Sample], window: Span) -> Figures:
    """The means over a window."""
    inside = [s for s in samples if window[0] <= s.ts <= window[1]]

    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    return Figures(
        sm=mean([s.sm for s in inside]),
        smi=mean([s.util for s in inside]),
        tensor=mean([s.tensor for s in inside]),
        dram=mean([s.dram for s in inside]),
        memory_mib=mean([s.memory for s in inside]),
        watts=mean([s.watts for s in inside]),
        work=mean([max(s.sm or 0.0, s.dram or 0.0) for s in inside if s.sm is not None]),
    )


def _allocation(kind: str, held: Allocation, policy: Policy, now: datetime) -> trace.Allocation:
    offer = offer_of(held)
    model, share = offer.flavor.model, held.share_numerator / held.share_denominator
    board = gpu_models.board_of(model)
    size = gpu_models.size_of(model, offer.profile, offer.gpu_memory_bytes / 2**20)
    exclusive = offer.sharing_mode == SharingMode.EXCLUSIVE
    since = max(held.started_at, now - WINDOW)
    return trace.Allocation(
        id=str(held.pk),
        kind=kind,
        model=model,
        sharing=trace.WHOLE if exclusive else str(offer.sharing_mode),
        profile=offer.profile,
        share=share,
        start=since.timestamp(),
        end=now.timestamp(),
        sms=size.sms if size else board.sms,
        tdp_w=board.tdp_w,
        utc_offset_h=policy.offset_hours(now),
        offsets=policy.offsets(since, now),
        office_hours=policy.office_hours(),
        idle_window_s=float(policy.idle_seconds),
    )


def _rows(held: Allocation, now: datetime) -> list[Sequence[Any]]:
    """COLUMNS of the device's samples, in order of time."""
    if not held.device_uuid:
        return []
    begins = max(held.started_at, now - WINDOW)
    return _SAMPLES(_DEVICES(held.device_uuid, held.cluster_id, begins), begins, now)


def _devices(uuid: Any, cluster: Any, since: Any) -> QuerySet[Device, int]:
    whole = Q(uuid=uuid, gpu_instance=-1)
    rows = Device.objects.filter(whole | Q(instance_uuid=uuid), cluster__pk=cluster, last_seen_at__gt=since)
    return rows.values_list("pk", flat=True)


def _samples(devices: Any, since: Any, until: Any) -> QuerySet[Sample, Any]:
    rows = Sample.objects.filter(device__pk__in=devices, ts__gt=since, ts__lte=until)
    return rows.order_by("ts").values_list(*COLUMNS)


_DEVICES = Prepared(_devices, CharField(), UUIDField(), DateTimeField())
_SAMPLES = Prepared(_samples, BigIntegerField(), DateTimeField(), DateTimeField())


def _sample(values: Sequence[Any]) -> trace.Sample:
    """A row of COLUMNS in the detector's units. Missing stays missing. Thousands are read for a verdict."""
    _, ts, smi, sm, occupancy, tensor, dram, used, total, power, processes, xid = values
    return trace.Sample(
        ts / MILLION,
        None if smi is None else smi / 100,
        None if sm is None else sm / MILLION,
        None if occupancy is None else occupancy / MILLION,
        None if tensor is None else tensor / MILLION,
        None if dram is None else dram / MILLION,
        None if used is None else float(used),
        float(total) if total else None,
        None if power is None else power / 1000,
        processes,
        xid,
    )
