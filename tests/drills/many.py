"""An installation with as many tenants as a drill wants: rows, objects in the cluster, the mirror of them."""

import itertools
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from uuid import uuid4

from django.utils import timezone

from apps.accounts.models import User
from apps.cluster.mirror.rules.mirror_columns import Sighting, columns
from apps.cluster.models import Cluster, MirrorObject
from apps.cluster.objects import names
from apps.cluster.objects.fields import digest
from apps.cluster.objects.kinds import KINDS, WATCHED
from apps.cluster.specs import Body, Manifest
from apps.cluster.watching.services.ingest import Ingest, Listed, Pace
from apps.quotas.allowances.selectors import entitlements as quotas
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.services import adoption
from apps.quotas.kueue.manifests import render_queue
from apps.quotas.models import Offer, Quota, TenantQueue
from apps.tenants import selectors
from apps.tenants.isolation.manifests import render_tenant
from apps.tenants.lifecycle.services import tenancy
from apps.tenants.models import Department, Membership, Tenant
from apps.tenants.specs import MemberSpec, Role, TenantPhase, TrustLevel
from tests import factories
from tests.conftest import as_actor
from tests.drills.world import RECONCILES, Hint
from tests.quotas.fleet import with_fleet
from tests.tenants.in_process import InProcess, resource

PER_DEPARTMENT = 10
BATCH = 500


