"""When an allocation was used and when it idled, held against its policy.

Idle time counts when somebody could have used the device: always for jobs and services, in office hours for
notebooks. Not counted: start-up and downloads before the first work, holes in the telemetry, pauses shorter
than the policy's window, a lunch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

from apps.metering.detector import rhythm as rhythms
from apps.metering.detector.rhythm import Rhythm, Sight
from apps.metering.detector.signals import (
    BUCKET,
    UTIL_SEEN,
    Bucket,
    Proof,
    Signal,
    buckets,
    read_signals,
    spin_limit,
)
from apps.metering.detector.trace import JOB, NOTEBOOK, Allocation, Trace

Span = tuple[float, float]
DAY, HOUR = 86_400.0, 3600.0
STARTUP = 1800.0
"""Grace before the first work: images, weights, compilation."""
DOWNLOAD = 7200.0
"""The same while the device holds no memory: data is still on its way."""
LUNCH, LUNCH_FROM, LUNCH_TO = 5400.0, 11.0, 15.0
NIGHT_FROM, NIGHT_TO = 22.0, 6.0
MEMORY_STEP = 0.02
"""Share of the device's memory that somebody must load or free for it to count as activity."""
MISSED, FEWEST_MET, AS_BUSY = 0.1, 6, 0.5
"""Of the samples in which GPU_UTIL met kernels, from the first to the last that a counter saw, the part that
counters read as 0 where they are read for a moment: averages miss none but at the edges. How many of either
tell; and what GPU_UTIL reads in the missed ones at least, of what it reads in the others: a loop beside the
work is smaller.
"""


@dataclass(frozen=True)
class Usage:
    """What came of an allocation's time. Spans are in order and do not overlap."""

    trace: Trace
    buckets: Sequence[Bucket]
    signals: Sequence[Signal]
    work: Sequence[Span]
    """Proven work."""
    touches: Sequence[Span]
    """Faint activity in a person's rhythm."""
    loads: Sequence[Span]
    """Memory loaded or freed: somebody is there, though it is no work."""
    machine: Sequence[Span]
    """Faint activity in a machine's rhythm: does not count as use."""
    started: float
    """End of start-up."""
    idle: Sequence[Span]
    """Idle time that counts, in runs of at least the policy's window."""
    trailing: Sequence[Span]
    """The run of them that reaches the end; empty when there is none."""
    last_used: float | None

    @property
    def worked(self) -> float:
        """Seconds of proven work or a person's activity."""
        return sum(b - a for a, b in merged([*self.work, *self.touches]))


def merged(spans: Sequence[Span], *, bridge: float = 0.0) -> list[Span]:
    """The union of spans; those at most `bridge` apart become one."""
    made: list[Span] = []
    for a, b in sorted(spans):
        if made and a <= made[-1][1] + bridge:
            made[-1] = (made[-1][0], max(made[-1][1], b))
        elif b > a:
            made.append((a, b))
    return made


def without(spans: Sequence[Span], cuts: Sequence[Span]) -> list[Span]:
    """The parts of `spans` that no cut covers; both in order and disjoint."""
    left: list[Span] = []
    first = 0
    for a, b in spans:
        while first < len(cuts) and cuts[first][1] <= a:
            first += 1
        at, index = a, first
        while index < len(cuts) and cuts[index][0] < b:
            if cuts[index][0] > at:
                left.append((at, cuts[index][0]))
            at = max(at, cuts[index][1])
            index += 1
        if at < b:
            left.append((at, b))
    return left


def length(spans: Sequence[Span]) -> float:
    """Seconds in disjoint spans."""
    return sum(b - a for a, b in spans)


