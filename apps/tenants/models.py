"""Departments, tenants and their members."""

import uuid
from decimal import Decimal

from django.db import models

from apps.accounts.models import User
from apps.audit.specs import Target
from apps.cluster.models import Reconciled
from apps.tenants.specs import (
    PENDING_INVITATION,
    EgressMode,
    InvitationStatus,
    Isolation,
    NodePhase,
    RightKind,
    Role,
    Suspend,
    TenantPhase,
    TrustLevel,
)


class Department(Reconciled):
    """An organisational unit holding tenants; a Kueue Cohort, within which tenants lend and borrow."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    object_name = models.CharField(max_length=63, unique=True, help_text="the Cohort's name, made once")
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="departments")
    fair_weight = models.DecimalField(
        max_digits=7,
        decimal_places=3,
        default=Decimal(1),
        help_text="its part among the parent's departments",
    )
    bounds = models.JSONField(
        default=list, help_text="tenants.specs.Bound: what it borrows from and lends to the parent"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("department", self.pk, self.slug)


class Tenant(Reconciled):
    """A team: members, quota, isolation. Its namespace and its ClusterQueue carry `object_name`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=120)
    department = models.ForeignKey(Department, on_delete=models.PROTECT, related_name="tenants")
    isolation = models.CharField(max_length=16, choices=Isolation.choices(), default=Isolation.NAMESPACE)
    trust_level = models.CharField(max_length=16, choices=TrustLevel.choices(), default=TrustLevel.STANDARD)
    suspend = models.CharField(max_length=8, choices=Suspend.choices(), default=Suspend.NONE)
    vcluster = models.JSONField(default=dict, blank=True, help_text="tenants.vcluster.VClusterSpec; {}: none")
    object_name = models.CharField(
        max_length=63, unique=True, help_text="namespace and ClusterQueue, made once"
    )
    phase = models.CharField(max_length=16, choices=TenantPhase.choices(), default=TenantPhase.PENDING)
    egress = models.CharField(max_length=16, choices=EgressMode.choices(), default=EgressMode.NONE)
    egress_allow = models.JSONField(default=list, help_text="[{cidr, ports: [{protocol, port}]}]")
    has_shell = models.BooleanField(
        default=False,
        db_default=False,
        help_text="its members may reach their own running workloads by SSH",
    )
    has_registries = models.BooleanField(
        default=False,
        db_default=False,
        help_text="a RegistryCredential is there: its work names the Secret made of them",
    )
    is_namespace_adopted = models.BooleanField(
        default=False, help_text="the namespace was there before; given back, not deleted"
    )
    archived_at = models.DateTimeField(null=True)
    deletion_asked_at = models.DateTimeField(null=True)
    deletion_asked_by = models.CharField(max_length=150, blank=True)
    deletion_approved_by = models.CharField(max_length=150, blank=True)
    deletion_due_at = models.DateTimeField(null=True, help_text="the end of the grace period")
    attested_generation = models.PositiveIntegerField(
        default=0, help_text="the generation whose isolation was checked last"
    )
    attested_at = models.DateTimeField(
        null=True, help_text="the last check of its isolation, if everything passed"
    )
    attestation_due_at = models.DateTimeField(
        null=True, db_index=True, help_text="when the check of its isolation was asked for"
    )
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In its own chain."""
        return Target("tenant", self.pk, self.slug, tenant=self.slug)


class DepartmentManager(models.Model):
    """A person who looks after a department's tenants."""

    department = models.ForeignKey(Department, on_delete=models.CASCADE, related_name="managers")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="managed_departments")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["department", "user"], name="manager_once_per_department")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} manages {self.department_id}"


class Membership(models.Model):
    """A person's role in a tenant; becomes one service account and one RoleBinding of that person."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role.choices(), default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_one_role_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} of {self.tenant_id}"


class MemberInvitation(models.Model):
    """A mail address that a lead wants in the tenant, from the asking to what became of it.

    Approved: there are no passwords, so the person joins with the first sign-in that proves the address.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(help_text="in small letters")
    role = models.CharField(max_length=8, choices=Role.choices(), default=Role.MEMBER)
    status = models.CharField(
        max_length=16, choices=InvitationStatus.choices(), default=InvitationStatus.OPEN, db_index=True
    )
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+", help_text="who joined by it"
    )
    decided_by = models.CharField(max_length=150, blank=True, help_text="empty: nobody had to decide")
    decided_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True, help_text="of the decision")
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "email"],
                condition=models.Q(status__in=PENDING_INVITATION),
                name="invitation_once_per_address",
            )
        ]

    def __str__(self) -> str:
        return f"{self.email} to {self.tenant_id}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("invitation", self.pk, self.email, self.tenant.slug)


