"""Flavor assignment: which flavor each resource of a workload could take now, and the words when none.

Follows Kueue 0.19's flavor assigner: flavors in order, per resource group, fungibility policies, borrowing
levels and the exact texts of the conditions. Preemption is asked through `Oracle`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from sandbox.controllers.affinity import node_matches, required_terms, taint_text, untolerated
from sandbox.controllers.amounts import render
from sandbox.controllers.kueue.model import (
    Flavor,
    FlavorResource,
    Fungibility,
    PodSet,
    PodSetAdmission,
    QueueSpec,
    ResourceGroup,
    Work,
)
from sandbox.controllers.kueue.quota import Node, find_height_of_lowest_subtree_that_fits


class Mode(IntEnum):
    """How a flavor could be assigned, worst first."""

    NO_FIT = 0
    NO_PREEMPTION_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


@dataclass(frozen=True)
class Grade:
    """A mode with its borrowing level; 0 borrows nothing."""

    mode: Mode
    borrowing: int


Oracle = Callable[[Work, FlavorResource, int], Grade]


@dataclass
class Assignment:
    """The outcome for one workload. `message` is empty when everything fits."""

    grade: Mode
    pod_sets: list[PodSetAdmission] = field(default_factory=list)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    needing: set[FlavorResource] = field(default_factory=set)
    borrowing: int = 0
    message: str = ""


@dataclass
class _Choice:
    flavors: dict[str, str] = field(default_factory=dict)
    grades: dict[str, Grade] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


class Assigner:
    """Assigns flavors for one ClusterQueue on the quota tree as it stands."""

    def __init__(self, queue: QueueSpec, node: Node, flavors: Mapping[str, Flavor], oracle: Oracle) -> None:
        self._queue = queue
        self._node = node
        self._flavors = flavors
        self._oracle = oracle

    def assign(self, work: Work) -> Assignment:
        """Rule: every resource of every pod set needs a flavor; resources of one group share it."""
        result = Assignment(Mode.FIT)
        texts = []
        for pods in work.pod_sets:
            choice, failed = self._pod_set(work, pods, result.usage)
            if choice.reasons:
                reasons = ", ".join(sorted(choice.reasons))
                texts.append(f"couldn't assign flavors to pod set {pods.name}: {reasons}")
            if failed:
                result.grade, result.message = Mode.NO_FIT, "; ".join(texts)
                return result
            self._record(result, pods, choice)
        result.message = "" if result.grade is Mode.FIT else "; ".join(texts)
        return result

    def _record(self, result: Assignment, pods: PodSet, choice: _Choice) -> None:
        for resource, flavor in choice.flavors.items():
            fr = FlavorResource(flavor, resource)
            grade = choice.grades[resource]
            result.usage[fr] = result.usage.get(fr, 0) + pods.requests[resource]
            result.borrowing = max(result.borrowing, grade.borrowing)
            if grade.mode is not Mode.FIT:
                result.needing.add(fr)
                result.grade = min(result.grade, grade.mode)
        usage = {resource: pods.requests[resource] for resource in choice.flavors}
        result.pod_sets.append(PodSetAdmission(pods.name, pods.count, dict(choice.flavors), usage))

    def _pod_set(self, work: Work, pods: PodSet, used: Mapping[FlavorResource, int]) -> tuple[_Choice, bool]:
        total = _Choice()
        for resource, quantity in sorted(pods.requests.items()):
            group = self._queue.group_of(resource)
            if (group is None and quantity == 0) or resource in total.flavors:
                continue
            if group is None:
                return _Choice(reasons=[f"resource {resource} unavailable in ClusterQueue"]), True
            found = self._group(work, pods, group, used)
            if not found.flavors:
                return found, True
            total.flavors.update(found.flavors)
            total.grades.update(found.grades)
            total.reasons += found.reasons
        return total, False

    def _group(
        self, work: Work, pods: PodSet, group: ResourceGroup, used: Mapping[FlavorResource, int]
    ) -> _Choice:
        wanted = {r: q for r, q in sorted(pods.requests.items()) if r in group.covered}
        best, best_grade, reasons = _Choice(), Grade(Mode.NO_FIT, 1 << 30), []
        for name in group.flavors:
            unsuitable = self._unsuitable(name, pods)
            if unsuitable:
                reasons.append(unsuitable)
                continue
            tried, grade = self._try_flavor(work, name, wanted, used)
            reasons += tried.reasons
            if not _try_next(grade, self._queue.fungibility):
                best, best_grade = tried, grade
                break
            if _preferred(grade, best_grade, self._queue.fungibility):
                best, best_grade = tried, grade
        fits = best_grade.mode is Mode.FIT
        return _Choice(best.flavors, best.grades, [] if fits else reasons)

    def _try_flavor(
        self, work: Work, flavor: str, wanted: Mapping[str, int], used: Mapping[FlavorResource, int]
    ) -> tuple[_Choice, Grade]:
        choice, worst = _Choice(), Grade(Mode.FIT, 0)
        for resource, quantity in wanted.items():
            fr = FlavorResource(flavor, resource)
            grade, reason = self._fits(work, fr, used.get(fr, 0), quantity)
            if reason:
                choice.reasons.append(reason)
            if _preferred(worst, grade, self._queue.fungibility):
                worst = grade
            if worst.mode is Mode.NO_FIT:
                continue
            choice.flavors[resource], choice.grades[resource] = flavor, grade
        if worst.mode is Mode.NO_FIT:
            choice.flavors, choice.grades = {}, {}
        return choice, worst

    def _fits(self, work: Work, fr: FlavorResource, assumed: int, request: int) -> tuple[Grade, str]:
        value, most = assumed + request, self._node.potential_available(fr)
        if value > most:
            words = [render(fr.resource, v) for v in (assumed, request, most)]
            return Grade(Mode.NO_FIT, 0), (
                f"insufficient quota for {fr.resource} in flavor {fr.flavor}, "
                f"previously considered podsets requests ({words[0]}) + "
                f"current podset request ({words[1]}) > maximum capacity ({words[2]})"
            )
        level, may_reclaim = find_height_of_lowest_subtree_that_fits(self._node, fr, value)
        free = self._node.available(fr)
        if value <= free:
            return Grade(Mode.FIT, level), ""
        # A queue above its quota has nothing left, not less than nothing.
        missing = render(fr.resource, value - max(0, free))
        reason = f"insufficient unused quota for {fr.resource} in flavor {fr.flavor}, {missing} more needed"
        while_borrowing = self._queue.preemption.borrow_within_cohort != "Never"
        if self._node.quota(fr).nominal >= value or may_reclaim or while_borrowing:
            return self._oracle(work, fr, value), reason
        return Grade(Mode.NO_FIT, level), reason

    def _unsuitable(self, name: str, pods: PodSet) -> str:
        flavor = self._flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        taint = untolerated(flavor.node_taints, [*pods.tolerations, *flavor.tolerations])
        if taint is not None:
            return f"untolerated taint {taint_text(taint)} in flavor {name}"
        keys = flavor.node_labels.keys()
        selector = {key: value for key, value in pods.node_selector.items() if key in keys}
        terms: list[Mapping[str, Any]] = []
        for term in required_terms(pods.affinity):
            known = [e for e in term.get("matchExpressions") or () if e["key"] in keys]
            if not known:
                # A term without a key of this flavor matches any of its nodes, and terms are ORed.
                terms = []
                break
            terms.append({"matchExpressions": known})
        if not node_matches(selector, terms, flavor.node_labels):
            return f"flavor {name} doesn't match node affinity"
        return ""


def _try_next(grade: Grade, policy: Fungibility) -> bool:
    if grade.mode in (Mode.NO_FIT, Mode.NO_PREEMPTION_CANDIDATES):
        return True
    if grade.mode in (Mode.PREEMPT, Mode.RECLAIM) and policy.when_can_preempt == "TryNextFlavor":
        return True
    return grade.borrowing > 0 and policy.when_can_borrow == "TryNextFlavor"


def _preferred(a: Grade, b: Grade, policy: Fungibility) -> bool:
    """Whether `a` ranks above `b`: no fit last, then flavors without candidates, then the preference."""
    if Mode.NO_FIT in (a.mode, b.mode):
        return a.mode is not Mode.NO_FIT
    lacking = (a.mode is Mode.NO_PREEMPTION_CANDIDATES, b.mode is Mode.NO_PREEMPTION_CANDIDATES)
    if lacking[0] != lacking[1]:
        return lacking[1]
    if policy.preference == "PreemptionOverBorrowing":
        return (-a.borrowing, a.mode) > (-b.borrowing, b.mode)
    return (a.mode, -a.borrowing) > (b.mode, -b.borrowing)
