"""What a change of quota, or of a department's place, will do, told before it is kept: the sum against the
inventory, who starts, who loses borrowed devices. Reads rows and mirror, and never asks the cluster.

The change is in the rows already (the caller rolls it back); the cluster still has the queues of before.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors import inventory as mirror
from apps.cluster.models import Cluster
from apps.cluster.objects import names
from apps.cluster.objects.queueing import QueueState
from apps.cluster.specs import Body
from apps.quotas.allowances.selectors import entitlements
from apps.quotas.catalogue.selectors import stock
from apps.quotas.kueue import observation
from apps.quotas.kueue.manifests import render_queue
from apps.quotas.kueue.predict import reading, scheduling
from apps.quotas.kueue.predict.tree import Snapshot
from apps.quotas.kueue.predict.view import Prediction, View
from apps.quotas.models import Grant, Offer, Quota, TenantQueue
from apps.tenants.isolation.manifests import render_department
from apps.tenants.models import Department, Tenant
from apps.tenants.selectors import department_spec, neighbours_of, tenants_for
from apps.tenants.specs import RESERVE_SUFFIX

LIVING = (QueueState.WAITS, QueueState.HOLDS)
OTHERS = "another department"
MOST_WAITING = 2_000
"""More work than this in one department's tree is not predicted while somebody waits for the page."""


@dataclass(frozen=True)
class Moved:
    """One workload that the change moves, in `pods` of as many devices; `to` is the tenant that gets its
    devices.
    """

    tenant: str
    name: str
    devices: int
    offer: str
    to: str = ""
    uid: str = ""
    pods: int = 1


@dataclass(frozen=True)
class Moves:
    """Who gets and who loses devices; `over` is what runs above the new limits. `unknown` says why nobody can
    tell who starts; `units` are what is counted.
    """

    over: int = 0
    starts: tuple[Moved, ...] = ()
    loses: tuple[Moved, ...] = ()
    unknown: str = ""
    units: str = "devices"

    @property
    def over_sentence(self) -> str:
        """What runs above the new limits; empty when nothing does."""
        if self.over == 1:
            one = self.units.removesuffix("s")
            return f"1 {one} in use exceeds the new limit; it stays until its work ends."
        words = f"{self.over} {self.units} in use exceed the new limit; they stay until their work ends."
        return words if self.over else ""


@dataclass(frozen=True, kw_only=True)
class Effect(Moves):
    """That of a change of quota. `promised` is what all tenants of the cluster are guaranteed of the offer,
    `owned` what there is.
    """

    owned: int
    promised_before: int
    promised: int

    @property
    def sum_sentence(self) -> str:
        """The sum against the inventory."""
        there = f"{self.promised} of {self.owned} {self.units} are promised ({self.promised_before} before)"
        more = self.promised - self.owned
        return f"{there}: {more} more than there are." if more > 0 else f"{there}."


Found = TypeVar("Found", bound=Moves)


def preview_quota_effect(tenant: Tenant, offer: Offer, *, before: int, now: datetime) -> Effect:
    """The effect of the tenant's present rows of the offer, against `before`, what it was guaranteed."""
    own = Quota.objects.filter(tenant=tenant, offer=offer).first()
    promised = stock.promised(offer, now=now)
    effect = Effect(
        owned=stock.capacity_of(offer),
        promised_before=promised - (own.nominal_quota if own else 0) + before,
        promised=promised,
        over=_over(tenant, offer, now),
        units=offer.units,
    )
    return _foreseen(effect, _of_tenants(now, tenant), now)


def of_grant(grant: Grant, *, gives: int, now: datetime) -> Effect:
    """The effect of a grant's present row, which guarantees `gives` more at this moment than before."""
    own = Quota.objects.filter(tenant=grant.tenant_id, offer=grant.offer_id).first()
    before = (own.nominal_quota if own else 0) - gives
    return preview_quota_effect(grant.tenant, grant.offer, before=before, now=now)


def of_move(giver: Tenant, taker: Tenant, offer: Offer, *, now: datetime) -> Effect:
    """The effect of a move between two tenants of one department, whose rows are moved already."""
    promised = stock.promised(offer, now=now)
    over, owned = _over(giver, offer, now), stock.capacity_of(offer)
    effect = Effect(over, owned=owned, promised_before=promised, promised=promised, units=offer.units)
    return _foreseen(effect, _of_tenants(now, giver, taker), now)


