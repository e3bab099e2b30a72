"""Judges a request against offers, quota and price, and tells what would become of it. Reads only.

`services` calls it inside its transactions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings

from apps.cluster import request_cache
from apps.cluster.mirror.selectors import inventory
from apps.errors import Conflict, DoesNotFitNow, FieldProblem, Invalid, OfferNotAllowed, QuotaExceeded
from apps.quotas.allowances.rules.fit import Verdict, VerdictKind
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.rules.room import fits
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Offer
from apps.quotas.specs import Mechanism
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Tenant
from apps.tenants.specs import Suspend
from apps.web.shapes import amounts
from apps.workloads import registry
from apps.workloads.images.selectors import drivers
from apps.workloads.lifecycle.selectors import cores
from apps.workloads.manifests import rendering
from apps.workloads.selectors import reading
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, PlacementSpec, WorkloadSpec
from apps.workloads.waiting.rules import explain
from apps.workloads.waiting.rules.bodies import QueueAheadBody
from apps.workloads.waiting.rules.eta import Interval
from apps.workloads.waiting.selectors import foresight, places, waiting

HOUR = Decimal(3600)
CHANGEABLE = ("priority", "suspend", "max_run_seconds", "idle_policy")
"""Fields of a spec that may change at any time; the rest only while it waits or is stopped."""
TOLD = ("open_to", "hours")
"""Of a kind's block what is no part of what runs."""


@dataclass(frozen=True)
class Ask:
    """A request that may be stored: its spec complete, its offer found, the ledger's word on it."""

    tenant: Tenant
    spec: WorkloadSpec
    offer: Offer
    verdict: Verdict
    hourly: Decimal | None


class PriceMoved(Conflict):
    """The price per hour is no longer the one that was reviewed; `extra` has both as `old` and `new`."""

    code, hint = "price_moved", "Look at the new price, and ask again if that is fine."


@dataclass(frozen=True)
class Preview:
    """What a dry run answers; `spec` is complete, `total` is the price until the lease ends, None without a
    lease or a price.
    """

    spec: WorkloadSpec
    verdict: Verdict
    hourly: Decimal | None
    total: Decimal | None
    currency: str
    queue: QueueAheadBody | None
    starts: str
    manifests: list[dict[str, Any]]
    alternatives: list[dict[str, Any]]
    warnings: list[str]


class Held(NamedTuple):
    """What something has of the offer now and gives back itself; not `is_placed`: quota without devices."""

    devices: int = 0
    is_placed: bool = False


NOTHING_HELD = Held()


@request_cache.scope()
def check(tenant: Tenant, spec: WorkloadSpec, *, now: datetime, held: Held = NOTHING_HELD) -> Ask:
    """The request with everything filled in, or the refusal.

    Rule: the offer must be allowed; more devices, CPU or memory than the tenant could ever hold is
    QuotaExceeded; a notebook's lease is at most the longest run; what does not fit now waits, unless
    `max_wait_seconds` is 0.
    """
    tenancy.require_live(tenant)
    _require_ability(tenant, spec)
    offer = standing.allowed_offer(tenant, spec.offer, now=now)
    cores.require_amounts(tenant, spec, offer, now=now)
    full = reading.completed(spec, offer)
    longest = settings.CONFIG.longest_run_seconds
    if registry.of(full.kind).is_leased and (full.max_run_seconds or 0) > longest:
        words = f"A {full.kind} runs at most {longest} seconds; it may be resumed."
        raise Invalid([FieldProblem("/spec/max_run_seconds", "out_of_range", words)])
    verdict = _verdict(tenant, offer, (full.devices, held.devices), now)
    _refuse_what_never_fits(tenant, full, offer, verdict)
    gives_room = held.devices > 0 and held.is_placed
    verdict = _honest(verdict if gives_room else _placed(verdict, tenant, full, offer), tenant)
    price = standing.prices(tenant, now=now).get(offer.pk)
    ask = Ask(tenant, full, offer, verdict, None if price is None else price * full.devices)
    if full.max_wait_seconds == 0 and not full.suspend and verdict.kind is not VerdictKind.NOW:
        raise DoesNotFitNow(verdict.message, alternatives=_named(_instead(ask, now)))
    return ask


def _verdict(tenant: Tenant, offer: Offer, devices: tuple[int, int], now: datetime) -> Verdict:
    """Of what is asked for, less what is given back for it."""
    wanted, held = devices
    whole = standing.verdict_for(tenant, offer, wanted, now=now)
    if not held or whole.kind is not VerdictKind.WAITS:
        return whole
    if wanted <= held:
        words = f"{wanted} {offer.name} can start now: it gives back as many."
        return replace(whole, kind=VerdictKind.NOW, message=words)
    return standing.verdict_for(tenant, offer, wanted - held, now=now)


