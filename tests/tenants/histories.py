"""Random histories of tenancy and quota, and what each must lead to: the cluster of a fresh creation.

Each history runs in a transaction of its own against an API server in this process. Reconciles and the watch
come when chance wants them; in the end everything is settled and compared.
"""

import copy
from collections.abc import Callable
from typing import Any

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from apps.accounts.models import User
from apps.cluster.models import Cluster, MirrorObject, Reconciled
from apps.errors import DomainError
from apps.quotas import services as quotas
from apps.quotas.models import Flavor, Offer, TenantQueue
from apps.quotas.reconcile import reconcile_flavor, reconcile_offer, reconcile_queue
from apps.quotas.services import Amounts
from apps.tenants import lifecycle, people, services
from apps.tenants.models import Department, Tenant
from apps.tenants.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.services import TenantChange
from apps.tenants.specs import Egress, EgressMode, EgressRule, Role, Suspend, TrustLevel
from sandbox.api import lifecycle as namespaces
from sandbox.api.manager import Manager
from tests import factories
from tests.conftest import as_actor
from tests.factories import NOW
from tests.tenants.in_process import InProcess

MANAGED = "app.kubernetes.io/managed-by=allotment"
KINDS = (
    "Namespace", "ServiceAccount", "RoleBinding", "ResourceQuota", "LimitRange", "NetworkPolicy",
    "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "DeviceClass",
)  # fmt: skip
PEOPLE = 4
MOST_TENANTS = 3
ROUNDS = 12
"""After so many rounds of watch and reconcile nothing may be left to do."""

Objects = dict[tuple[str, str, str], Any]
reaches = st.sampled_from([
    Egress(), Egress(EgressMode.INTERNET), Egress(EgressMode.ALLOW_LIST, (EgressRule("10.2.0.0/16"),)),
])  # fmt: skip
chosen = st.integers(0, MOST_TENANTS - 1)
someone = st.integers(0, PEOPLE - 1)


def api_server() -> tuple[InProcess, Manager]:
    """An API server whose namespaces end as they do for real, with the one of the members' accounts."""
    gateway = InProcess()
    manager = Manager(gateway.simulated)
    namespaces.install(gateway.simulated, manager)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "allotment-access"}}
    gateway.client.create("namespaces", body)
    manager.drain()
    return gateway, manager


