"""What tenants run."""

import uuid
from datetime import datetime

from django.db import models
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.specs import Target
from apps.cluster.models import Reconciled
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.specs import Kind, Phase


class Workload(Reconciled):
    """A notebook or job that somebody asked for. `spec` is what was asked, the rest what was observed.

    `object_name` names every object of it in the tenant's namespace and is made once. The usage columns are
    written by metering through `services.record_usage`, badges and idleness through `idling.record_finding`;
    nothing here reads upwards.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="workloads")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="workloads")
    slug = models.SlugField(max_length=40)
    name = models.CharField(max_length=120)
    labels = models.JSONField(default=dict)
    kind = models.CharField(max_length=16, choices=Kind.choices())
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="workloads")
    spec = models.JSONField(help_text="the WorkloadSpec as JSON, defaults filled in")
    suspended = models.BooleanField(default=False, help_text="spec.suspend: stopped on request, may resume")
    idle_by_lead = models.BooleanField(
        default=False, help_text="spec.idle_policy counts as given, not only where it is stricter"
    )
    keep_volumes = models.BooleanField(default=False, help_text="a deletion leaves its volume claims")
    object_name = models.CharField(max_length=63, unique=True)

    phase = models.CharField(max_length=16, choices=Phase.choices(), default=Phase.PENDING, db_index=True)
    queue = models.JSONField(null=True, help_text="the queue's own reason and message while it waits")
    held_at = models.DateTimeField(null=True, help_text="when a platform engineer took it out of the queue")
    hold_reason = models.TextField(blank=True, help_text="why, in that person's words")
    queue_priority = models.IntegerField(null=True, help_text="moved to this priority; null: its own")
    told_cause = models.CharField(max_length=64, blank=True, help_text="of which wait its owner was told why")
    placement = models.JSONField(default=list, help_text="pods with node and devices")
    asked_at = models.DateTimeField(default=timezone.now, help_text="when it was last asked to run")
    started_at = models.DateTimeField(null=True, help_text="of the present run")
    ended_at = models.DateTimeField(null=True)
    stops_at = models.DateTimeField(null=True, help_text="when its lease runs out")
    extended_seconds = models.PositiveIntegerField(default=0)
    protected_until = models.DateTimeField(null=True, help_text="of the present run, where it is protected")
    badges = models.JSONField(default=list, help_text="conditions that metering found: Idle, Hoarder ...")
    idle_stops_at = models.DateTimeField(null=True, help_text="when the idle policy stops it")
    idle = models.JSONField(
        null=True, help_text="of that countdown: url, message, extendable_until, extensions_left, evidence"
    )
    next_offer = models.ForeignKey(
        Offer, on_delete=models.PROTECT, null=True, related_name="+", help_text="taken when it starts again"
    )
    former_offer = models.ForeignKey(
        Offer, on_delete=models.PROTECT, null=True, related_name="+", help_text="what a resize left behind"
    )

    cost_hourly = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_allocated = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    cost_refunded = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    cost_effective = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_waste = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_unknown = models.DecimalField(max_digits=20, decimal_places=8, null=True)
    cost_last_refund = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, help_text="of the run that was lost last"
    )
    cost_last_refund_end = models.DateTimeField(null=True, help_text="when that run ended")
    cost_as_of = models.DateTimeField(null=True)

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True, help_text="last change by people or of the status")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "slug"],
                condition=models.Q(deleted_at__isnull=True),
                name="workload_slug_once_per_tenant",
            )
        ]
        indexes = [
            models.Index(fields=["tenant", "-created_at"], name="workload_by_tenant"),
            models.Index(fields=["cluster", "phase", "-updated_at"], name="workload_by_change"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("workload", self.pk, self.slug, self.tenant.slug)

    @property
    def first_stop(self) -> datetime | None:
        """The earliest of its ends: its lease's and the idle policy's."""
        return min(filter(None, (self.stops_at, self.idle_stops_at)), default=None)


class WorkloadEvent(models.Model):
    """One line of a workload's story: a transition seen by the reconcile, or a warning of the cluster."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    source = models.CharField(max_length=16, help_text="allotment, kueue or kubernetes")
    type = models.CharField(max_length=8, help_text="Normal or Warning")
    reason = models.CharField(max_length=64)
    message = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["workload", "-at"], name="workload_event_by_time")]

    def __str__(self) -> str:
        return f"{self.reason} at {self.at:%H:%M:%S}"


class StartEstimate(models.Model):
    """One estimate of when a waiting workload starts. Only its outcome is added later.

    `asked_at` says for which wait it was made. Its outcome is a start, or none when the wait was given up.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="estimates")
    asked_at = models.DateTimeField()
    made_at = models.DateTimeField()
    looked_at = models.DateTimeField(help_text="when it was last found to hold still")
    p10 = models.DateTimeField(null=True, help_text="null: nothing is known")
    p50 = models.DateTimeField(null=True)
    p90 = models.DateTimeField(null=True)
    position = models.PositiveIntegerField()
    settled_at = models.DateTimeField(null=True, help_text="when its outcome was read")
    started_at = models.DateTimeField(null=True, help_text="the outcome; null: it never started")

    class Meta:
        indexes = [
            models.Index(fields=["workload", "-made_at"], name="estimate_by_workload"),
            models.Index(fields=["settled_at", "-made_at"], name="estimate_by_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} about {self.p50}"
