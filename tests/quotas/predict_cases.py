"""Cases for the prediction: small departments at 80-120 % of what they have, and one change of quota each.

Pure: a seed in, queues and jobs out. Every case is a cohort tree of its own, so that many lie side by side on
one control plane. The queues are the product's own manifests.
"""

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apps.quotas.kueue.manifests import render_queue
from apps.quotas.specs import OfferQuota, Priority, QueueSpec
from apps.tenants.isolation.manifests import render_department
from apps.tenants.specs import DepartmentSpec, Suspend

Manifest = dict[str, Any]
RUN = f"{os.getpid():x}"
"""Part of every name: what an earlier run left is still on its way out."""
BATCH = 25
"""Cases side by side, in one namespace: each costs Kueue a little in every one of its cycles."""
OFFERS = {"h100-whole": "h100", "h100-3g-40gb": "h100", "a100-whole": "a100", "l4-whole": "l4"}
"""Offers with their flavors: three flavors, two offers on one of them."""
CPU_MILLIS, MEMORY_BYTES = 2000, 8 * 1024**3
ANY_PRIORITY = (
    Priority.BATCH,
    Priority.BATCH,
    Priority.INTERACTIVE,
    Priority.PREEMPTIBLE,
    Priority.PROTECTED,
)
LOW, HIGH = (Priority.PREEMPTIBLE, Priority.BATCH), (Priority.BATCH, Priority.INTERACTIVE, Priority.PROTECTED)
UID = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Job:
    """One job of a queue: so many devices of one offer in one pod."""

    name: str
    queue: str
    offer: str
    count: int
    priority: Priority


@dataclass
class Case:
    """One department (or two below a division) before and after a change of quota."""

    number: int
    cohorts: list[Manifest]
    homes: dict[str, str]
    before: dict[str, dict[str, OfferQuota]]
    after: dict[str, dict[str, OfferQuota]] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    change: str = ""
    is_contested: bool = False
    """The first queue runs work of the lower classes and has to give to those of the higher ones."""

    @property
    def prefix(self) -> str:
        """What all names of the case start with."""
        return f"p{RUN}-{self.number}-"

    @property
    def namespace(self) -> str:
        """Where its jobs lie, together with those of the other cases of its batch."""
        return f"predicted-{RUN}-{self.number // BATCH}"

    def local_queues(self) -> list[Manifest]:
        """A LocalQueue of each queue's name: the cases of a batch share one namespace."""
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
        return [
            kind | {"metadata": {"name": name, "namespace": self.namespace}, "spec": {"clusterQueue": name}}
            for name in self.before
        ]

    def manifest(self, asked: Job) -> Manifest:
        """A Job that nobody runs: `managedBy` keeps the cluster's own job controller away, so that no pod is
        made and Kueue alone decides about it.
        """
        resources = {
            "requests": {"cpu": f"{CPU_MILLIS * asked.count}m", "memory": str(MEMORY_BYTES * asked.count)},
            "limits": {f"allotment.dev/{asked.offer}": str(asked.count)},
        }
        container = {"name": "main", "image": "none", "resources": resources}
        labels = {
            "kueue.x-k8s.io/queue-name": asked.queue,
            "kueue.x-k8s.io/priority-class": asked.priority.value,
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": asked.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "managedBy": "allotment.dev/nobody",
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        }

    def queues(self, quotas: dict[str, dict[str, OfferQuota]]) -> list[Manifest]:
        """The ClusterQueues; CPU and memory follow the department's total, as in the product."""
        totals = Counter[tuple[str, str]]()
        for queue, offers in quotas.items():
            for name, quota in offers.items():
                totals[self.homes[queue], name] += quota.nominal
        return [
            render_queue(
                QueueSpec(
                    id=UID,
                    tenant=self.namespace,
                    object_name=queue,
                    cohort=self.homes[queue],
                    generation=1,
                    suspend=Suspend.NONE,
                    quotas=tuple(
                        replace(quota, cohort_total=totals[self.homes[queue], name])
                        for name, quota in offers.items()
                    ),
                    namespace_is_there=False,
                )
            )[0]
            for queue, offers in quotas.items()
        ]


def make(seed: int) -> Case:
    """The case of a seed; the same each time."""
    rng = random.Random(seed)
    case = _department(rng, seed)
    case.jobs = _jobs(rng, case)
    case.after, case.change = _change(rng, case)
    return case


def flavors() -> list[Manifest]:
    """The ResourceFlavors that all cases share."""
    api = "kueue.x-k8s.io/v1beta2"
    return [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {}}
        for name in sorted(set(OFFERS.values()))
    ]