def of_share(department: Department, *, now: datetime) -> Moves:
    """The effect of a department's present row: in the tree where the cluster still has it, and in the one
    where it goes.
    """
    (cohort,) = render_department(department_spec(department))
    above = [department.parent.object_name] if department.parent else []
    changed = {cohort["metadata"]["name"]: cohort}
    tree = _Tree(department.cluster, [department.object_name, *above], cohorts=changed)
    over = 0 if tree.unknown else tree.above_bounds(department.object_name)
    return _foreseen(Moves(over), tree, now)


def seen_by(actor: Actor, found: Effect) -> Effect:
    """The effect as far as the actor may know of tenants that it is no part of."""
    known = neighbours_of(actor)
    if known is None:
        return found
    return masked(found, frozenset(tenants_for(actor).values_list("slug", flat=True)), known)


def masked(found: Effect, named: Collection[str], known: Collection[str]) -> Effect:
    """The same effect for somebody who sees the work of the tenants in `named` alone, and may be told that
    those in `known` are there: of others' work only how much.
    """

    def seen(each: Moved) -> Moved:
        tenant, to = (name if not name or name in known else OTHERS for name in (each.tenant, each.to))
        if each.tenant in named:
            return replace(each, to=to)
        return replace(each, tenant=tenant, name="a workload", uid="", to=to)

    starts, loses = (tuple(map(seen, moved)) for moved in (found.starts, found.loses))
    return replace(found, starts=starts, loses=loses)


def _over(tenant: Tenant, offer: Offer, now: datetime) -> int:
    body = mirror.named(tenant.cluster, "ClusterQueue", [tenant.object_name]).first()
    used = observation.reserved(body.body)[offer.resource_name] if body else 0
    entitled = entitlements.entitlements(tenant.department_id, now=now)
    own = next((e.quota for e in entitled if (e.tenant.pk, e.offer.pk) == (tenant.pk, offer.pk)), None)
    if own is None:
        return used
    return 0 if own.borrowing_limit is None else max(0, used - own.most)


def _foreseen(found: Found, tree: "_Tree", now: datetime) -> Found:
    """The same with who starts and who loses devices in the tree."""
    if tree.unknown:
        return replace(found, unknown=tree.unknown)
    stays = scheduling.predict(tree.stays, now=now)
    moves = scheduling.predict(tree.moves, now=now)
    starts = [key for key in moves.starts if key not in stays.starts]
    loses = [key for key in moves.preempted if key not in stays.preempted and key not in moves.returns]
    return replace(
        found,
        starts=tuple(tree.moved(key) for key in starts),
        loses=tuple(tree.moved(key, by=moves.preempted[key]) for key in loses),
        unknown="" if _is_sound(stays, moves) else "Too much changes at once to predict who starts.",
    )


def _of_tenants(now: datetime, tenant: Tenant, *others: Tenant) -> "_Tree":
    """The tree of these tenants of one department, whose quota changes."""
    changed = _as_they_shall_be(now, tenant, *others)
    return _Tree(tenant.cluster, [tenant.department.object_name], queues=changed)


def _is_sound(*predictions: Prediction) -> bool:
    return all(each.is_settled for each in predictions)