def _require_ability(tenant: Tenant, spec: WorkloadSpec) -> None:
    """Raises Conflict where the tenant's cluster lacks what the kind is made of, with what to install."""
    needs = registry.of(spec.kind).needs
    lack = inventory.lacks(tenant.cluster, needs) if needs else None
    if lack is not None:
        raise Conflict(f"No {spec.kind} can start on {tenant.cluster.name}.", hint=lack.message)


def require_price(ask: Ask, seen: Decimal | None) -> None:
    """Raises PriceMoved unless the request costs per hour what was seen; nothing seen is nothing promised."""
    if seen is not None and ask.hourly is not None and ask.hourly != seen:
        raise PriceMoved("The price moved since it was reviewed.", old=seen, new=ask.hourly)


def _honest(verdict: Verdict, tenant: Tenant) -> Verdict:
    """Nothing starts now, whatever is free, while the tenant's queue is held, or the cluster or its Kueue is
    silent.
    """
    held = standing.hold_words(tenant)
    if held and verdict.kind in (VerdictKind.NOW, VerdictKind.WAITS):
        return replace(verdict, kind=VerdictKind.HELD, message=held)
    if verdict.kind is not VerdictKind.NOW or not (words := waiting.silence(tenant.cluster)):
        return verdict
    return replace(verdict, kind=VerdictKind.WAITS, message=words)


def _placed(verdict: Verdict, tenant: Tenant, spec: WorkloadSpec, offer: Offer) -> Verdict:
    """RULE: it starts now only where its pods find room, each on one node (decision 0151). Of what is let in
    pod by pod, one is enough.
    """
    if verdict.kind is not VerdictKind.NOW:
        return verdict
    free = stock.places_free(offer, tenant.cluster)
    if fits(free, spec.per_pod, 1 if registry.of(spec.kind).rolls else spec.pods):
        return verdict
    words = f"{sum(free)} {offer.name} are free, at most {max(free, default=0)} of them on one node."
    if offer.mechanism == Mechanism.DEVICE_PLUGIN:
        words = f"{sum(free)} {offer.name} are free; whether {spec.per_pod} are together is not known."
    return replace(verdict, kind=VerdictKind.WAITS, message=f"{words} It may have to wait.")


def _refuse_what_never_fits(tenant: Tenant, spec: WorkloadSpec, offer: Offer, verdict: Verdict) -> None:
    """RULE: with one figure, of what a node has and the tenant reaches."""
    if verdict.kind is VerdictKind.NOT_OFFERED:
        raise OfferNotAllowed(verdict.message, hint=verdict.hint or None)
    reach = verdict.reachable
    largest = stock.room_of(offer, tenant.cluster).largest if spec.per_pod > 1 else 0
    is_too_wide = 0 < largest < spec.per_pod
    if verdict.kind is VerdictKind.NEVER or is_too_wide:
        words, hint = verdict.message, verdict.hint
        if verdict.kind is not VerdictKind.NEVER:
            words = (
                f"{spec.per_pod} {offer.name} in one pod can never start: no node has more than {largest}."
            )
        if is_too_wide and largest < reach:
            hint = f"Ask for {min(largest, max(1, reach // spec.pods))} or fewer in one pod."
        raise QuotaExceeded(words, hint=hint or None, quota=_asked(tenant, spec, offer))
    if offer.is_cores:
        return
    for name, wanted, each in (
        ("CPU", spec.cpu_millis * spec.pods, offer.cpu_millis),
        ("memory", spec.memory_bytes * spec.pods, offer.memory_bytes),
    ):
        if wanted > each * reach:
            detail = (
                f"This is more {name} than comes with {reach} {offer.name}, all that {tenant.slug} reaches."
            )
            hint = "Ask for less, or leave it empty to take what comes with the offer."
            raise QuotaExceeded(detail, hint=hint, quota=_asked(tenant, spec, offer))


def _asked(tenant: Tenant, spec: WorkloadSpec, offer: Offer) -> dict[str, Any]:
    row = tenant.quotas.filter(offer=offer).first()
    limits = (row.nominal_quota, row.borrowing_limit) if row else (0, 0)
    return {
        "offer": offer.slug,
        "requested": spec.devices,
        "nominal_quota": limits[0],
        "borrowing_limit": limits[1],
    }


def preview(ask: Ask, place: PlacementSpec, *, now: datetime) -> Preview:
    """What `check` found, with price, manifests and what would start now instead."""
    seconds = ask.spec.max_run_seconds
    total = None if ask.hourly is None or seconds is None else ask.hourly * seconds / HOUR
    waits = ask.verdict.kind is not VerdictKind.NOW
    starts = _starts(ask, now) if waits else None
    return Preview(
        spec=ask.spec,
        verdict=ask.verdict,
        hourly=ask.hourly,
        total=total,
        currency=settings.CONFIG.currency,
        queue=_queue(ask, starts) if waits else None,
        starts=explain.span(starts, now) if starts else "",
        manifests=rendering.render(ask.spec, place),
        alternatives=_instead(ask, now) if waits else [],
        warnings=[*_warnings(ask), *drivers.warnings(ask.tenant, ask.spec, ask.offer, now=now)],
    )


