"""Which offers suit a need: ranked, with price, start and reasons, and why the others do not. Pure.

Judges what it is given: what an offer has free and when it starts is `Facts`, gathered in
`apps.workloads.advice.selectors`. Admits nothing: Kueue does.
"""

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from apps.cluster.objects.quantities import shown_bytes
from apps.quotas.catalogue.rules.room import fits
from apps.quotas.specs import SharingMode
from apps.web.shapes.amounts import to_the_cent
from apps.workloads.advice.rules.situations import (
    ISOLATED,
    Advice,
    Comparison,
    Facts,
    Fleet,
    LeftOut,
    Line,
    Need,
    Policies,
    Prices,
    Ranked,
    Start,
    Why,
)
from apps.workloads.advice.rules.table import Row, row_of
from apps.workloads.purpose_specs import Purpose
from apps.workloads.waiting.rules import explain

HOUR = Decimal(3600)
STEPS = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4), timedelta(days=1))
"""Waits that differ by less than a step are alike to whoever waits."""
MUCH_TOO_LARGE = 4
"""A whole GPU with so many times the memory that is needed is a usual mistake, where less would do."""


def advise(need: Need, fleet: Fleet, prices: Prices, policies: Policies) -> Advice:
    """RULE: what is no usual mistake comes first, then what starts now, then the cheaper one, then what the
    decision table names earlier. Who wants it cheap has price before start. Whoever sits before it would
    rather pay than wait for hours: of what waits the earlier comes before the cheaper, in steps (`STEPS`).
    """
    row = row_of(need)
    judged = [(offer, left_out(need, offer, policies)) for offer in fleet.offers]
    fitting = [offer for offer, refused in judged if refused is None]
    cases = [_Case(need, offer, row, prices, policies, fleet) for offer in fitting]
    ranked = sorted(
        (case.ranked(cases) for case in cases), key=lambda each: _order(each, row, need, fleet.at)
    )
    left = sorted((out for _, out in judged if out), key=_distance)
    return Advice(
        need=need,
        situation=row.name,
        usual=row.advice,
        ranked=tuple(ranked),
        left_out=tuple(left),
        comparison=compare(need, fitting, prices),
        nearest=left[0] if left and not ranked else None,
    )


