"""Another size of a workload that is there: offer, devices, CPU, memory, lease. Shown before it is done."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction

from apps.accounts.specs import Actor
from apps.errors import Conflict
from apps.quotas.allowances.selectors import standing
from apps.quotas.models import Offer
from apps.web.requests.rehearsals import rehearsal
from apps.workloads import registry
from apps.workloads.changes.services import writing
from apps.workloads.lifecycle.selectors import admission_check
from apps.workloads.lifecycle.selectors.admission_check import Preview
from apps.workloads.lifecycle.services import changing, idling, verbs
from apps.workloads.models import Workload
from apps.workloads.selectors import reading
from apps.workloads.specs import Phase, WorkloadChange, WorkloadSpec
from apps.workloads.waiting.rules.smaller import Smaller


@dataclass(frozen=True)
class Resize:
    """What a change of size comes to. `stops_at`: when the lease of what goes on running ends then."""

    before: WorkloadSpec
    offer_before: Offer
    hourly_before: Decimal | None
    offer: Offer
    preview: Preview
    restarts: bool
    stops_at: datetime | None

    @property
    def is_same(self) -> bool:
        """Whether it changes nothing."""
        return self.before == self.preview.spec


@transaction.atomic
def resize_workload(
    *,
    actor: Actor,
    workload: Workload,
    change: WorkloadChange,
    now: datetime,
    seen_hourly: Decimal | None = None,
) -> Workload:
    """Rule: as `update_workload`. An offer that had been chosen for its next start is given up for this."""
    row = writing.locked(actor, workload)
    writing.require_alive(row)
    if row.next_offer_id is not None:
        words = "another size was chosen"
        row = idling.choose(actor=actor, row=row, offer=row.offer, reason=words, now=now)
    return verbs.update_workload(actor=actor, workload=row, change=change, now=now, seen_hourly=seen_hourly)


@transaction.atomic
def shrink_waiting(
    *, actor: Actor, workload: Workload, to: Smaller, now: datetime, seen_hourly: Decimal | None = None
) -> Workload:
    """Asks for less of the same offer for what waits: fewer pods at once, or fewer devices.

    Rule: as `move_to_offer`; CPU and memory that came with the devices shrink with them. It is
    never made larger.
    """
    row = writing.locked(actor, workload)
    if row.phase != Phase.PENDING:
        raise Conflict("It does not wait any more.", hint="What it asks for has not changed.")
    before, wanted = reading.spec_of(row), _shrunk(row, to)
    if not 0 < wanted.devices < before.devices:
        words = f"It asks for {before.devices} devices; {wanted.devices} is not less."
        raise Conflict(words, hint="Look at its page again.")
    change = WorkloadChange(spec=wanted)
    return verbs.update_workload(actor=actor, workload=row, change=change, now=now, seen_hourly=seen_hourly)


def _shrunk(row: Workload, to: Smaller) -> WorkloadSpec:
    spec, several = reading.spec_on(row, row.offer), registry.of(row.kind).several
    if to.pods is None or not several:
        return replace(spec, count=to.count)
    block: Any = spec.block
    return replace(spec, count=to.count, block=replace(block, **{several: to.pods}))


def preview_resize(*, actor: Actor, workload: Workload, spec: WorkloadSpec, now: datetime) -> Resize:
    """What would become of it: the same checks and refusals, and nothing is kept."""
    row, before = workload, reading.completed(reading.spec_of(workload), workload.offer)
    prices = standing.prices(row.tenant, now=now)
    price, restarts = prices.get(row.offer_id), changing.needs_restart(row, spec)
    held = changing.held(row, spec)
    with rehearsal():
        wanted = WorkloadChange(spec=spec, restart=True)
        after = resize_workload(actor=actor, workload=row, change=wanted, now=now)
        ask = admission_check.check(after.tenant, reading.spec_of(after), now=now, held=held)
        preview = admission_check.preview(ask, reading.place_of(after), now=now)
    return Resize(
        before=before,
        offer_before=row.offer,
        hourly_before=None if price is None else price * before.devices,
        offer=ask.offer,
        preview=preview,
        restarts=restarts,
        stops_at=None if restarts else _stops_at(row, preview.spec),
    )


def _stops_at(row: Workload, spec: WorkloadSpec) -> datetime | None:
    if row.started_at is None or row.stops_at is None or spec.max_run_seconds is None:
        return None
    return row.started_at + timedelta(seconds=spec.max_run_seconds + row.extended_seconds)
