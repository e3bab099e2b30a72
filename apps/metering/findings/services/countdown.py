"""The countdown of an idle finding: begins it, takes it back, tells those whom it concerns.

Works on a locked row in the caller's transaction, saves nothing: `stops_at` is the whole state, so the next
worker goes on where one was killed. Without telemetry there is no countdown, whoever began it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from apps.metering.findings.rules import messages as words
from apps.metering.findings.rules.idle_policy import STOPPED, Policy
from apps.metering.findings.selectors import finding_selectors as selectors
from apps.metering.models import Finding
from apps.metering.specs import FindingPhase
from apps.notices import services as notices
from apps.notices.specs import Kind
from apps.quotas.specs import Priority
from apps.quotas.wake.selectors import audience
from apps.workloads.opening.rules.ide_activity import Activity
from apps.workloads.selectors.reading import spec_of

WARNING = timedelta(minutes=30)
"""The countdown that a person begins."""
SPARED = 2
"""Times the policy's idle time, before a countdown begins under code that runs."""


def settle(row: Finding, policy: Policy, *, fresh: bool, now: datetime) -> None:
    """RULE: a countdown runs exactly while nothing hinders it; taken back, it begins from its full length."""
    why = hindrance(row, policy, fresh=fresh)
    if why:
        take_back(row, why, now=now)
    elif row.stops_at is None and not is_spared(row, policy):
        begin(row, policy, policy.stop_at(now), now=now)


def is_spared(row: Finding, policy: Policy) -> bool:
    """Whether a countdown does not begin yet: a kernel runs code, or a terminal or shell is in use.

    RULE: code that uses no GPU is not a forgotten tab, so it gets twice the policy's idle time. No more: what
    an IDE says is the tenant's own word. What it does not say changes nothing, and no countdown ends by it.
    """
    ide, idle = row.evidence.get("ide"), row.evidence.get("idle_seconds", 0)
    works = row.evidence.get("in_shell") or (ide and Activity.of_json(ide).is_at_work)
    return bool(works) and idle < SPARED * policy.idle_seconds


def hindrance(row: Finding, policy: Policy, *, fresh: bool) -> str:
    """Why it may not be stopped, in words; "" when it may."""
    if not fresh:
        return words.NO_TELEMETRY
    if row.kind not in STOPPED:
        return "this kind of finding stops nothing"
    if row.phase != FindingPhase.OPEN:
        return "it was answered"
    if spec_of(row.work).priority is Priority.PROTECTED:
        return "protected work is never stopped for being idle"
    if row.warned_by:
        return ""
    if not policy.stops:
        return "the idle policy stops nothing"
    return "" if row.confirmed_at else "it has to be seen twice"


def begin(row: Finding, policy: Policy, stops_at: datetime, *, now: datetime) -> None:
    """Starts the clock, and warns owner and leads."""
    row.stops_at = stops_at
    tell(row, Kind.IDLE_WARNED, warning(row, policy), now=now)


def warning(row: Finding, policy: Policy) -> str:
    """The words of the countdown: in a message, on a page and in REST alike; "" while none runs."""
    if row.stops_at is None:
        return ""
    said = selectors.said_of(row)
    left = selectors.extensions_left(row, policy)
    why = words.reason(said)
    return words.will_stop(said.name, row.stops_at, why, extension=policy.extension_seconds, left=left)


def take_back(row: Finding, why: str, *, now: datetime) -> None:
    """Ends the countdown without a stop; who was warned is told."""
    if row.stops_at is None:
        return
    row.stops_at, row.warned_by = None, ""
    tell(row, Kind.IDLE_TAKEN_BACK, words.taken_back(row.work.name, why), now=now)


def tell(row: Finding, kind: Kind, message: str, *, now: datetime, leads: bool = True) -> None:
    """A message to the workload's owner and the tenant's leads, leading to the finding; of what was made with
    kubectl, which nobody knows whose it is, to all of the tenant.
    """
    own = [row.workload.owner_id] if row.workload else audience.members(row.tenant)
    people: Iterable[UUID] = [*own, *(audience.leads(row.tenant) if leads else ())]
    url = selectors.url_of(row)
    notices.tell(people, kind=kind, message=message, url=url, at=now, tenant=row.tenant.slug)
