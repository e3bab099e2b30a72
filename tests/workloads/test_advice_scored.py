"""Advice that is taken: what it said starts now is asked for, and the scheduler's rules decide.

Situations are departments at 80-120 % of what they have, with the product's own ClusterQueues: on those the
prediction is compared with a real Kueue. Quota is decided by that prediction, places by pods that are laid on
nodes one by one. `make verify SUITE=advice` takes 300 of each.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal

from apps.quotas.allowances.rules import fit
from apps.quotas.kueue.predict import reading, scheduling
from apps.quotas.kueue.predict.view import View, Work
from apps.quotas.specs import SharingMode
from apps.workloads.advice.rules.advising import advise
from apps.workloads.advice.rules.situations import Facts, Fleet, Need, Policies, Prices, Start
from apps.workloads.purpose_specs import Purpose
from apps.workloads.waiting.rules.smaller import shrunk
from tests.factories import NOW
from tests.quotas import predict_cases
from tests.quotas.predict_cases import CPU_MILLIS, MEMORY_BYTES, OFFERS, Case

SITUATIONS = int(os.environ.get("ADVICE_SITUATIONS", "40"))
LEAST = 0.95
Record = Callable[[str, object], None]
GIB = 1024**3
MEMORY = {"h100-whole": 80, "h100-3g-40gb": 40, "a100-whole": 80, "l4-whole": 24}
PRICES = Prices(
    {name: Decimal(price) for name, price in zip(MEMORY, ("2.94", "1.26", "2.10", "0.70"), strict=True)},
    "EUR",
)


@dataclass
class Situation:
    """A department at rest: who holds quota, who waits, and what is free on each node, by offer."""

    case: Case
    view: View
    free: dict[str, list[int]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)

    def facts(self, queue: str, name: str) -> Facts:
        """The offer as the product sees it for a tenant, by the functions that it uses."""
        held = Counter[str]()
        for work in self.view.work:
            if work.flavors:
                held[work.queue] += work.requests.get(f"allotment.dev/{name}", 0)
        uses = {tenant: fit.Use(offers[name], held[tenant]) for tenant, offers in self.case.before.items()}
        mates = [uses[q] for q in uses if q != queue and self.case.homes[q] == self.case.homes[queue]]
        places = tuple(sorted((n for n in self.free[name] if n), reverse=True))
        return Facts(
            slug=name,
            name=name,
            mode=SharingMode.MIG if "-3g" in name else SharingMode.EXCLUSIVE,
            memory_bytes=MEMORY[name] * GIB,
            capacity=9,
            places=places,
            largest=4,
            reachable=fit.reachable(uses[queue].quota, [use.quota for use in mates]),
            available=min(fit.available(uses[queue], mates), sum(places)),
        )


def situation(seed: int) -> Situation:
    """The same of a seed each time. Nodes have 1, 2 or 4 devices, together 80 to 120 % of the guarantees."""
    dice = random.Random(f"advice {seed}")
    case = predict_cases.make(seed)
    queues = tuple(map(reading.read_queue, case.queues(case.before)))
    asked = [
        asking(
            job.name, job.queue, job.offer, job.count, age=len(case.jobs) - place, priority=job.priority.rank
        )
        for place, job in enumerate(case.jobs)
    ]
    view = View(tuple(map(reading.read_cohort, case.cohorts)), queues, tuple(asked))
    holds = scheduling.predict(view, now=NOW).holds
    found = Situation(case, replace(view, work=tuple(_held(w) if w.key in holds else w for w in asked)))
    for name in next(iter(case.before.values())):
        there = sum(offers[name].nominal for offers in case.before.values())
        found.free[name] = _nodes(dice, round(there * dice.uniform(0.8, 1.2)))
        for work in found.view.work:
            if work.flavors and (count := work.requests.get(f"allotment.dev/{name}", 0)):
                lay(found.free[name], count, 1)
    return found


def asking(name: str, queue: str, offer: str, count: int, *, age: int = 0, priority: int = 500) -> Work:
    resources = {"cpu": CPU_MILLIS * count, "memory": MEMORY_BYTES * count, f"allotment.dev/{offer}": count}
    return Work(name, queue, resources, NOW - timedelta(minutes=age), priority)


def _held(work: Work) -> Work:
    (offer,) = (name.removeprefix("allotment.dev/") for name in work.requests if "/" in name)
    return replace(work, flavors=dict.fromkeys(work.requests, OFFERS[offer]), reserved_at=work.created)


def _nodes(dice: random.Random, devices: int) -> list[int]:
    nodes: list[int] = []
    while devices > 0:
        nodes.append(min(devices, dice.choice((1, 2, 4))))
        devices -= nodes[-1]
    return nodes


def lay(free: list[int], each: int, pods: int) -> bool:
    """Pods onto nodes as the scheduler packs them: each where least is left. False: one found no place."""
    for _ in range(pods):
        fitting = [place for place, left in enumerate(free) if left >= each]
        if not fitting:
            return False
        free[min(fitting, key=lambda place: free[place])] -= each
    return True


def starts(found: Situation, work: Work, offer: str, each: int, pods: int) -> bool:
    """Whether quota lets it in, and all of its pods find their devices."""
    others = tuple(other for other in found.view.work if other.key != work.key)
    after = scheduling.predict(replace(found.view, work=(*others, work)), now=NOW)
    return work.key in after.starts and lay(list(found.free[offer]), each, pods)


def wish(dice: random.Random) -> Need:
    return Need(
        dice.choice(list(Purpose)),
        dice.choice((8, 20, 40, 70, 150)) * GIB,
        at_once=dice.choice((1, 1, 1, 2, 3)),
        is_thrifty=dice.random() < 0.3,
    )


def share(outcomes: Sequence[bool], looked_at: int, record: Record) -> float:
    """The share that kept its promise; recorded, so that the long run prints it."""
    record("started now", f"{sum(outcomes)} of {len(outcomes)}, in {looked_at} situations")
    return sum(outcomes) / len(outcomes)


def test_advice_that_says_starts_now_is_right(record_property: Record) -> None:
    outcomes: list[bool] = []
    seed = 0
    while len(outcomes) < SITUATIONS:
        seed += 1
        found, dice = situation(seed), random.Random(seed)
        queue = dice.choice(list(found.case.before))
        offers = tuple(found.facts(queue, name) for name in found.free)
        advice = advise(wish(dice), Fleet(offers, NOW), PRICES, Policies(queue))
        best = next((each for each in advice.ranked if each.start is Start.NOW), None)
        if best:
            work = asking(
                "asked", queue, best.offer.slug, best.devices, priority=dice.choice((100, 500, 1000))
            )
            outcomes.append(starts(found, work, best.offer.slug, best.each, advice.need.at_once))
    assert share(outcomes, seed, record_property) >= LEAST


def test_what_waits_and_is_shrunk_as_advised_starts(record_property: Record) -> None:
    outcomes: list[bool] = []
    seed = 0
    while len(outcomes) < SITUATIONS:
        seed += 1
        found = situation(seed)
        for work in found.view.work:
            ((name, count),) = ((n, c) for n, c in work.requests.items() if "/" in n)
            offer = name.removeprefix("allotment.dev/")
            if work.flavors or count < 2:
                continue
            facts = found.facts(work.queue, offer)
            less = shrunk(count, 1, available=facts.available, places=facts.places)
            if less:
                small = asking(work.key, work.queue, offer, less[0], priority=work.priority)
                outcomes.append(starts(found, small, offer, less[0], 1))
    assert share(outcomes, seed, record_property) >= LEAST
