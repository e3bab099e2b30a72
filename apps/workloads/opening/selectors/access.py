"""Whether somebody may open a workload, whether it can be opened now, and who has come in. Reads only."""

from collections.abc import Collection, Hashable, Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.conf import settings

from apps.accounts.actors import Credential
from apps.accounts.specs import Actor
from apps.accounts.tokens import digest
from apps.errors import Conflict, DomainError, NotAllowed
from apps.tenants.selectors import role_of
from apps.workloads import policies, registry
from apps.workloads.models import Opening, Workload
from apps.workloads.selectors.reading import workload_for
from apps.workloads.specs import OpenTo, Phase

AWAITED = (Phase.PENDING, Phase.STARTING, Phase.STOPPING, Phase.STOPPED)
NO_DOOR = "This installation has no door to notebooks."
SET_A_DOOR = "Ask a platform engineer to set ALLOTMENT_APPS_URL."
_HINTS = {
    Phase.STOPPED: "Start it again first.",
    Phase.SUCCEEDED: "Make a new one like it.",
    Phase.FAILED: "Make a new one like it.",
    Phase.DELETING: "It does not come back.",
}


def require_open(actor: Actor, row: Workload) -> None:
    """Raises NotAllowed unless the actor opens this workload, whenever it runs."""
    if not policies.can_open(actor, row):
        words = f"Only its owner, {row.owner.shown_name}, opens it."
        raise NotAllowed(words, hint="The owner can open it to the team.")


def refusal(actor: Actor, row: Workload) -> DomainError | None:
    """Why the actor cannot open it now; None where they can."""
    return ended(actor, row) or (None if row.phase == Phase.RUNNING else _not_ready(Phase(row.phase)))


def is_awaited(actor: Actor, row: Workload) -> bool:
    """Whether the actor opens it once it runs: it is on its way, or may be started again."""
    return Phase(row.phase) in AWAITED and _never(actor, row) is None


def ended(actor: Actor, row: Workload) -> DomainError | None:
    """Why the actor cannot stay inside, nor a program of theirs come in; None where they can."""
    return _never(actor, row) or not_on(row)


def _never(actor: Actor, row: Workload) -> DomainError | None:
    """Why the actor does not open it, however it stands."""
    try:
        require_open(actor, row)
    except NotAllowed as refused:
        return refused
    if not registry.of(row.kind).opens:
        return Conflict(f"A {row.kind} has no page to open.", hint="Read its log.")
    if settings.CONFIG.apps is None:
        return Conflict(NO_DOOR, hint=SET_A_DOOR)
    return None


def not_on(row: Workload) -> DomainError | None:
    """Why nobody is inside at present; None where somebody can be.

    RULE: what is replaced pod by pod stays open while none of its pods is ready; that none answers is for
    the door to say. Anything else that starts is another run.
    """
    phase = Phase(row.phase)
    is_on = phase is Phase.RUNNING or (phase is Phase.STARTING and _is_replaced_by_pod(row))
    return None if is_on else _not_ready(phase)


def run_of(row: Workload) -> Hashable:
    """What ends with the run that somebody is inside. Pods that come and go are no other run: only the end of
    all of them ends what is open.
    """
    return None if _is_replaced_by_pod(row) else row.started_at


def _is_replaced_by_pod(row: Workload) -> bool:
    return bool(registry.of(row.kind).rolls)


def _not_ready(phase: Phase) -> DomainError:
    words = f"It is not ready: {phase.label.lower()}."
    return Conflict(words, hint=_HINTS.get(phase, "Open it once it runs."))


def openable(actor: Actor, rows: Iterable[Workload]) -> set[UUID]:
    """Those that the actor can open now; what rows of one tenant share is asked once."""
    if settings.CONFIG.apps is None:
        return set()
    runs = [row for row in rows if registry.of(row.kind).opens and row.phase == Phase.RUNNING]
    mine = [row for row in runs if row.owner_id == actor.user_id or row.open_to == OpenTo.TEAM]
    seen: dict[tuple[UUID, bool], bool] = {}
    for row in mine:
        key = row.tenant_id, row.owner_id == actor.user_id
        if key not in seen:
            seen[key] = policies.can_open(actor, row)
    return {row.pk for row in mine if seen[row.tenant_id, row.owner_id == actor.user_id]}


def right(actor: Actor, workload: UUID, ends_at: datetime, now: datetime) -> Hashable:
    """What a way in hangs on; raises as opening does, once it would be refused now or its time is over."""
    row = workload_for(actor, workload)
    refused = ended(actor, row)
    if refused or ends_at <= now:
        raise refused or Conflict("Its time is over.")
    return run_of(row), role_of(actor, row.tenant)


def standings(workloads: Collection[UUID]) -> Mapping[UUID, Hashable]:
    """Everything of these workloads that `right` can depend on, at one look."""
    rows = Workload.objects.filter(pk__in=workloads, deleted_at=None, deleting_at=None, suspended=False)
    columns = rows.values_list("pk", "phase", "started_at", "owner", *_open_to())
    return {pk: tuple(rest) for pk, *rest in columns}


def _open_to() -> list[str]:
    return [f"spec__{kind}__open_to" for kind in registry.in_order() if registry.of(kind).opens]


def opening(cookie: str, workload: UUID, now: datetime) -> Opening | None:
    """Who has come in with this cookie, to this workload and no other."""
    rows = Opening.objects.filter(cookie=digest(cookie), workload=workload, ends_at__gt=now)
    return rows.select_related("user", "workload__tenant", "workload__cluster").first()


def credential(of: Opening) -> Credential:
    """By which credential the person is known to the portal."""
    return Credential(of.user_id, token=of.token_id, session=of.session)