def each_of(need: Need, offer: Facts) -> int:
    """How many devices one of what is needed takes; 0: no number of them does. RULE: only whole GPUs go
    together: slices and shares have no NVLink between them.
    """
    if need.memory_bytes <= offer.memory_bytes:
        return 1
    if offer.mode is not SharingMode.EXCLUSIVE or not offer.memory_bytes:
        return 0
    return -(-need.memory_bytes // offer.memory_bytes)


def left_out(need: Need, offer: Facts, policies: Policies) -> LeftOut | None:
    """Why the offer would not do; None: it would. RULE: what the fleet lacks comes before what quota lacks,
    which would not help then.
    """
    each = each_of(need, offer)
    devices = each * need.at_once
    checks = (
        (each == 0, Why.MEMORY, _too_small(need, offer)),
        (
            need.is_alone and not offer.mode.isolates_memory,
            Why.NOT_ISOLATED,
            f"{offer.mode.isolation}. {ISOLATED}",
        ),
        (
            offer.is_spot and not need.may_be_interrupted,
            Why.TAKEN_AWAY,
            "Spot: it may be taken away with 30 to 120 seconds' notice.",
        ),
        (bool(offer.refused), Why.NOT_ALLOWED, offer.refused),
        (offer.capacity == 0, Why.NOT_THERE, "The fleet has none of it now."),
        (
            offer.capacity < devices and each <= (offer.largest or each),
            Why.NOT_THERE,
            f"It takes {devices}; the fleet has {offer.capacity}.",
        ),
        (
            0 < offer.largest < each,
            Why.TOO_WIDE,
            f"It takes {each} of them on one node; no node has more than {offer.largest}.",
        ),
        (offer.reachable == 0, Why.NO_QUOTA, f"{policies.tenant} has no quota of it."),
        (
            devices > offer.reachable > 0,
            Why.TOO_MANY,
            f"It takes {devices}; {policies.tenant} can hold at most {offer.reachable}.",
        ),
    )
    return next((LeftOut(offer, why, words) for holds, why, words in checks if holds), None)


def starts_now(need: Need, offer: Facts, policies: Policies) -> bool:
    """RULE: nothing holds the tenant's queue, quota lets it take all of them now, and they lie free where
    each has its devices on one node. Who waits already and does not fit is no obstacle (BestEffortFIFO).
    """
    each = each_of(need, offer)
    within_quota = each * need.at_once <= offer.available
    return not policies.blocked and within_quota and fits(offer.places, each, need.at_once)


def is_apart(need: Need, offer: Facts) -> bool:
    """Whether enough is free and not together. RULE: then no start is foretold: the estimate counts devices,
    and would say now.
    """
    each = each_of(need, offer)
    return each * need.at_once <= offer.available and not fits(offer.places, each, need.at_once)


def compare(need: Need, fitting: list[Facts], prices: Prices) -> Comparison | None:
    """Small whole GPUs beside slices of a large one, for as many as are needed; None where there are not
    both, with prices. Spot is left out: its price buys another promise.
    """
    lines = [
        Line(offer, need.at_once, prices.hourly[offer.slug] * need.at_once, _cut(offer, need.at_once))
        for offer in fitting
        if offer.slug in prices.hourly
        and offer.mode in (SharingMode.EXCLUSIVE, SharingMode.MIG)
        and not offer.is_spot
        and each_of(need, offer) == 1
    ]
    whole, cut = (
        min((line for line in lines if line.offer.mode is mode), key=lambda line: line.hourly, default=None)
        for mode in (SharingMode.EXCLUSIVE, SharingMode.MIG)
    )
    if whole is None or cut is None:
        return None
    told = f"{_of(whole, prices)}, {_of(cut, prices)}"
    if whole.hourly <= cut.hourly:
        words = f"{told}: whole GPUs cost no more than slices, and are simpler."
    else:
        words = f"{told}: slices are cheaper here."
    return Comparison(tuple(sorted(lines, key=lambda line: (line.hourly, line.offer.name))), words)


def _cut(offer: Facts, count: int) -> str:
    if offer.mode is SharingMode.EXCLUSIVE:
        return "1 whole GPU" if count == 1 else f"{count} whole GPUs"
    gpus = -(-count // offer.slices)
    one = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return f"{count} of the {offer.slices} slices of {one}" if gpus == 1 else f"{count} slices of {one}"


def _of(line: Line, prices: Prices) -> str:
    return f"{line.devices} × {line.offer.name} cost {to_the_cent(line.hourly)} {prices.currency} an hour"


def _too_small(need: Need, offer: Facts) -> str:
    has = f"It has {shown_bytes(offer.memory_bytes)} of {shown_bytes(need.memory_bytes)}"
    if not offer.memory_bytes:
        return "It has no GPU."
    if offer.mode is SharingMode.MIG:
        return f"{has}, and slices cannot be put together: they have no NVLink between them."
    return f"{has}, and shares of a GPU cannot be put together."


def _distance(out: LeftOut) -> tuple[int, int]:
    return list(Why).index(out.why), -out.offer.memory_bytes


def _order(each: Ranked, row: Row, need: Need, at: datetime) -> tuple[object, ...]:
    place = row.modes.index(each.offer.mode) if each.offer.mode in row.modes else len(row.modes)
    cost = (each.hourly is None, each.hourly or 0)
    start = (list(Start).index(each.start), each.offer.starts.p50.timestamp() if each.offer.starts else 0.0)
    soon = (start[0], _step(each, at)) if need.purpose is Purpose.INTERACTIVE else start[:1]
    first, second = (cost, start[:1]) if need.is_thrifty else (soon, cost)
    return bool(each.warnings), *first, *second, place, *start[1:], each.offer.slug


def _step(each: Ranked, at: datetime) -> int:
    return bisect_left(STEPS, each.offer.starts.p50 - at) if each.offer.starts else len(STEPS) + 1


@dataclass(frozen=True)
class _Case:
    """An offer that would do, beside the others."""

    need: Need
    offer: Facts
    row: Row
    prices: Prices
    policies: Policies
    fleet: Fleet

    @property
    def each(self) -> int:
        return each_of(self.need, self.offer)

    @property
    def hourly(self) -> Decimal | None:
        price = self.prices.hourly.get(self.offer.slug)
        return None if price is None else price * self.each * self.need.at_once

    def ranked(self, cases: "list[_Case]") -> Ranked:
        (start, words), hourly = self._start(), self.hourly
        warnings = tuple(filter(None, (self._mistake(), self._wasted(cases))))
        usual = "" if warnings else self._usual()
        return Ranked(
            offer=self.offer,
            each=self.each,
            devices=self.each * self.need.at_once,
            hourly=hourly,
            total=None if hourly is None else hourly * self.need.seconds / HOUR,
            start=start,
            start_words=words,
            speaks_for=tuple(filter(None, (self._isolation(), usual, self._fills()))),
            speaks_against=tuple(
                filter(None, (self._spot(), self._split(), self._dearer(cases), self._cost()))
            ),
            warnings=warnings,
        )

    def _start(self) -> tuple[Start, str]:
        offer, at = self.offer, self.fleet.at
        if self.policies.blocked:
            return Start.UNKNOWN, self.policies.blocked
        if starts_now(self.need, offer, self.policies):
            return Start.NOW, "Starts now."
        held = (
            f" Held by {', '.join(explain.held(each, at) for each in offer.holders)}."
            if offer.holders
            else ""
        )
        if offer.starts:
            return Start.LATER, f"{explain.span(offer.starts, at)}.{held}"
        apart = "Enough is free, but not together. " if is_apart(self.need, offer) else ""
        return Start.UNKNOWN, f"{apart}No start time: what runs has no known end.{held}"

    def _isolation(self) -> str:
        return f"{self.offer.mode.isolation}." if self.offer.mode.isolates_memory else ""

    def _usual(self) -> str:
        best = self.row.modes[0]
        return "It is what is usually advised for this." if self.offer.mode is best else ""

    def _fills(self) -> str:
        full = self.need.memory_bytes * 4 >= self.offer.memory_bytes * self.each * 3
        return "What is needed nearly fills it: little is paid for and left empty." if full else ""

    def _spot(self) -> str:
        if not self.offer.is_spot:
            return ""
        serves = " and drain what is served" if self.need.purpose is Purpose.SERVING else ""
        return f"Spot: it may go with 30 to 120 seconds' notice. Keep checkpoints{serves}."

    def _split(self) -> str:
        return f"Your program has to spread over {self.each} GPUs of one node." if self.each > 1 else ""

    def _dearer(self, cases: "list[_Case]") -> str:
        """Whether it is a slice where a whole GPU costs less."""
        own = self.hourly
        if self.offer.mode is not SharingMode.MIG or own is None:
            return ""
        whole = [
            each for each in cases if each.offer.mode is SharingMode.EXCLUSIVE and not each.offer.is_spot
        ]
        least = min((each for each in whole if each.hourly is not None), key=_cost_of, default=None)
        if least is None or _cost_of(least) > own:
            return ""
        return f"{least.offer.name} costs no more and is a whole GPU."

    def _cost(self) -> str:
        return "No price is in force: what it costs is not known." if self.hourly is None else ""

    def _mistake(self) -> str:
        return self.row.mistakes.get(self.offer.mode, "")

    def _wasted(self, cases: "list[_Case]") -> str:
        """Whether it is a large whole GPU for little, where less would do for less."""
        offer, own = self.offer, self.hourly
        is_large = self.each == 1 and self.need.memory_bytes * MUCH_TOO_LARGE <= offer.memory_bytes
        if offer.mode is not SharingMode.EXCLUSIVE or not is_large or own is None:
            return ""
        less = [each for each in cases if each.hourly is not None and _cost_of(each) < own]
        sound = [each for each in less if each.offer.mode not in self.row.mistakes]
        if not sound or self.need.trains:
            return ""
        best = min(sound, key=_cost_of)
        needed, has = shown_bytes(self.need.memory_bytes), shown_bytes(offer.memory_bytes)
        does = f"{best.offer.name} does for {to_the_cent(_cost_of(best))} {self.prices.currency} an hour."
        return f"{needed} of its {has} are needed, and all of it is paid for. {does}"


def _cost_of(case: _Case) -> Decimal:
    return case.hourly or Decimal(0)