class _Tree:
    """The queues and the work that share quota with these cohorts, as the mirror has them. `queues` and
    `cohorts` are those that change, as they shall be.
    """

    def __init__(
        self,
        cluster: Cluster,
        homes: Iterable[str],
        *,
        queues: Mapping[str, Body] = MappingProxyType({}),
        cohorts: Mapping[str, Body] = MappingProxyType({}),
    ) -> None:
        self._cluster = cluster
        self._cohorts = {b["metadata"]["name"]: b for b in mirror.bodies(cluster, "Cohort")}
        known = {b["metadata"]["name"]: b for b in mirror.bodies(cluster, "ClusterQueue")}
        roots = {self._root(home) for home in homes}
        self._before = {
            name: body
            for name, body in known.items()
            if self._root(body["spec"].get("cohortName", "")) in roots
        }
        after = {n: b for n, b in self._before.items() if not _is_reserve_of(n, queues)}
        after |= queues
        tenants = Tenant.objects.filter(cluster=cluster, object_name__in=after)
        self._tenants = dict(tenants.values_list("object_name", "slug"))
        offers = Offer.objects.filter(cluster=cluster)
        self._offers = dict(offers.values_list("resource_name", "name"))
        found = mirror.objects(cluster, "Workload").filter(namespace__in=self._tenants)
        living = found.filter(queue_state__in=LIVING).values_list("body", flat=True)[: MOST_WAITING + 1]
        self._work = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in living}
        self.unknown = self._why_unknown()
        self.stays = self._view(self._before, self._cohorts)
        self.moves = self._view(after, {**self._cohorts, **cohorts})

    def above_bounds(self, cohort: str) -> int:
        """How many devices run below the cohort above what it may borrow once it is changed."""
        node = Snapshot(self.moves).cohorts[cohort]
        return sum(
            max(0, node.usage[fr] - node.subtree_quota[fr] - quota.borrowing_limit)
            for fr, quota in node.quotas.items()
            if quota.borrowing_limit is not None
        )

    def _view(self, queues: Mapping[str, Body], cohorts: Mapping[str, Body]) -> View:
        """What a prediction starts from with these."""
        local = {
            (body["metadata"]["namespace"], body["spec"].get("queueName", "")): body["metadata"]["namespace"]
            for body in self._work.values()
        }
        return reading.view(queues.values(), cohorts.values(), self._work.values(), local=local)

    def moved(self, key: str, *, by: str = "") -> Moved:
        """A workload in words: our own by the name it was given."""
        body = self._work[key]
        asked = observation.requested(body)
        name = next(iter(asked), "")
        owner: Body = next(iter(body["metadata"].get("ownerReferences") or ()), {})
        return Moved(
            tenant=self._tenants[body["metadata"]["namespace"]],
            name=readable(owner.get("name", body["metadata"]["name"])),
            devices=asked[name],
            offer=self._offers.get(name, name),
            to=f"{self._tenants[self._work[by]['metadata']['namespace']]}" if by else "",
            uid=str((body["metadata"].get("labels") or {}).get(names.LABEL_UID, "")),
            pods=sum(each.get("count", 1) for each in body["spec"]["podSets"]),
        )

    def _root(self, cohort: str) -> str:
        for _ in range(len(self._cohorts)):
            parent = (self._cohorts.get(cohort, {}).get("spec") or {}).get("parentName")
            if not parent:
                break
            cohort = parent
        return cohort

    def _why_unknown(self) -> str:
        if self._cluster.silent_since is not None:
            return f"{self._cluster.name} is silent: the state of its queues is unknown."
        if any("fairSharing" in (body.get("status") or {}) for body in self._before.values()):
            return "Kueue shares fairly here (fairSharing is on): who starts is not predicted."
        if len(self._work) > MOST_WAITING:
            return f"More than {MOST_WAITING} workloads share this quota: who starts is not predicted."
        return ""


def readable(object_name: str) -> str:
    """A workload's slug out of its object's name: what `names.object_name` put behind it is cut off."""
    head, _, tail = object_name.rpartition("-")
    return head if head and len(tail) == names.SUFFIX_LENGTH else object_name


def _as_they_shall_be(now: datetime, *changed: Tenant) -> dict[str, Body]:
    """The queues that a change of these tenants' quota alters: theirs, and what borrows without limit."""
    departments = {tenant.department_id for tenant in changed}
    unlimited = Quota.objects.filter(tenant__department__in=departments, borrowing_limit=None)
    tenants = {*(tenant.pk for tenant in changed), *unlimited.values_list("tenant", flat=True)}
    rows = TenantQueue.objects.filter(tenant__in=tenants, deleted_at=None)
    specs = [
        entitlements.queue_spec(queue, namespace_is_there=False, now=now)
        for queue in rows.select_related("tenant__department", "tenant__cluster")
    ]
    return {each["metadata"]["name"]: each for spec in specs for each in render_queue(spec)}


def _is_reserve_of(name: str, queues: Collection[str]) -> bool:
    return name.endswith(RESERVE_SUFFIX) and name.removesuffix(RESERVE_SUFFIX) in queues
