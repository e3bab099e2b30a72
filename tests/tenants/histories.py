"""Random histories of tenancy and quota, and what each must lead to: the cluster of a fresh creation.

Each history runs in a transaction of its own against an API server in this process. Reconciles and the watch
come when chance wants them; in the end everything is settled and compared. Not in it: virtual clusters (they
need Flux) and workloads.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from apps.accounts.models import User
from apps.errors import DomainError
from apps.quotas.allowances.services import granting, moving, pools, quota_changes, weighing
from apps.quotas.allowances.services.granting import GrantWish
from apps.quotas.allowances.services.moving import Move
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.allowances.services.weighing import DepartmentShare
from apps.quotas.budgets.rules.budget import Limits, month_of
from apps.quotas.budgets.services import budgeting, holding
from apps.quotas.catalogue.services import adoption, offering
from apps.quotas.catalogue.services.offering import OfferChange
from apps.quotas.models import Budget, Grant, Offer, Quota
from apps.quotas.specs import BudgetUnit
from apps.tenants.lifecycle.services import deletion, isolation_choice, tenancy
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.lifecycle.services.tenancy import TenantChange
from apps.tenants.models import Department, NodeAssignment, ServiceAccount, Tenant
from apps.tenants.nodes.services.assigning import Handover
from apps.tenants.nodes.services.dedication import reconcile_node
from apps.tenants.people.services import person_access, service_accounts
from apps.tenants.people.services.service_accounts import AccountWish
from apps.tenants.specs import Egress, EgressMode, EgressRule, Isolation, Role, Suspend, TrustLevel
from tests import factories
from tests.conftest import as_actor
from tests.tenants.settling import api_server, fresh, objects_of, settle, watch

PEOPLE = 4
MOST_TENANTS = 3
OFFERS = ("h100-1g-10gb", "h100-whole")
NODES = ("gpu-01", "gpu-02")
LIMIT = Decimal(100)

reaches = st.sampled_from([
    Egress(), Egress(EgressMode.INTERNET), Egress(EgressMode.ALLOW_LIST, (EgressRule("10.2.0.0/16"),)),
])  # fmt: skip
chosen = st.integers(0, MOST_TENANTS - 1)
someone = st.integers(0, PEOPLE - 1)
offered = st.sampled_from(OFFERS)
either = st.integers(0, 1)
amounts = st.builds(Amounts, st.integers(0, 4), st.sampled_from([0, 2, None]), st.sampled_from([None, 0]))
apart = st.sampled_from([Isolation.NAMESPACE, Isolation.NAMESPACE, Isolation.DEDICATED_NODES])
limits = st.tuples(st.integers(0, 3), st.integers(0, 3))


class Histories(RuleBasedStateMachine):
    """What may happen to tenants, in any order."""

    @initialize()
    def begin(self) -> None:
        """An empty transaction with two departments, people and the offers of a small fleet."""
        self.block = transaction.atomic()
        self.block.__enter__()
        self.gateway, self.manager = api_server()
        self.cluster = factories.make_cluster()
        self.departments = [factories.make_department(self.cluster, slug) for slug in ("research", "bio")]
        self.people = [factories.make_user(f"person-{number}") for number in range(PEOPLE)]
        self.petra = as_actor(factories.make_user("petra", platform_role="platform"))
        self.paul = as_actor(factories.make_user("paul", platform_role="platform"))
        watch(self.gateway, self.cluster)
        adoption.adopt_inventory(actor=self.petra, cluster=self.cluster, now=self.now)
        self.made = 0
        # Two that share a department from the start: nearly every rule needs somebody to be about.
        for isolation in (Isolation.NAMESPACE, Isolation.DEDICATED_NODES):
            self._make(0, isolation)

    def teardown(self) -> None:
        """Settle, compare, and undo everything."""
        if not hasattr(self, "block"):
            return
        try:
            settle(self.gateway, self.manager, self.cluster)
            assert objects_of(self.gateway) == fresh(self.cluster)
        finally:
            transaction.set_rollback(True)
            self.block.__exit__(None, None, None)

    @precondition(lambda self: self.made < MOST_TENANTS)
    @rule(department=either, isolation=apart)
    def create(self, department: int, isolation: Isolation) -> None:
        self._make(department, isolation)

    def _make(self, department: int, isolation: Isolation) -> None:
        tenant = tenancy.create_tenant(
            actor=self.petra,
            slug=f"team-{self.made}",
            name="",
            department=self.departments[department],
            trust_level=TrustLevel.STANDARD,
            now=self.now,
        )
        isolation_choice.fence(
            actor=self.petra, tenant=tenant, isolation=isolation, virtual=None, now=self.now
        )
        self.made += 1

    @rule(tenant=chosen, person=someone, role=st.sampled_from(Role))
    def join(self, tenant: int, person: int, role: Role) -> None:
        self._of(tenant, tenancy.set_member, username=self.people[person].username, role=role)

    @rule(tenant=chosen, person=someone)
    def leave(self, tenant: int, person: int) -> None:
        self._of(tenant, tenancy.remove_member, username=self.people[person].username)

    @rule(person=someone, verb=st.sampled_from(["open", "close"]))
    def close_or_open(self, person: int, verb: str) -> None:
        user = User.objects.get(pk=self.people[person].pk)
        person_access.set_active(actor=self.petra, user=user, is_active=verb == "open", now=self.now)

    @rule(tenant=chosen, role=st.sampled_from(["member", "lead", ""]))
    def automate(self, tenant: int, role: str) -> None:
        """One service account per tenant: made, given another role, or taken away (no role)."""
        row, bot = self._tenant(tenant), ServiceAccount.objects.filter(tenant__slug=f"team-{tenant}").first()
        if bot is None and row is not None:
            wish = AccountWish(row, "bot", "", role)
            self._try(service_accounts.create_account, wish=wish)
        elif bot is not None and role:
            self._try(service_accounts.update_account, account=bot, name="", role=role)
        elif bot is not None:
            self._try(service_accounts.delete_account, account=bot)

    @rule(tenant=chosen, change=st.one_of(
        st.builds(TenantChange, suspend=st.sampled_from(Suspend)),
        st.builds(TenantChange, egress=reaches),
        st.builds(TenantChange, has_shell=st.booleans()),
        st.builds(TenantChange, trust_level=st.sampled_from(TrustLevel)),
        st.builds(TenantChange, name=st.sampled_from(["Team", "Another"])),
    ))  # fmt: skip
    def change(self, tenant: int, change: TenantChange) -> None:
        self._of(tenant, tenancy.update_tenant, change=change)

    @rule(tenant=chosen, offer=offered, amounts=amounts)
    def give(self, tenant: int, offer: str, amounts: Amounts) -> None:
        self._of(tenant, quota_changes.set_quota, offer=self._offer(offer), amounts=amounts)

    @rule(tenant=chosen, offer=offered)
    def take(self, tenant: int, offer: str) -> None:
        for quota in Quota.objects.filter(tenant__slug=f"team-{tenant}", offer__slug=offer):
            self._try(quota_changes.delete_quota, quota=quota)

    @rule(giver=chosen, taker=chosen, offer=offered)
    def move(self, giver: int, taker: int, offer: str) -> None:
        one, other = self._tenant(giver), self._tenant(taker)
        if one is not None and other is not None:
            self._try(moving.move_quota, move=Move(one, other, self._offer(offer), 1, "asked"))

    @rule(tenant=chosen, offer=offered, starts=st.sampled_from([None, timedelta(days=1)]))
    def grant(self, tenant: int, offer: str, starts: timedelta | None) -> None:
        begins = self.now + starts if starts else None
        wish = GrantWish(2, self.now + timedelta(days=2), begins, "a deadline")
        self._of(tenant, granting.give_grant, offer=self._offer(offer), wish=wish)

    @rule(tenant=chosen)
    def end_grant(self, tenant: int) -> None:
        for grant in Grant.objects.filter(tenant__slug=f"team-{tenant}").order_by("created_at")[:1]:
            self._try(granting.end_grant, grant=grant)

    @rule(offer=offered, change=st.one_of(
        st.builds(OfferChange, cpu_millis=st.sampled_from([2000, 8000])),
        st.builds(OfferChange, enabled=st.booleans()),
        st.builds(OfferChange, min_trust_level=st.sampled_from(TrustLevel)),
    ))  # fmt: skip
    def change_offer(self, offer: str, change: OfferChange) -> None:
        self._try(offering.update_offer, offer=self._offer(offer), change=change)

    @rule(tenant=chosen, act=st.sampled_from([holding.hold_queue, holding.release_queue]))
    def hold(self, tenant: int, act: Callable[..., object]) -> None:
        self._of(tenant, act, reason="maintenance")

    @rule(tenant=chosen, whole_department=st.booleans())
    def budget(self, tenant: int, *, whole_department: bool) -> None:
        row = self._tenant(tenant)
        if row is not None:
            owner = row.department if whole_department else row
            wish = Limits(BudgetUnit.MONEY, None, LIMIT)
            self._try(budgeting.set_budget, owner=owner, limits=wish)

    @rule(tenant=chosen, money=st.sampled_from([Decimal(50), Decimal(150)]))
    def spend(self, tenant: int, money: Decimal) -> None:
        row = self._tenant(tenant)
        if row is not None:
            so_far = budgeting.SpendSoFar(month_of(self.now), money, Decimal(0))
            budgeting.record_spend({row: so_far}, now=self.now)

    @rule()
    def end_budget(self) -> None:
        for row in Budget.objects.order_by("created_at")[:1]:
            self._try(budgeting.delete_budget, row=row)

    @rule(tenant=chosen, weight=st.sampled_from([Decimal(0), Decimal(1), Decimal(3)]))
    def weigh(self, tenant: int, weight: Decimal) -> None:
        self._of(tenant, weighing.set_weight, fair_weight=weight)

    @rule(department=either, below=st.booleans(), bounds=limits)
    def nest(self, department: int, bounds: tuple[int, int], *, below: bool) -> None:
        rows = [Department.objects.get(pk=row.pk) for row in self.departments]
        share = DepartmentShare(
            rows[1 - department] if below else None,
            Decimal(2) if below else Decimal(1),
            {self._offer(OFFERS[0]): bounds} if below else None,
        )
        self._try(weighing.set_share, department=rows[department], share=share)

    @rule(tenant=chosen, node=st.sampled_from(NODES))
    def hand_over(self, tenant: int, node: str) -> None:
        self._of(tenant, pools.assign, node=node, handover=Handover(timedelta(0), "theirs"))

    @rule(node=st.sampled_from(NODES))
    def hand_back(self, node: str) -> None:
        for row in NodeAssignment.objects.filter(node=node, deleted_at=None).select_related("tenant"):
            self._try(pools.release, assignment=row, handover=Handover(timedelta(0)))

    @rule(tenant=chosen, act=st.sampled_from([deletion.archive_tenant, deletion.unarchive_tenant]))
    def archive(self, tenant: int, act: Callable[..., Tenant]) -> None:
        self._of(tenant, act, reason="")

    @rule(tenant=chosen)
    def ask_deletion(self, tenant: int) -> None:
        self._of(tenant, deletion.ask_deletion)

    @rule(tenant=chosen)
    def withdraw(self, tenant: int) -> None:
        self._of(tenant, deletion.withdraw_deletion)

    @rule(tenant=chosen)
    def delete(self, tenant: int) -> None:
        self._of(tenant, deletion.ask_deletion)
        row = self._tenant(tenant)
        if row is not None and row.deletion_due_at is None:
            deletion.approve_deletion(actor=self.paul, tenant=row, now=self.now)
        deletion.begin_due(now=self.now + timedelta(days=365))

    @rule(tenant=chosen)
    def reconcile(self, tenant: int) -> None:
        row = self._tenant(tenant)
        if row is not None:
            reconcile_tenant(row.pk, gateway=self.gateway)
            reconcile_queue(row.pk, gateway=self.gateway)

    @rule()
    def watch(self) -> None:
        self.manager.drain()
        watch(self.gateway, self.cluster)

    @rule()
    def bring_nodes(self) -> None:
        for pk in NodeAssignment.objects.filter(deleted_at=None).values_list("pk", flat=True):
            reconcile_node(pk, gateway=self.gateway)
        pools.settle_all(now=self.now)

    @property
    def now(self) -> datetime:
        """Reconciles read the clock themselves, so grants and budgets must begin by it."""
        return timezone.now()

    def _tenant(self, number: int) -> Tenant | None:
        rows = Tenant.objects.select_related("department", "cluster")
        return rows.filter(slug=f"team-{number}", deleted_at=None).first()

    def _offer(self, slug: str) -> Offer:
        return Offer.objects.select_related("flavor").get(slug=slug)

    def _of(self, tenant: int, act: Callable[..., object], **asked: Any) -> None:
        row = self._tenant(tenant)
        if row is not None:
            self._try(act, tenant=row, **asked)

    def _try(self, act: Callable[..., object], **asked: Any) -> None:
        """A refusal is an answer: the history goes on."""
        try:
            act(actor=self.petra, now=self.now, **asked)
        except DomainError:
            return
