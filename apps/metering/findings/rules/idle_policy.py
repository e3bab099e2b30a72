"""What a tenant does with idle work, on its own clock: when a countdown ends, when none may. Pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from apps.errors import FieldProblem
from apps.metering.specs import FindingKind, IdleMode
from apps.ranges import COUNTDOWN_SECONDS, IDLE_FOR_SECONDS, OWN_EXTENSIONS
from apps.workloads.hours_specs import is_zone
from apps.workloads.specs import IdleAction, IdleWish

STOPPED = frozenset({FindingKind.HOARDER, FindingKind.ZOMBIE, FindingKind.EVASION, FindingKind.FORGOTTEN})
"""Only these are ever stopped; of the others people are told."""
NOTICE = timedelta(minutes=5)
"""What is stopped at once is still told this long before, so that work can be saved."""
DAYS = timedelta(days=1)
BOUNDS = {
    "idle_seconds": IDLE_FOR_SECONDS,
    "countdown_seconds": COUNTDOWN_SECONDS,
    "extension_seconds": IDLE_FOR_SECONDS,
    "most_extensions": OWN_EXTENSIONS,
}
Hours = tuple[time, time]
OFFICE: Hours = (time(9), time(18))


@dataclass(frozen=True)
class Policy:
    """An idle policy: durations in seconds, hours on the clock of `time_zone`, `quiet` may span midnight."""

    mode: IdleMode = IdleMode.COUNTDOWN
    idle_seconds: int = 3600
    countdown_seconds: int = 1800
    extension_seconds: int = 7200
    most_extensions: int = 2
    quiet: Hours | None = None
    office: Hours | None = None
    time_zone: str = "UTC"

    @property
    def stops(self) -> bool:
        """Whether what stays idle is stopped in the end."""
        return self.mode in (IdleMode.COUNTDOWN, IdleMode.STOP)

    @property
    def extensions(self) -> int:
        """How often the owner may put a stop off; one that comes at once cannot be."""
        return 0 if self.mode is IdleMode.STOP else self.most_extensions

    def local(self, at: datetime) -> datetime:
        """The moment on the tenant's clock."""
        return at.astimezone(ZoneInfo(self.time_zone))

    def offset_hours(self, at: datetime) -> float:
        """What the clock is ahead of UTC at that moment."""
        return (self.local(at).utcoffset() or timedelta()).total_seconds() / 3600

    def offsets(self, begins: datetime, ends: datetime) -> tuple[tuple[float, float], ...]:
        """`offset_hours` at the noon of each local day of [begins, ends] as (unix seconds of its midnight,
        hours); empty where the clock never changes.
        """
        zone, day, found = ZoneInfo(self.time_zone), self.local(begins).date() - DAYS, []
        while day <= self.local(ends).date() + DAYS:
            noon = datetime.combine(day, time(12), zone)
            midnight = datetime.combine(day, time(), zone)
            found.append((midnight.timestamp(), self.offset_hours(noon)))
            day += DAYS
        return tuple(found) if len({hours for _, hours in found}) > 1 else ()

    def office_hours(self) -> tuple[float, float]:
        """As the detector takes them: hours of the day."""
        first, last = self.office or OFFICE
        return first.hour + first.minute / 60, last.hour + last.minute / 60

    def is_quiet(self, at: datetime) -> bool:
        """Whether nothing may be stopped at this moment: the clock on the wall decides."""
        if self.quiet is None:
            return False
        begins, ends = self.quiet
        now = self.local(at).time()
        return begins <= now < ends if begins < ends else now >= begins or now < ends

    def allowed(self, at: datetime) -> datetime:
        """The moment, or the end of the quiet hours that it lies in; never earlier.

        Where the clocks change inside the quiet hours, the end is the first moment after `at` at which the
        wall shows their end; an hour that is skipped ends them late rather than early.
        """
        if self.quiet is None or not self.is_quiet(at):
            return at
        zone, today = ZoneInfo(self.time_zone), self.local(at).date()
        ends = [
            datetime.combine(today + timedelta(days=days), self.quiet[1], zone).replace(fold=fold)
            for days in range(3)
            for fold in (0, 1)
        ]
        later = (end.astimezone(UTC) for end in ends)
        return min(end for end in later if end > at and not self.is_quiet(end))

    def stop_at(self, now: datetime) -> datetime:
        """When what is found idle now is stopped."""
        wait = NOTICE if self.mode is IdleMode.STOP else timedelta(seconds=self.countdown_seconds)
        return self.allowed(now + wait)

    def extended(self, stops_at: datetime) -> datetime:
        """The end of a countdown after one extension."""
        return self.allowed(stops_at + timedelta(seconds=self.extension_seconds))


_MODES = {
    IdleAction.STOP: IdleMode.COUNTDOWN,
    IdleAction.WARN: IdleMode.ASK,
    IdleAction.NONE: IdleMode.TELL,
}


def for_workload(policy: Policy, wish: IdleWish | None, *, as_given: bool) -> Policy:
    """What holds for one workload of a team. RULE: what a lead wishes counts `as_given`; what a member does,
    only where it is stricter than the team's policy. Who wishes a stop gets the team's own kind of it.
    """
    if wish is None:
        return policy
    order, mode = list(IdleMode), _MODES[wish.action]
    seconds = wish.for_seconds or policy.idle_seconds
    if not as_given:
        seconds = min(seconds, policy.idle_seconds)
    if not as_given or wish.action is IdleAction.STOP:
        mode = max(mode, policy.mode, key=order.index)
    return replace(policy, mode=mode, idle_seconds=seconds)


def problems_of(policy: Policy) -> list[FieldProblem]:
    """Every reason why a policy cannot be kept, with pointers into `spec`."""
    found = []
    for name, bounds in BOUNDS.items():
        if not bounds.holds(getattr(policy, name)):
            words = f"Must be from {bounds.least} to {bounds.most}."
            found.append(FieldProblem(f"/spec/{name}", "out_of_range", words))
    if policy.quiet is not None and policy.quiet[0] == policy.quiet[1]:
        words = "Quiet hours cannot begin and end at the same time: nothing could ever be stopped."
        found.append(FieldProblem("/spec/quiet_to", "invalid_value", words))
    if policy.office is not None and not policy.office[0] < policy.office[1]:
        found.append(
            FieldProblem("/spec/office_to", "invalid_value", "Office hours must end after they begin.")
        )
    if not is_zone(policy.time_zone):
        words = "Name a time zone of the IANA list, such as Europe/Berlin."
        found.append(FieldProblem("/spec/time_zone", "invalid_value", words))
    return found