class ServiceAccount(models.Model):
    """An account for automation: a user that never signs in, with one role in one tenant.

    Without a tenant it has a platform role. It only acts with tokens that people make for it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, null=True, on_delete=models.CASCADE, related_name="service_accounts")
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="service_account")
    slug = models.SlugField(max_length=40)
    name = models.CharField(max_length=120)
    generation = models.PositiveIntegerField(default=1)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.user.username

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain; the platform's where it has none."""
        return Target("service-account", self.pk, self.user.username, self.tenant.slug if self.tenant else "")


class NodeAssignment(Reconciled):
    """A node that serves one tenant alone, from the request until the node is given back.

    `stop_at` is when work that must leave it is asked to stop. Rows outlive the hand-over as its history.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # No dependent of its tenant: it lets go by itself once the tenant is on its way out.
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="nodes")
    node = models.CharField(max_length=253)
    phase = models.CharField(max_length=16, choices=NodePhase.choices(), default=NodePhase.CLEARING)
    stop_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500, blank=True)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "node"],
                condition=models.Q(deleted_at=None),
                name="node_serves_one_tenant",
            )
        ]

    def __str__(self) -> str:
        return f"{self.node} of {self.tenant_id}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("node", self.pk, self.node, self.tenant.slug)


class IsolationAttestation(models.Model):
    """The 18 checks of one tenant's isolation at one moment; never changed afterwards."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="attestations")
    at = models.DateTimeField()
    generation = models.PositiveIntegerField(help_text="of the tenant, when it was checked")
    results = models.JSONField(help_text="[{key, title, verdict, words}], in the order of the checks")
    passed = models.PositiveSmallIntegerField()
    failed = models.PositiveSmallIntegerField()
    not_checked = models.PositiveSmallIntegerField()

    class Meta:
        indexes = [models.Index(fields=["tenant", "-at"], name="attestation_newest")]

    def __str__(self) -> str:
        return f"{self.tenant_id} at {self.at}"


class RegistryCredential(models.Model):
    """How a tenant's images are pulled from one registry. User and password are sealed together and never
    read but to make the tenant's Secret.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="registries")
    registry = models.CharField(max_length=253)
    sealed = models.TextField()
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "registry"], name="registry_once_per_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.registry} of {self.tenant_id}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("registry", self.pk, self.registry, self.tenant.slug)


class GroupRule(models.Model):
    """Whoever a provider says is in a group has this right, from the next sign-in on."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    provider = models.CharField(max_length=32, help_text="the slug of a provider in the settings")
    group = models.CharField(max_length=255, help_text="exactly as the provider writes it")
    kind = models.CharField(max_length=16, choices=RightKind.choices())
    target = models.CharField(max_length=40, blank=True, help_text="slug; empty: the installation")
    role = models.CharField(max_length=16)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "group", "kind", "target"], name="group_rule_once_per_right"
            )
        ]

    def __str__(self) -> str:
        return f"{self.group} of {self.provider}: {self.role} of {self.target or 'the installation'}"

    @property
    def audit_target(self) -> Target:
        """In the platform's chain: it decides on tenants from above."""
        return Target("group-rule", self.pk, self.group)


class RuleGrant(models.Model):
    """A right that rules gave somebody. What people give by hand has no such row, and is never taken back.

    `before` is the role that was given by hand below it; empty: none.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="rule_grants")
    provider = models.CharField(max_length=32)
    kind = models.CharField(max_length=16, choices=RightKind.choices())
    target = models.CharField(max_length=40, blank=True)
    role = models.CharField(max_length=16)
    before = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "provider", "kind", "target"], name="rule_grant_once_per_right"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} of {self.target or 'the installation'}"
