"""What a change of quota will do, told before it is kept: the sum against the inventory, who starts, who
loses borrowed devices. A part of the selectors' floor: reads rows and mirror, and never asks the cluster.

The change is in the rows already (the caller rolls it back); the cluster still has the queues of before.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from apps.accounts.specs import Actor
from apps.cluster import names
from apps.cluster import selectors as mirror
from apps.cluster.queueing import QueueState
from apps.cluster.specs import Body
from apps.quotas import observation, selectors, standing
from apps.quotas.manifests import render_queue
from apps.quotas.models import Offer, Quota, TenantQueue
from apps.quotas.predict import reading, scheduling
from apps.quotas.predict.view import Prediction, View
from apps.tenants.models import Tenant
from apps.tenants.selectors import neighbours_of, tenants_for
from apps.tenants.specs import RESERVE_SUFFIX

LIVING = (QueueState.WAITS, QueueState.HOLDS)
OTHERS = "another department"
MOST_WAITING = 2_000
"""More work than this in one department's tree is not predicted while somebody waits for the page."""


@dataclass(frozen=True)
class Moved:
    """One workload that the change moves; `to` is the tenant that gets its devices."""

    tenant: str
    name: str
    devices: int
    offer: str
    to: str = ""
    uid: str = ""


@dataclass(frozen=True)
class Effect:
    """All of it. `promised` is what all tenants of the cluster are guaranteed of the offer, `owned` what
    there is; `over` is what the tenant runs above its new limits. `unknown` says why nobody can tell who
    starts.
    """

    owned: int
    promised_before: int
    promised: int
    over: int
    starts: tuple[Moved, ...] = ()
    loses: tuple[Moved, ...] = ()
    unknown: str = ""

    @property
    def sum_sentence(self) -> str:
        """The sum against the inventory."""
        there = f"{self.promised} of {self.owned} devices are promised ({self.promised_before} before)"
        more = self.promised - self.owned
        return f"{there}: {more} more than there are." if more > 0 else f"{there}."

    @property
    def over_sentence(self) -> str:
        """What runs above the new limits; empty when nothing does."""
        words = f"{self.over} running devices are above the new limit: they stay until they end."
        return words if self.over else ""


def of_quota(tenant: Tenant, offer: Offer, *, before: int, now: datetime) -> Effect:
    """The effect of the tenant's present rows of the offer, against `before`, what it was guaranteed."""
    own = Quota.objects.filter(tenant=tenant, offer=offer).first()
    promised = standing.promised(offer, now=now)
    effect = Effect(
        owned=standing.owned(offer),
        promised_before=promised - (own.nominal_quota if own else 0) + before,
        promised=promised,
        over=_over(tenant, offer, now),
    )
    return _with_work(effect, tenant, now)


def of_move(giver: Tenant, taker: Tenant, offer: Offer, *, now: datetime) -> Effect:
    """The effect of a move between two tenants of one department, whose rows are moved already."""
    promised = standing.promised(offer, now=now)
    effect = Effect(standing.owned(offer), promised, promised, _over(giver, offer, now))
    return _with_work(effect, giver, now, taker)


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
    entitled = selectors.entitlements(tenant.department_id, now=now)
    own = next((e.quota for e in entitled if (e.tenant.pk, e.offer.pk) == (tenant.pk, offer.pk)), None)
    if own is None:
        return used
    return 0 if own.borrowing_limit is None else max(0, used - own.most)


def _with_work(effect: Effect, tenant: Tenant, now: datetime, *others: Tenant) -> Effect:
    tree = _Tree(tenant, now, *others)
    if tree.unknown:
        return Effect(
            effect.owned, effect.promised_before, effect.promised, effect.over, unknown=tree.unknown
        )
    stays = scheduling.predict(tree.view(tree.before), now=now)
    moves = scheduling.predict(tree.view(tree.after), now=now)
    starts = [key for key in moves.starts if key not in stays.starts]
    loses = [key for key in moves.preempted if key not in stays.preempted and key not in moves.returns]
    return Effect(
        effect.owned,
        effect.promised_before,
        effect.promised,
        effect.over,
        starts=tuple(tree.moved(key) for key in starts),
        loses=tuple(tree.moved(key, by=moves.preempted[key]) for key in loses),
        unknown="" if _is_sound(stays, moves) else "Too much changes at once to tell who starts.",
    )


