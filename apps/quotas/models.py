"""Flavors, offers, their prices, and what each tenant may have of them."""

import uuid
from decimal import Decimal

from django.db import models

from apps.accounts.models import User
from apps.audit.specs import Target
from apps.cluster.models import Reconciled
from apps.quotas.specs import (
    BudgetUnit,
    CapacityType,
    HoldReason,
    Mechanism,
    Priced,
    RequestKind,
    RequestStatus,
    SharingMode,
)
from apps.rows import Row
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import TrustLevel


class Flavor(Reconciled):
    """A kind of node the fleet has; a Kueue ResourceFlavor."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    object_name = models.CharField(max_length=63, unique=True)
    # No dependent of its tenant: it is retired once the tenant is gone.
    tenant = models.ForeignKey(
        Tenant,
        null=True,
        on_delete=models.CASCADE,
        related_name="flavors",
        help_text="whose nodes; null: all's",
    )
    model = models.CharField(
        max_length=120,
        blank=True,
        help_text="the GPU's product name as its driver publishes it; empty: no GPU",
    )
    node_labels = models.JSONField(default=dict)
    tolerations = models.JSONField(default=list)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("flavor", self.pk, self.slug)


class Offer(Reconciled):
    """A thing one can ask for; a DeviceClass whose `extendedResourceName` is `resource_name`.

    One without a device (`is_cores`) is sold by the core: one of it is a core of its flavor's nodes, with
    `memory_bytes` of memory. Its `resource_name` is a name of ours, which the cluster does not know.

    Behind a device plugin the name is the plugin's own and the same on every tenant's nodes. A tenant has
    quota of only one offer per name, so the name still tells which one it is.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120, help_text='such as "H100 1g.10gb MIG slice"')
    object_name = models.CharField(max_length=63, unique=True, help_text="the DeviceClass's name")
    resource_name = models.CharField(
        max_length=120, help_text="allotment.dev/<slug>, or what a device plugin calls it"
    )
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="offers")
    sharing_mode = models.CharField(max_length=16, choices=SharingMode.choices())
    mechanism = models.CharField(max_length=16, choices=Mechanism.choices(), default=Mechanism.DRA)
    profile = models.CharField(
        max_length=32, blank=True, help_text="MIG profile such as 1g.10gb; empty: whole GPU"
    )
    gpu_memory_bytes = models.BigIntegerField()
    share_numerator = models.PositiveIntegerField(default=1, help_text="compute share of the physical GPU")
    share_denominator = models.PositiveIntegerField(default=1)
    cpu_millis = models.PositiveIntegerField(
        help_text="CPU that comes with one device, in thousandths of a core"
    )
    memory_bytes = models.BigIntegerField(help_text="memory that comes with one device")
    min_trust_level = models.CharField(
        max_length=16, choices=TrustLevel.choices(), default=TrustLevel.UNTRUSTED
    )
    enabled = models.BooleanField(default=True)
    description = models.CharField(
        max_length=500, blank=True, help_text="what it is for, in a sentence or two"
    )
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("offer", self.pk, self.slug)

    @property
    def is_cores(self) -> bool:
        """Whether it has no device, and is sold by the core."""
        return self.mechanism == Mechanism.NODE

    @property
    def unit(self) -> str:
        """What one of it is."""
        return "core" if self.is_cores else "device"

    @property
    def units(self) -> str:
        """What several of it are."""
        return f"{self.unit}s"


class Price(Row):
    """What one device of an offer costs per hour from a moment on, or one core or GiB (then `offer` is null).

    Never changed once in force. Which of several is in force: `prices.in_force`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    resource = models.CharField(max_length=8, choices=Priced.choices(), default=Priced.GPU)
    offer = models.ForeignKey(Offer, null=True, on_delete=models.CASCADE, related_name="prices")
    tenant = models.ForeignKey(
        Tenant, null=True, on_delete=models.PROTECT, related_name="prices", help_text="null: for everybody"
    )
    capacity = models.CharField(
        max_length=12, blank=True, choices=CapacityType.choices(), help_text="of the node; empty: any"
    )
    hourly = models.DecimalField(max_digits=20, decimal_places=8)
    currency = models.CharField(max_length=3)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, help_text="null: until the next one")
    least_seconds = models.PositiveIntegerField(
        default=1, help_text="what ended is charged in whole units of these"
    )
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["offer", "capacity", "valid_from"],
                condition=models.Q(tenant=None),
                name="price_one_per_moment",
            ),
            models.UniqueConstraint(
                fields=["offer", "tenant", "capacity", "valid_from"], name="price_one_per_tenant_and_moment"
            ),
            models.UniqueConstraint(
                fields=["resource", "capacity", "valid_from"],
                condition=models.Q(offer=None, tenant=None),
                name="price_one_per_resource",
            ),
            models.UniqueConstraint(
                fields=["resource", "tenant", "capacity", "valid_from"],
                condition=models.Q(offer=None),
                name="price_one_per_resource_and_tenant",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.hourly} {self.currency}/h"

    @property
    def audit_target(self) -> Target:
        """That of what it is for."""
        return self.offer.audit_target if self.offer else Target("price", self.pk, self.resource)


class Quota(Row):
    """What a tenant is guaranteed of an offer, may borrow and must lend, in devices. None: no limit."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="quotas")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="quotas")
    nominal_quota = models.PositiveIntegerField()
    borrowing_limit = models.PositiveIntegerField(null=True)
    lending_limit = models.PositiveIntegerField(null=True)
    created_by = models.CharField(max_length=150, blank=True)
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "offer"], name="quota_one_per_tenant_and_offer")
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.offer_id} {self.nominal_quota}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("quota", self.pk, f"{self.tenant.slug}/{self.offer.slug}", self.tenant.slug)