class Estate:
    """One cluster with the fleet `story`; `hints` is the queue.

    `fill` adds alike tenants in bulk, each with a lead, quota of the first offer, and its objects in cluster
    and mirror as after a reconcile; `create` makes one as people do.
    """

    def __init__(self, cluster: Cluster, hints: list[Hint]) -> None:
        self.cluster, self.hints = cluster, hints
        self.gateway = with_fleet(InProcess())
        self.ingest = Ingest(cluster, lambda _known: None, Pace(0))
        self.petra = as_actor(factories.make_user("petra", platform_role="platform"))
        for kind in WATCHED:
            self.ingest.write([Listed(kind, self.listed(kind), "1")])
        adoption.adopt_inventory(actor=self.petra, cluster=cluster, now=timezone.now())
        self.work()
        self.offer = Offer.objects.filter(cluster=cluster).order_by("slug")[0]
        self._model, _ = self.create("model")
        queue = TenantQueue.objects.select_related("tenant__department").get(tenant=self._model)
        self._tenant_spec = selectors.tenant_spec(self._model)
        self._queue_spec = quotas.queue_spec(queue, namespace_is_there=True)

    def create(self, slug: str) -> tuple[Tenant, int]:
        """A tenant of a new department, with quota, all of it in the cluster; and the writes that took.

        Its lead joins afterwards: an account and a binding more for each person are not the tenant's.
        """
        now, department = timezone.now(), self._department(f"home-of-{slug}")
        self.gateway.calls.clear()
        tenant = tenancy.create_tenant(
            actor=self.petra,
            slug=slug,
            name="",
            department=department,
            trust_level=TrustLevel.STANDARD,
            now=now,
        )
        quota_changes.set_quota(
            actor=self.petra, tenant=tenant, offer=self.offer, amounts=Amounts(1, 2), now=now
        )
        self.work()
        writes = len(self.gateway.calls)
        user = factories.make_user(f"lead-of-{slug}")
        tenancy.set_member(actor=self.petra, tenant=tenant, username=user.username, role=Role.LEAD, now=now)
        self.work()
        tenant.refresh_from_db()
        assert tenant.phase == TenantPhase.READY
        return tenant, writes

    def work(self) -> None:
        """Follow every hint until there is none."""
        while self.hints:
            taken = list(dict.fromkeys(self.hints))
            self.hints.clear()
            for owner, pk in taken:
                RECONCILES[owner](pk, gateway=self.gateway)

    def look_again(self, tenants: list[Tenant]) -> None:
        """A reconcile of each tenant and of its queue."""
        for tenant in tenants:
            RECONCILES["tenant"](str(tenant.pk), gateway=self.gateway)
            RECONCILES["queue"](str(tenant.pk), gateway=self.gateway)

    def some(self, count: int) -> list[Tenant]:
        """A few of the tenants made in bulk."""
        rows = list(Tenant.objects.filter(slug__startswith="bulk-").values_list("pk", flat=True))
        chosen = random.Random(len(rows)).sample(rows, min(count, len(rows)))
        return list(Tenant.objects.filter(pk__in=chosen))

    def lead_of(self, tenant: Tenant) -> User:
        return Membership.objects.select_related("user").get(tenant=tenant).user

    def listed(self, kind: str) -> list[Body]:
        """What a list of the kind answers, as the followers ask it."""
        items, _ = self.gateway.list(kind, label_selector=KINDS[kind].selector)
        return items

    def fill(self, size: int) -> None:
        """Bring the installation to that many tenants."""
        for number in range(Tenant.objects.count(), size, BATCH):
            self._add(range(number, min(size, number + BATCH)))

    def _add(self, numbers: range) -> None:
        homes = self._departments(len(numbers) // PER_DEPARTMENT + 1)
        users = [User(username=f"lead-{number}", password="!") for number in numbers]
        tenants = [self._tenant(n, homes[i // PER_DEPARTMENT]) for i, n in enumerate(numbers)]
        queues = [self._queue(tenant) for tenant in tenants]
        User.objects.bulk_create(users)
        Tenant.objects.bulk_create(tenants)
        TenantQueue.objects.bulk_create(queues)
        Quota.objects.bulk_create(
            Quota(tenant=tenant, offer=self.offer, nominal_quota=1, borrowing_limit=2) for tenant in tenants
        )
        Membership.objects.bulk_create(
            Membership(tenant=tenant, user=user, role=Role.LEAD)
            for tenant, user in zip(tenants, users, strict=True)
        )
        seen = [
            self._seen(manifest)
            for tenant, queue, user in zip(tenants, queues, users, strict=True)
            for manifest in self._manifests(tenant, queue, user)
        ]
        MirrorObject.objects.bulk_create(seen, batch_size=500)

    def _departments(self, count: int) -> list[Department]:
        """New ones, with their cohorts in the cluster."""
        start = Department.objects.count()
        return [self._department(f"home-{number}") for number in range(start, start + count)]

    def _department(self, slug: str) -> Department:
        made = tenancy.create_department(
            actor=self.petra, slug=slug, name="", cluster=self.cluster, now=timezone.now()
        )
        self.work()
        return made

    def _tenant(self, number: int, department: Department) -> Tenant:
        row_id, slug, generation = uuid4(), f"bulk-{number}", self._model.generation
        return Tenant(
            id=row_id, cluster=self.cluster, department=department, slug=slug, name=slug,
            object_name=names.object_name(slug, row_id), phase=TenantPhase.READY, generation=generation,
            observed_generation=generation, attested_generation=generation,
        )  # fmt: skip

    def _queue(self, tenant: Tenant) -> TenantQueue:
        generation = self._queue_spec.generation
        return TenantQueue(
            tenant=tenant, cluster=self.cluster, generation=generation, observed_generation=generation,
            tenant_generation=tenant.generation,
        )  # fmt: skip

    def _manifests(self, tenant: Tenant, queue: TenantQueue, user: User) -> list[Manifest]:
        """What a reconcile of the tenant and of its queue applies."""
        name, cohort = tenant.object_name, tenant.department.object_name
        member = MemberSpec(selectors.account_name(tenant, user.pk), Role.LEAD)
        spec = replace(
            self._tenant_spec, id=str(tenant.pk), slug=tenant.slug, members=(member,), object_name=name,
            cohort=cohort,
        )  # fmt: skip
        queued = replace(
            self._queue_spec, id=str(queue.pk), tenant=tenant.slug, object_name=name, cohort=cohort
        )
        return [*render_tenant(spec), *render_queue(queued)]

    def _seen(self, manifest: Manifest) -> MirrorObject:
        """The object, applied, and its row as after that."""
        kind = manifest["kind"]
        sighting = Sighting(kind, self.gateway.client.apply(resource(kind), manifest))
        facts, ref = columns(sighting), sighting.ref
        return MirrorObject(
            cluster=self.cluster, kind=kind, namespace=ref.namespace, name=ref.name, **facts,
            sent_hash=digest(manifest), applied_hash=facts["live_hash"],
        )  # fmt: skip


def calls_of(ask: Callable[[], object]) -> int:
    """How many functions, Python's and C's, run for it: a cost that no busy machine changes."""
    calls = itertools.count()

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            next(calls)

    ask()  # what is made once per process is not this one's cost
    sys.setprofile(note)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return next(calls)