def _department(rng: random.Random, number: int) -> Case:
    is_nested = rng.random() < 0.4
    top = f"p{RUN}-{number}"
    roots = [f"{top}-a", f"{top}-b"] if is_nested else [f"{top}-a"]
    cohorts = [_cohort(top, "")] if is_nested else []
    cohorts += [_cohort(name, top if is_nested else "") for name in roots]
    queues = [f"{top}-t{index}" for index in range(rng.randint(max(2, len(roots)), 3))]
    homes = {queue: roots[index % len(roots)] for index, queue in enumerate(queues)}
    # Two offers of one flavor now and then: they share its CPU and memory.
    names = list(OFFERS) if rng.random() < 0.2 else [name for name in OFFERS if name != "h100-3g-40gb"]
    quotas = {queue: {name: _quota(rng, name) for name in names} for queue in queues}
    case = Case(number, cohorts, homes, quotas, is_contested=rng.random() < 0.5)
    if case.is_contested:
        quotas[queues[0]] = {name: _nominal(q, q.nominal + 2) for name, q in quotas[queues[0]].items()}
    return case


def _cohort(name: str, parent: str) -> Manifest:
    return render_department(DepartmentSpec(UID, name, 1, parent=parent))[0]


def _quota(rng: random.Random, name: str) -> OfferQuota:
    nominal = rng.randint(0, 3)
    return OfferQuota(
        offer=name,
        resource_name=f"allotment.dev/{name}",
        flavor=OFFERS[name],
        nominal=nominal,
        borrowing_limit=rng.choice((None, 0, 0, 1, 2)),
        lending_limit=rng.choice((None, None, 0, nominal, nominal // 2)),
        cpu_millis=CPU_MILLIS,
        memory_bytes=MEMORY_BYTES,
    )


def _jobs(rng: random.Random, case: Case) -> list[Job]:
    """Demand of each offer at 80-120 % of what the tree has, unevenly spread over the tenants."""
    jobs: list[Job] = []
    queues = list(case.before)
    weights = [rng.choice((1, 1, 4)) for _ in queues]
    for name in next(iter(case.before.values())):
        left = round(sum(offers[name].nominal for offers in case.before.values()) * rng.uniform(0.9, 1.25))
        while left > 0:
            count = min(left, rng.choice((1, 1, 2, 2, 3)))
            queue = rng.choices(queues, weights)[0]
            classes = ANY_PRIORITY if not case.is_contested else LOW if queue == queues[0] else HIGH
            jobs.append(Job("", queue, name, count, rng.choice(classes)))
            left -= count
    # Often the lower classes come first, so that they have borrowed by the time the others ask.
    rng.shuffle(jobs)
    if case.is_contested or rng.random() < 0.5:
        jobs.sort(key=lambda each: each.priority.rank)
    return [replace(each, name=f"{case.prefix}{place:02}") for place, each in enumerate(jobs)]


def _change(rng: random.Random, case: Case) -> tuple[dict[str, dict[str, OfferQuota]], str]:
    """One edit where it matters: at the tenant that lacks most of an offer, often taken from another."""
    names = list(next(iter(case.before.values())))
    asked = Counter((each.queue, each.offer) for each in case.jobs for _ in range(each.count))
    first, *others = case.before

    def lack(queue: str, name: str) -> int:
        return asked[queue, name] - case.before[queue][name].nominal

    if case.is_contested:
        lacking, name = max(((q, n) for q in others for n in names), key=lambda pair: lack(*pair))
        giving, what = first, "move"
    else:
        name = rng.choice(names)
        lacking = max(case.before, key=lambda queue: lack(queue, name))
        giving = rng.choice([queue for queue in case.before if queue != lacking])
        what = rng.choice(("move", "move", "move", "raise", "cut", "borrow", "lend"))
    after = {queue: dict(offers) for queue, offers in case.before.items()}
    have, give = after[lacking][name], after[giving][name]
    moved = rng.randint(1, 3)
    if what in ("move", "raise"):
        after[lacking][name] = _nominal(have, have.nominal + moved)
    if what in ("move", "cut"):
        after[giving][name] = _nominal(give, max(0, give.nominal - moved))
    if what == "borrow":
        after[lacking][name] = replace(have, borrowing_limit=None if have.borrowing_limit is not None else 0)
    if what == "lend":
        after[giving][name] = replace(give, lending_limit=None if give.lending_limit is not None else 0)
    return after, what


def _nominal(quota: OfferQuota, nominal: int) -> OfferQuota:
    lending = quota.lending_limit
    return replace(quota, nominal=nominal, lending_limit=None if lending is None else min(lending, nominal))


def demand(cases: Sequence[Case]) -> float:
    """What all jobs ask for, as a part of what all queues are guaranteed."""
    asked = sum(each.count for case in cases for each in case.jobs)
    guaranteed = sum(q.nominal for case in cases for offers in case.before.values() for q in offers.values())
    return asked / guaranteed