def _is_sound(*predictions: Prediction) -> bool:
    return all(each.is_settled for each in predictions)


class _Tree:
    """The queues and the work that share quota with a tenant, as the mirror has them; `others` of its
    department change with it.
    """

    def __init__(self, tenant: Tenant, now: datetime, *others: Tenant) -> None:
        self.cohorts = {b["metadata"]["name"]: b for b in mirror.bodies(tenant.cluster, "Cohort")}
        queues = {b["metadata"]["name"]: b for b in mirror.bodies(tenant.cluster, "ClusterQueue")}
        root = self._root(tenant.department.object_name)
        self.before = {
            name: body
            for name, body in queues.items()
            if self._root(body["spec"].get("cohortName", "")) == root
        }
        changed = _as_they_shall_be(now, tenant, *others)
        self.after = {n: b for n, b in self.before.items() if not _is_reserve_of(n, changed)} | changed
        tenants = Tenant.objects.filter(cluster=tenant.cluster, object_name__in=self.after)
        self.tenants = dict(tenants.values_list("object_name", "slug"))
        offers = Offer.objects.filter(cluster=tenant.cluster)
        self.offers = dict(offers.values_list("resource_name", "name"))
        found = mirror.objects(tenant.cluster, "Workload").filter(namespace__in=self.tenants)
        living = found.filter(queue_state__in=LIVING).values_list("body", flat=True)[: MOST_WAITING + 1]
        self.work = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in living}
        self.unknown = self._why_unknown(tenant)

    def view(self, queues: Mapping[str, Body]) -> View:
        """What a prediction starts from with these queues."""
        local = {
            (body["metadata"]["namespace"], body["spec"].get("queueName", "")): body["metadata"]["namespace"]
            for body in self.work.values()
        }
        return reading.view(queues.values(), self.cohorts.values(), self.work.values(), local=local)

    def moved(self, key: str, *, by: str = "") -> Moved:
        """A workload in words: our own by the name it was given."""
        body = self.work[key]
        asked = observation.requested(body)
        name = next(iter(asked), "")
        owner: Body = next(iter(body["metadata"].get("ownerReferences") or ()), {})
        return Moved(
            tenant=self.tenants[body["metadata"]["namespace"]],
            name=readable(owner.get("name", body["metadata"]["name"])),
            devices=asked[name],
            offer=self.offers.get(name, name),
            to=f"{self.tenants[self.work[by]['metadata']['namespace']]}" if by else "",
            uid=str((body["metadata"].get("labels") or {}).get(names.LABEL_UID, "")),
        )

    def _root(self, cohort: str) -> str:
        for _ in range(len(self.cohorts)):
            parent = (self.cohorts.get(cohort, {}).get("spec") or {}).get("parentName")
            if not parent:
                break
            cohort = parent
        return cohort

    def _why_unknown(self, tenant: Tenant) -> str:
        if tenant.cluster.silent_since is not None:
            return f"{tenant.cluster.name} is silent: what its queues do now is not known."
        if any("fairSharing" in (body.get("status") or {}) for body in self.before.values()):
            return "Kueue shares fairly here (fairSharing is on): who starts is not predicted."
        if len(self.work) > MOST_WAITING:
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
        selectors.queue_spec(queue, namespace_is_there=False, now=now)
        for queue in rows.select_related("tenant__department", "tenant__cluster")
    ]
    return {each["metadata"]["name"]: each for spec in specs for each in render_queue(spec)}


def _is_reserve_of(name: str, queues: Collection[str]) -> bool:
    return name.endswith(RESERVE_SUFFIX) and name.removesuffix(RESERVE_SUFFIX) in queues
