"""The whole product in one process: services, reconciles and the watcher's writer on a simulated cluster.

The queue is a list that the drill empties as it likes, time passes when the drill says so, and the watch can
be held back. Nothing of the product is replaced but the sending of a hint.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Q
from django.utils import timezone

from apps.accounts.specs import Actor
from apps.cluster.gateway.port import Gateway
from apps.cluster.models import Cluster, Reconciled
from apps.cluster.objects.kinds import KINDS, WATCHED
from apps.cluster.objects.names import LABEL_MANAGED_BY, MANAGER
from apps.cluster.reconciling.services import sweep
from apps.cluster.specs import Body, EventType, WatchEvent
from apps.cluster.watching.services.ingest import Beat, Ingest, Listed, Pace, Saw
from apps.quotas.allowances.services import queue_reconcile, quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.services import adoption, offer_reconcile
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.tenants.lifecycle.services import reconcile as tenant_reconcile
from apps.tenants.models import Department, Tenant
from apps.workloads.lifecycle.services import reconcile as workload_reconcile
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import Workload
from apps.workloads.secret_specs import SecretWish
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase, WorkloadRequest
from sandbox import controllers
from sandbox.api.controllers import lifecycle
from sandbox.api.controllers.manager import Manager
from sandbox.api.storage.store import Change
from tests import factories, yamls
from tests.conftest import as_actor
from tests.drills.door import Meddler
from tests.quotas.fleet import with_fleet
from tests.tenants.in_process import InProcess, resource

PRIORITIES = Path(__file__).parents[2] / "k8s" / "allotment" / "templates" / "priorities.yaml"

Hint = tuple[str, str]

MODELS: dict[str, type[Reconciled]] = {
    "department": Department,
    "tenant": Tenant,
    "flavor": Flavor,
    "offer": Offer,
    "queue": TenantQueue,
    "workload": Workload,
}
RECONCILES: dict[str, Callable[..., None]] = {
    "department": tenant_reconcile.reconcile_department,
    "tenant": tenant_reconcile.reconcile_tenant,
    "flavor": offer_reconcile.reconcile_flavor,
    "offer": offer_reconcile.reconcile_offer,
    "queue": queue_reconcile.reconcile_queue,
    "workload": workload_reconcile.reconcile,
}
MUCH_LATER = timedelta(hours=1)
A_SWEEP_AND_A_BACK_OFF = timedelta(seconds=70)
STEP_SECONDS = 3.0


FOLLOWED = (*WATCHED, "JobSet")
"""What the watcher follows here: of the optional kinds those that work is made of."""


@dataclass(frozen=True)
class Ask:
    """A request of the drills: small, of the one 1g.10gb slice unless another offer is named."""

    slug: str
    kind: str = "notebook"
    offer: str = "h100-1g-10gb"
    seconds: int = 90_000
    secrets: tuple[SecretWish, ...] = ()
    replicas: int = 1
    count: int = 1

    @property
    def body(self) -> dict[str, Any]:
        """As REST takes it."""
        spec: dict[str, Any] = {
            "kind": self.kind,
            "offer": self.offer,
            "count": self.count,
            "cpu": "500m",
            "memory": "1Gi",
            "image": "python:3.13",
        }
        more: dict[str, dict[str, Any]] = {
            "job": {"command": ["train"]},
            "training": {"command": ["train"], "training": {"nodes": 1}},
            "service": {"command": ["serve"], "service": {"replicas": self.replicas}},
        }
        return spec | more.get(self.kind, {})

    @property
    def labels(self) -> dict[str, str]:
        """How long a simulated job runs."""
        ends = self.kind in ("job", "training")
        return {"pod-complete.stage.kwok.x-k8s.io/delay": f"{self.seconds}s"} if ends else {}


class Watch:
    """What the API server would send on the watches of every kind; it reaches the mirror by `deliver`."""

    def __init__(self, door: InProcess, ingest: Ingest) -> None:
        self.door, self.ingest = door, ingest
        self.pending: list[Saw] = []
        self._kinds = {resource(kind): kind for kind in FOLLOWED}
        door.simulated.store.listen(self._follow)

    def deliver(self, kind: str = "") -> int:
        """Write what has come up, of every kind or of one, as one batch; answers how many messages."""
        taken = [saw for saw in self.pending if kind in ("", saw.kind)]
        self.pending = [saw for saw in self.pending if saw not in taken] if kind else []
        if taken:
            self.ingest.write([Beat(), *taken])
        return len(taken)

    def lose(self) -> None:
        """The connection was away: nothing of this ever arrives."""
        self.pending = []

    def relist(self) -> None:
        """After a 410: every kind whole, as the followers list it."""
        version = str(self.door.simulated.store.version)
        listed = [Listed(kind, self._items(kind), version) for kind in FOLLOWED]
        self.ingest.write([Beat(), *listed])

    def _items(self, kind: str) -> list[Body]:
        items, _ = self.door.list(kind, label_selector=KINDS[kind].selector)
        return items

    def _follow(self, change: Change) -> None:
        kind = self._kinds.get(change.resource)
        if kind is None or (KINDS[kind].selector and not _is_ours(change.obj)):
            return
        self.pending.append(Saw(kind, WatchEvent(EventType(change.type), copy.deepcopy(change.obj))))


def _is_ours(obj: Body) -> bool:
    return (obj["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGER


class World:
    """One cluster with the fleet `story`, the tenant vision with all of it, and its member rosa.

    `hints` is the queue. `gateway` is what reconciles call; `door` goes straight to the API server.
    """

    def __init__(self, cluster: Cluster, hints: list[Hint]) -> None:
        Cluster.objects.filter(pk=cluster.pk).update(is_simulated=True)
        cluster.refresh_from_db()
        self.cluster, self.hints = cluster, hints
        self.door = InProcess(datetime.now(UTC).replace(microsecond=0))
        self.manager = Manager(self.door.simulated)
        self.watch = Watch(self.door, Ingest(cluster, lambda _known: None, Pace(0)))
        self.gateway = Meddler(self.door)
        lifecycle.install(self.door.simulated, self.manager)
        controllers.install(self.door.simulated, self.manager)
        with_fleet(self.door)
        for priority in yamls.documents(PRIORITIES.read_text()):
            self.door.client.apply(resource(priority["kind"]), priority)
        self.watch.deliver()
        self._settle_people()
        self.settle()
        self.gateway.forget()

    def _settle_people(self) -> None:
        self.petra = as_actor(factories.make_user("petra", platform_role="platform"))
        department = factories.make_department(self.cluster, "research")
        self.tenant = factories.make_tenant(department, "vision")
        user = factories.make_user("rosa")
        factories.join(self.tenant, user)
        self.rosa: Actor = as_actor(user)
        adoption.adopt_inventory(actor=self.petra, cluster=self.cluster, now=self.now)
        for offer in Offer.objects.filter(cluster=self.cluster):
            quota_changes.set_quota(
                actor=self.petra, tenant=self.tenant, offer=offer, amounts=Amounts(1), now=self.now
            )

    @property
    def now(self) -> datetime:
        """The product's clock."""
        return timezone.now()

    def submit(self, ask: Ask) -> Workload:
        spec = parsing.parse(ask.body)
        request = WorkloadRequest(spec=spec, slug=ask.slug, labels=ask.labels, secrets=ask.secrets)
        return verbs.submit_workload(actor=self.rosa, tenant=self.tenant, request=request, now=self.now)

    def act(self, verb: str, row: Workload, **given: Any) -> None:
        """stop, resume, extend or delete, by rosa."""
        extra = {"delete": {"keep_volumes": False}}.get(verb, {"reason": ""})
        act = getattr(verbs, f"{verb}_workload")
        act(actor=self.rosa, workload=row, now=self.now, **{**extra, **given})

    def reconcile(self, owner: str, pk: str | UUID, gateway: Gateway | None = None) -> None:
        """What a worker does with one hint."""
        RECONCILES[owner](str(pk), gateway=gateway or self.gateway)

    def work(self) -> int:
        """Deliver every hint that is there, once, in order; equal ones together. Answers how many."""
        done = 0
        while self.hints:
            taken = list(dict.fromkeys(self.hints))
            self.hints.clear()
            for owner, pk in taken:
                self.reconcile(owner, pk)
            done += len(taken)
        return done

    def sweep(self, *, later: timedelta = timedelta()) -> int:
        """What beat starts every ten seconds: hint all that is due, `later` on the clock."""
        when = self.now + later
        return sum(sweep.hint_due(model, owner, when) for owner, model in MODELS.items())

    def lease_ends(self) -> None:
        """Whoever holds a row has been silent for longer than its lease."""
        past = self.now - timedelta(seconds=1)
        for model in MODELS.values():
            model._default_manager.exclude(lease_until=None).update(lease_until=past)

    def step(self) -> bool:
        """Some seconds pass: controllers act, the watch tells, workers follow the hints."""
        self.manager.advance(STEP_SECONDS)
        heard = self.watch.deliver()
        return bool(heard) | bool(self.work())

    def settle(self, most: int = 60) -> None:
        """Until nothing moves any more, not even when everything that has a date is looked at."""
        quiet = 0
        for _ in range(most):
            before = self.door.simulated.store.version
            self.step()
            moved = self.door.simulated.store.version != before
            failing = Q(attempts__gt=0, deleted_at=None)
            # A worker that died in the last look leaves a row that the next one finds.
            waits = Workload.objects.filter(failing | Q(lease_until__isnull=False)).exists()
            quiet = 0 if moved else quiet + 1
            if quiet == 1 or waits:
                self.sweep(later=MUCH_LATER)
                self.work()
                quiet = min(quiet, 1)
            if quiet == 2:
                return
        raise AssertionError(f"it never settles: {self.told()}")

    def settle_deaf(self, most: int = 60) -> None:
        """As `settle`, while no hint arrives at all: only what the sweep finds within 70 s is worked on."""
        quiet = 0
        for _ in range(most):
            before = (self.door.simulated.store.version, self.told())
            self.manager.advance(STEP_SECONDS)
            self.watch.deliver()
            self.hints.clear()
            self.sweep(later=A_SWEEP_AND_A_BACK_OFF)
            taken = list(self.hints)
            for owner, pk in taken:
                self.reconcile(owner, pk)
            self.hints.clear()
            quiet = quiet + 1 if before == (self.door.simulated.store.version, self.told()) else 0
            if quiet == 3:
                return
        raise AssertionError(f"it never settles without hints: {self.told()}")

    def told(self) -> list[Any]:
        """What the rows say, for a message."""
        return list(
            Workload.objects.order_by("pk").values_list(
                "slug", "phase", "generation", "observed_generation", "conditions"
            )
        )

    def phase(self, row: Workload) -> Phase:
        row.refresh_from_db()
        return Phase(row.phase)


class Clock:
    """The product's clock, moved on by the drill; leases go by the database's and do not notice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real, self.ahead = timezone.now, timedelta()
        monkeypatch.setattr(timezone, "now", self.now)

    def now(self) -> datetime:
        return self.real() + self.ahead