def counted_time(allocation: Allocation) -> list[Span]:
    """When idleness counts: a notebook's in office hours from Monday to Friday, local time; else always."""
    if allocation.kind != NOTEBOOK:
        return [(allocation.start, allocation.end)]
    first, last = allocation.office_hours
    # The zones of the earth are less than a day apart, and a night's hours belong to the day before.
    days = range(int(allocation.start // DAY) - 2, int(allocation.end // DAY) + 2)
    # Hours that end before they begin span midnight, and belong to the day on which they begin.
    last += 24.0 if last <= first else 0.0
    # 1970-01-01 was a Thursday.
    spans = [
        (d * DAY + first * HOUR - shift, d * DAY + last * HOUR - shift)
        for d, shift in ((d, _shift(allocation, d)) for d in days if (d + 3) % 7 < 5)
    ]
    return [
        (max(a, allocation.start), min(b, allocation.end))
        for a, b in spans
        if b > allocation.start and a < allocation.end
    ]


def _shift(allocation: Allocation, day: int) -> float:
    """Seconds that the clock is ahead of UTC on a local day: as at its noon."""
    noon = day * DAY + 12 * HOUR
    return allocation.offset_at(noon - allocation.utc_offset_h * HOUR) * HOUR


def _night(allocation: Allocation) -> rhythms.Night | None:
    """People sleep; jobs and services do not."""
    if allocation.kind != NOTEBOOK:
        return None

    def dark(ts: float) -> bool:
        hour = (ts / HOUR + allocation.offset_at(ts)) % 24
        return hour >= NIGHT_FROM or hour < NIGHT_TO

    return dark


def read_usage(trace: Trace) -> Usage:
    """Judge the whole time of a trace."""
    signals = read_signals(trace)
    found = _thinned(trace, buckets(trace, signals))
    work = _work(trace, found)
    touches, machine = _quiet(trace, found)
    touches, loads = (without(merged(spans), machine) for spans in (touches, memory_steps(trace)))
    used = merged([*work, *touches, *loads])
    started = _started(trace, used, machine)
    idle, trailing = _idle(trace, used, started)
    last = used[-1][1] if used else None
    return Usage(trace, found, signals, work, touches, loads, machine, started, idle, trailing, last)


def _thinned(trace: Trace, found: Sequence[Bucket]) -> list[Bucket]:
    """RULE: thin work that a clock makes proves nothing; its rhythm is judged as that of fainter activity."""
    made: list[Bucket] = []
    for is_thin, run in groupby(found, _is_thin):
        stretch = list(run)
        if is_thin and any(bucket.proof is Proof.WORK for bucket in stretch):
            signals = [signal for bucket in stretch for signal in bucket.signals]
            since = rhythms.ticking_since(signals, trace.step, trace.allocation.idle_window_s)
            stretch = [_demoted(bucket, since) for bucket in stretch]
        made += stretch
    return made


def _is_thin(bucket: Bucket) -> bool:
    if bucket.proof is not Proof.WORK:
        return True
    mean = sum(signal.intensity for signal in bucket.signals) / len(bucket.signals)
    return mean <= 2 * rhythms.THIN


def _demoted(bucket: Bucket, since: float | None) -> Bucket:
    clocked = bucket.proof is Proof.WORK and since is not None and bucket.end > since
    return replace(bucket, proof=Proof.FAINT) if clocked else bucket


def _work(trace: Trace, found: Sequence[Bucket]) -> list[Span]:
    """Buckets of proven work, cut to their first and last sample of it."""
    spans = []
    for bucket in found:
        if bucket.proof is Proof.WORK:
            active = [s.ts for s in bucket.signals if s.intensity > 0.002]
            spans.append((active[0] - trace.step, active[-1] + trace.step))
    edges = [(max(a, trace.allocation.start), min(b, trace.allocation.end)) for a, b in spans]
    return merged(edges, bridge=2 * trace.step)


def _quiet(trace: Trace, found: Sequence[Bucket]) -> tuple[list[Span], list[Span]]:
    """(touches, machine) of every stretch without proven work."""
    touches: list[Span] = []
    machine: list[Span] = []
    stretch: list[Signal] = []
    spin, worked = spin_limit(trace), False
    seen = (
        _night(trace.allocation),
        Sight(trace.sees_pipes, _reads_moments([s for b in found for s in b.signals])),
    )
    for bucket in [*found, None]:
        if bucket is not None and bucket.proof in (Proof.FAINT, Proof.NOTHING):
            stretch.extend(bucket.signals)
        elif bucket is None or bucket.proof is Proof.WORK:
            first, last = _edges(stretch, spin)
            _judge_stretch(trace, stretch[first:last], seen, (touches, machine))
            rest = [*(stretch[:first] if worked else ()), *(stretch[last:] if bucket else ())]
            touches += [(s.ts - trace.step, s.ts + trace.step) for s in rest]
            stretch, worked = [], True
    return touches, machine


def _reads_moments(signals: Sequence[Signal]) -> bool:
    """Whether counters read 0 again and again under such work as they see at other times."""
    met = [s for s in signals if (s.util or 0.0) >= UTIL_SEEN and not s.stuck]
    seen = [index for index, s in enumerate(met) if s.busiest > 0]
    if len(seen) < FEWEST_MET:
        return False
    missed = [s.util or 0.0 for s in met[seen[0] : seen[-1]] if not s.busiest]
    often = len(missed) >= max(FEWEST_MET, MISSED * (len(seen) + len(missed)))
    return often and median(missed) >= AS_BUSY * median(met[index].util or 0.0 for index in seen)


def _edges(stretch: Sequence[Signal], spin: float) -> tuple[int, int]:
    """Where the last seconds of the work before end, and where the first of the work after begin."""
    first, last = 0, len(stretch)
    while first < last and stretch[first].intensity > spin:
        first += 1
    while last > first and stretch[last - 1].intensity > spin:
        last -= 1
    return first, last


def _judge_stretch(
    trace: Trace,
    stretch: Sequence[Signal],
    seen: tuple[rhythms.Night | None, Sight],
    into: tuple[list[Span], list[Span]],
) -> None:
    (night, sight), (touches, machine) = seen, into
    since = rhythms.machine_since(
        stretch, trace.step, night=night, least=trace.allocation.idle_window_s, sight=sight
    )
    by_hand = stretch
    if since is not None:
        machine.append((since, stretch[-1].ts + trace.step))
        by_hand = [s for s in stretch if s.ts < since]
    if rhythms.rhythm(by_hand, trace.step) is not Rhythm.NOTHING:
        touches += [(s.ts - trace.step, s.ts + trace.step) for s in by_hand if s.active]


def memory_steps(trace: Trace) -> list[Span]:
    """Moments at which memory was loaded or freed for good: three samples before against three after."""
    known = [(s.ts, s.memory) for s in trace.samples if s.memory is not None]
    limit = MEMORY_STEP * trace.total_mib
    found = []
    for i in range(3, len(known) - 2):
        if abs(known[i][1] - known[i - 1][1]) < limit / 2 or known[i][0] - known[i - 1][0] > BUCKET:
            continue
        before, after = (median(m for _, m in part) for part in (known[i - 3 : i], known[i : i + 3]))
        if abs(after - before) >= limit:
            found.append((known[i - 1][0], known[i][0]))
    return found


def _started(trace: Trace, used: Sequence[Span], machine: Sequence[Span]) -> float:
    """The end of start-up: the first use or memory within the grace, else the grace."""
    start = trace.allocation.start
    limit = MEMORY_STEP * trace.total_mib
    held = next((s.ts for s in trace.samples if (s.memory or 0.0) >= limit), None)
    grace = STARTUP
    if trace.allocation.kind == JOB and trace.total_mib and (held is None or held - start > STARTUP):
        grace = DOWNLOAD if held is None else min(DOWNLOAD, held - start + STARTUP)
    # Whoever holds memory that is not growing any more, or runs anything, has started.
    loaded = _loaded(trace)
    signs = [*(a for a, _ in used[:1]), *(a for a, _ in machine[:1]), *([] if loaded is None else [loaded])]
    return min([start + grace, *signs])


def _loaded(trace: Trace) -> float | None:
    """The moment from which memory is held and stays as it is for two minutes."""
    known = [(s.ts, s.memory) for s in trace.samples if s.memory is not None]
    limit = MEMORY_STEP * trace.total_mib
    pairs = zip(known, known[4:], strict=False)
    return next((a for (a, low), (_, high) in pairs if low >= limit and abs(high - low) < limit / 2), None)


def _idle(trace: Trace, used: Sequence[Span], started: float) -> tuple[list[Span], list[Span]]:
    """Runs of unused counted time of at least the window, and the run that reaches the end."""
    allocation = trace.allocation
    counted = without(counted_time(allocation), trace.holes)
    runs = without([(started, allocation.end)], used)
    found: list[Span] = []
    trailing: list[Span] = []
    for a, b in runs:
        parts = [(max(a, c), min(b, d)) for c, d in counted if d > a and c < b]
        seconds = length(parts)
        ends = b >= allocation.end - trace.step
        if seconds >= max(allocation.idle_window_s, 2 * trace.step) and (
            ends or not _lunch(allocation, (a, b))
        ):
            found += parts
            trailing = parts if ends else trailing
    return merged(found, bridge=1.0), trailing


def _lunch(allocation: Allocation, span: Span) -> bool:
    """A notebook's pause in the middle of a day, with work on both sides."""
    begins = (span[0] / HOUR + allocation.offset_at(span[0])) % 24
    inside = begins >= LUNCH_FROM and begins + (span[1] - span[0]) / HOUR <= LUNCH_TO
    return allocation.kind == NOTEBOOK and inside and span[1] - span[0] <= LUNCH