class TenantQueue(Reconciled):
    """The Kueue side of a tenant's quota: its ClusterQueue and LocalQueue, brought up by this app's
    reconcile.

    `tenant_generation` is the tenant's generation that the queue followed last. Suspension and removal are
    columns of the tenant, so the sweep finds a queue that has not followed them.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="queue")
    tenant_generation = models.PositiveIntegerField(default=0)
    fair_weight = models.DecimalField(
        max_digits=7, decimal_places=3, default=Decimal(1), help_text="its part of what nobody is guaranteed"
    )
    hold_reason = models.CharField(max_length=16, choices=HoldReason.choices(), default=HoldReason.NONE)
    hold_detail = models.TextField(blank=True, help_text="why nothing new starts, and who can change it")
    manual_hold = models.TextField(blank=True, help_text="who held it by hand and why; empty: nobody")

    def __str__(self) -> str:
        return f"queue of {self.tenant_id}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("queue", self.pk, self.tenant.slug, self.tenant.slug)


class Grant(Row):
    """More guarantee for a while: `count` devices of an offer on top of the quota in [starts_at, ends_at).

    What counts at a moment is `ledger.effective`; nothing is switched on or off here.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="grants")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="grants")
    count = models.PositiveIntegerField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True)
    created_by = models.CharField(max_length=150)
    warned_at = models.DateTimeField(null=True, help_text="when its end was announced")
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [models.Index(fields=["tenant", "ends_at"], name="grant_by_tenant_and_end")]

    def __str__(self) -> str:
        return f"{self.count} until {self.ends_at:%Y-%m-%d %H:%M}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("grant", self.pk, f"{self.tenant.slug}/{self.offer.slug}", self.tenant.slug)


class QuotaRequest(models.Model):
    """A lead asks for `count` more devices of an offer: guaranteed or borrowable, for good or for a while.

    Approved with a duration it becomes a grant, without one a change of the quota. `given` is what was
    approved, at most `count`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="quota_requests")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=16, choices=RequestKind.choices())
    count = models.PositiveIntegerField()
    duration_seconds = models.PositiveIntegerField(null=True)
    reason = models.CharField(max_length=500)
    status = models.CharField(
        max_length=16, choices=RequestStatus.choices(), default=RequestStatus.OPEN, db_index=True
    )
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    given = models.PositiveIntegerField(null=True)
    grant = models.ForeignKey(Grant, null=True, on_delete=models.SET_NULL, related_name="+")
    reminded_at = models.DateTimeField(null=True, help_text="when those who decide were last reminded")
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.count} {self.kind} {self.offer_id} for {self.tenant_id}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("quota_request", self.pk, f"{self.tenant.slug}/{self.offer.slug}", self.tenant.slug)


class RequestNote(models.Model):
    """One line of a request's history: what was asked, said or decided, by whom, when."""

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="notes")
    at = models.DateTimeField()
    author = models.CharField(max_length=150)
    what = models.CharField(max_length=16, help_text="asked, said, approved, declined or withdrawn")
    text = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering = ["at", "id"]

    def __str__(self) -> str:
        return f"{self.author} {self.what}"


class Budget(models.Model):
    """What a tenant, or a department with all its tenants, may spend in a calendar month (UTC).

    The soft limit warns, the hard one holds. `marked` is the highest mark (percent) announced in the month
    `marked_month`, so that each is said once.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.CASCADE, related_name="budgets")
    department = models.ForeignKey(Department, null=True, on_delete=models.CASCADE, related_name="budgets")
    unit = models.CharField(max_length=16, choices=BudgetUnit.choices())
    soft_limit = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    hard_limit = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    marked_month = models.DateField(null=True)
    marked = models.PositiveIntegerField(default=0)
    held_month = models.DateField(null=True, help_text="the month in which it holds; null: it holds nothing")
    created_by = models.CharField(max_length=150)
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(tenant=None) ^ models.Q(department=None), name="budget_of_one_owner"
            ),
            models.UniqueConstraint(fields=["tenant", "unit"], name="budget_one_per_tenant_and_unit"),
            models.UniqueConstraint(fields=["department", "unit"], name="budget_one_per_department_and_unit"),
        ]

    def __str__(self) -> str:
        return f"{self.unit} of {self.tenant_id or self.department_id}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain, a department's in the platform's."""
        name = f"{self.whose} in {BudgetUnit(self.unit).label.lower()}"
        return Target("budget", self.pk, name, self.tenant.slug if self.tenant else "")

    @property
    def whose(self) -> str:
        """`vision`, or `department research`."""
        return f"department {self.department.slug}" if self.department else str(self.tenant)


class Spend(models.Model):
    """What a tenant has spent in a month so far, as metering last counted it; refunds are taken off."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="spends")
    month = models.DateField(help_text="its first day")
    money = models.DecimalField(max_digits=20, decimal_places=8)
    gpu_hours = models.DecimalField(max_digits=20, decimal_places=8)
    as_of = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "month"], name="spend_one_per_month")]

    def __str__(self) -> str:
        return f"{self.money} in {self.month:%Y-%m}"