def _starts(ask: Ask, now: datetime) -> Interval | None:
    if ask.verdict.kind is VerdictKind.HELD or waiting.silent(ask.tenant.cluster):
        return None
    devices, longest = ask.spec.devices, ask.spec.max_run_seconds
    return foresight.of_request(ask.tenant, ask.offer, ask.spec.kind, count=devices, longest=longest, now=now)


def _queue(ask: Ask, starts: Interval | None) -> QueueAheadBody:
    waiting_there = places.waiting_in([ask.tenant.cluster_id], [ask.tenant.object_name])
    ahead = waiting_there.filter(queue_asks=ask.offer.resource_name).count()
    holders = explain.merged(places.holdings_in(ask.tenant.cluster_id).holders(ask.offer))
    return {
        "position": ahead + 1,
        "of": ahead + 1,
        "reason": "Pending",
        "message": ask.verdict.message,
        "eta": waiting.interval_body(starts),
        "holders": waiting.holder_bodies(each for each in holders if each.tenant == ask.tenant.slug),
    }


def _instead(ask: Ask, now: datetime) -> list[dict[str, Any]]:
    if ask.verdict.kind is VerdictKind.HELD or waiting.silent(ask.tenant.cluster):
        return []
    choices = standing.offer_choices(ask.tenant, now=now)
    found = waiting.alternatives(ask.offer, ask.spec, choices, ask.tenant.cluster)
    return [{"offer": a.offer, "name": a.name, "hourly": a.hourly, "eta": now} for a in found]


def _named(alternatives: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Alternatives as a refusal carries them: plain JSON."""
    return [
        {"offer": a["offer"], "hourly": amounts.money(a["hourly"], settings.CONFIG.currency), "eta": None}
        for a in alternatives
    ]


def _warnings(ask: Ask) -> list[str]:
    cluster = ask.tenant.cluster
    warnings = []
    if cluster.phase == cluster.Phase.SILENT:
        warnings.append(f"{cluster.name} is silent: what you ask for is stored and applied later.")
    if ask.tenant.suspend != Suspend.NONE:
        warnings.append(f"{ask.tenant.slug} admits no new work at present.")
    if ask.hourly is None:
        warnings.append(f"{ask.offer.name} has no price yet.")
    return warnings


def _as_told(before: WorkloadSpec, wanted: WorkloadSpec) -> WorkloadSpec:
    """What was, with what is no part of what runs as it is wanted: who opens it, and when."""
    told = {name: getattr(wanted.block, name) for name in TOLD if hasattr(wanted.block, name)}
    is_same_kind = type(before.block) is type(wanted.block)
    return replace(before, block=replace(before.block, **told)) if told and is_same_kind else before  # type: ignore[type-var]


def asks_for_no_more(before: WorkloadSpec, wanted: WorkloadSpec) -> bool:
    """Whether offer, quota and price have no say in a change: nothing is started, and nothing runs longer.

    RULE: so is a stop, an earlier end and what idleness does, whatever became of its offer and quota.
    """
    lease, former = wanted.max_run_seconds, before.max_run_seconds
    # One above the longest run is judged, also where there was no lease at all.
    is_earlier = lease is not None and lease <= (former or settings.CONFIG.longest_run_seconds)
    less = replace(
        _as_told(before, wanted),
        suspend=before.suspend or wanted.suspend,
        max_run_seconds=lease if is_earlier else former,
        idle_policy=wanted.idle_policy,
    )
    return less == wanted


def fixed(before: WorkloadSpec, wanted: WorkloadSpec, phase: Phase) -> list[FieldProblem]:
    """The fields that were changed and may not be, now or ever."""
    problems = []
    if wanted.kind is not before.kind:
        problems.append(FieldProblem("/spec/kind", "read_only_field", "The kind cannot change."))
    if any(volume not in wanted.volumes for volume in before.volumes):
        words = "A volume cannot change once it is made: add another one."
        problems.append(FieldProblem("/spec/volumes", "read_only_field", words))
    if phase in (Phase.PENDING, Phase.STOPPED):
        return problems
    before = _as_told(before, wanted)
    rolls = registry.of(before.kind).rolls if phase in (Phase.STARTING, Phase.RUNNING) else ()
    old: Mapping[str, Any] = parsing.as_json(before)
    new: Mapping[str, Any] = parsing.as_json(wanted)
    for name in new:
        if name not in (*CHANGEABLE, *rolls, "kind", "volumes") and new[name] != old[name]:
            words = f"It is {phase.label.lower()}: {name} can only change while it waits or is stopped."
            problems.append(FieldProblem(f"/spec/{name}", "read_only_field", words))
    return problems