def objects_of(gateway: InProcess) -> Objects:
    """Every object of ours without what the server adds to it."""
    found = {}
    for kind in KINDS:
        for body in gateway.list(kind, label_selector=MANAGED)[0]:
            place = (kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
            found[place] = _bare(body)
    return found


def _bare(body: dict[str, Any]) -> dict[str, Any]:
    bare = copy.deepcopy(body)
    bare.pop("status", None)
    kept = ("name", "namespace", "labels", "annotations")
    bare["metadata"] = {key: bare["metadata"][key] for key in kept if key in bare["metadata"]}
    return bare


class Histories(RuleBasedStateMachine):
    """What may happen to tenants, in any order."""

    @initialize()
    def begin(self) -> None:
        """An empty transaction with two departments, people and one offer."""
        self.block = transaction.atomic()
        self.block.__enter__()
        self.gateway, self.manager = api_server()
        self.cluster = factories.make_cluster()
        self.departments = [factories.make_department(self.cluster, slug) for slug in ("research", "bio")]
        self.people = [factories.make_user(f"person-{number}") for number in range(PEOPLE)]
        self.petra = as_actor(factories.make_user("petra", platform_role="platform"))
        self.paul = as_actor(factories.make_user("paul", platform_role="platform"))
        self.offer = factories.make_offer(factories.make_flavor(self.cluster))
        self.made = 0

    def teardown(self) -> None:
        """Settle, compare, and undo everything."""
        if not hasattr(self, "block"):
            return
        try:
            self._judge()
        finally:
            transaction.set_rollback(True)
            self.block.__exit__(None, None, None)

    @precondition(lambda self: self.made < MOST_TENANTS)
    @rule(department=st.integers(0, 1))
    def create(self, department: int) -> None:
        services.create_tenant(
            actor=self.petra,
            slug=f"team-{self.made}",
            name="",
            department=self.departments[department],
            trust_level=TrustLevel.STANDARD,
            now=NOW,
        )
        self.made += 1

    @rule(tenant=chosen, person=someone, role=st.sampled_from(Role))
    def join(self, tenant: int, person: int, role: Role) -> None:
        self._try(tenant, services.set_member, username=self.people[person].username, role=role)

    @rule(tenant=chosen, person=someone)
    def leave(self, tenant: int, person: int) -> None:
        self._try(tenant, services.remove_member, username=self.people[person].username)

    @rule(person=someone, verb=st.sampled_from(["open", "close"]))
    def close_or_open(self, person: int, verb: str) -> None:
        user = User.objects.get(pk=self.people[person].pk)
        people.set_active(actor=self.petra, user=user, is_active=verb == "open", now=NOW)

    @rule(tenant=chosen, suspend=st.sampled_from(Suspend))
    def suspend(self, tenant: int, suspend: Suspend) -> None:
        self._try(tenant, services.update_tenant, change=TenantChange(suspend=suspend))

    @rule(tenant=chosen, egress=reaches)
    def connect(self, tenant: int, egress: Egress) -> None:
        self._try(tenant, services.update_tenant, change=TenantChange(egress=egress))

    @rule(tenant=chosen, amounts=st.builds(Amounts, st.integers(0, 4), st.integers(0, 2)))
    def give(self, tenant: int, amounts: Amounts) -> None:
        self._try(tenant, quotas.set_quota, offer=self.offer, amounts=amounts)

    @rule(tenant=chosen, act=st.sampled_from([lifecycle.archive_tenant, lifecycle.unarchive_tenant]))
    def archive(self, tenant: int, act: Callable[..., Tenant]) -> None:
        self._try(tenant, act, reason="")

    @rule(tenant=chosen)
    def ask_deletion(self, tenant: int) -> None:
        self._try(tenant, lifecycle.ask_deletion)

    @rule(tenant=chosen)
    def withdraw(self, tenant: int) -> None:
        self._try(tenant, lifecycle.withdraw_deletion)

    @rule(tenant=chosen)
    def delete(self, tenant: int) -> None:
        self._try(tenant, lifecycle.ask_deletion)
        row = self._tenant(tenant)
        if row is not None and row.deletion_due_at is None:
            lifecycle.approve_deletion(actor=self.paul, tenant=row, now=NOW)
        lifecycle.begin_due(now=NOW.replace(year=NOW.year + 1))

    @rule(tenant=chosen)
    def reconcile(self, tenant: int) -> None:
        row = self._tenant(tenant)
        if row is not None:
            reconcile_tenant(row.pk, gateway=self.gateway)
            reconcile_queue(row.pk, gateway=self.gateway)

    @rule()
    def watch(self) -> None:
        self.manager.drain()
        self.gateway.mirror(self.cluster)

    def _tenant(self, number: int) -> Tenant | None:
        rows = Tenant.objects.select_related("department", "cluster")
        return rows.filter(slug=f"team-{number}", deleted_at=None).first()

    def _try(self, tenant: int, act: Callable[..., object], **asked: Any) -> None:
        """A refusal is an answer: the history goes on."""
        row = self._tenant(tenant)
        if row is not None:
            try:
                act(actor=self.petra, tenant=row, now=NOW, **asked)
            except DomainError:
                return

    def _judge(self) -> None:
        settle(self.gateway, self.manager, self.cluster)
        reached = objects_of(self.gateway)
        assert reached == fresh(self.cluster)


def settle(gateway: InProcess, manager: Manager, cluster: Cluster) -> None:
    """Watch and reconcile until a whole round makes no call."""
    for _ in range(ROUNDS):
        manager.drain()
        gateway.mirror(cluster)
        gateway.calls.clear()
        _everything(gateway)
        if (
            not gateway.calls
            and not Tenant.objects.filter(deleted_at=None).exclude(deleting_at=None).exists()
        ):
            return
    raise AssertionError(f"never settles: {gateway.calls}")


def fresh(cluster: Cluster) -> Objects:
    """The objects of an empty cluster to which the same rows are brought."""
    with transaction.atomic():
        MirrorObject.objects.filter(cluster=cluster).delete()
        gateway, manager = api_server()
        settle(gateway, manager, cluster)
        found = objects_of(gateway)
        transaction.set_rollback(True)
    return found


def _everything(gateway: InProcess) -> None:
    acts: tuple[tuple[type[Reconciled], Callable[..., None]], ...] = (
        (Department, reconcile_department),
        (Flavor, reconcile_flavor),
        (Offer, reconcile_offer),
        (Tenant, reconcile_tenant),
        (TenantQueue, reconcile_queue),
    )
    for model, act in acts:
        for pk in model._default_manager.filter(deleted_at=None).values_list("pk", flat=True):
            act(pk, gateway=gateway)
