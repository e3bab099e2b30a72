"""What was found of idle and oversized work, and what a tenant does about it."""

import uuid

from django.db import models

from apps.audit.specs import Target
from apps.metering.models.allocations import Allocation
from apps.metering.specs import FindingKind, FindingPhase, IdleMode
from apps.tenants.models import Tenant
from apps.workloads.models import Workload


class Finding(models.Model):
    """What the detector says of a workload, or of a claim or pod made with kubectl, since when, and what
    became of it.

    One open row per (workload, kind); what comes back within its memory counts up `repeat_count`. Of what was
    made with kubectl `made` is a device of it that was held when it was found, and there is no workload.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, null=True, related_name="findings")
    made = models.ForeignKey(Allocation, on_delete=models.PROTECT, null=True, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="findings")
    kind = models.CharField(max_length=24, choices=FindingKind.choices())
    phase = models.CharField(max_length=12, choices=FindingPhase.choices(), default=FindingPhase.OPEN)
    since = models.DateTimeField(help_text="where its evidence begins")
    created_at = models.DateTimeField()
    judged_at = models.DateTimeField(help_text="when the detector last confirmed it")
    closed_at = models.DateTimeField(null=True)
    idle = models.JSONField(default=list, help_text="[[from, to], ...] unix seconds that count as wasted")
    too_much = models.PositiveIntegerField(
        default=1_000_000, db_default=1_000_000, help_text="millionths of each device that nobody needed then"
    )
    evidence = models.JSONField(default=dict, help_text="window, thresholds and figures it rests on")
    wasted = models.DecimalField(max_digits=20, decimal_places=8, default=0, help_text="money so far")
    weekly = models.DecimalField(max_digits=20, decimal_places=8, default=0, help_text="money per week")
    blocks = models.JSONField(default=dict, help_text="{count, devices}: what waits for what it holds")
    repeat_count = models.PositiveIntegerField(default=0)
    suggestion = models.JSONField(default=dict, help_text="{action, offer, saving_weekly, risk}")
    reason = models.TextField(blank=True, help_text="why it was dismissed, snoozed or acted on")
    decided_by = models.CharField(max_length=150, blank=True)
    snoozed_until = models.DateTimeField(null=True)
    stops_at = models.DateTimeField(null=True, help_text="the countdown of the idle policy")
    extended = models.PositiveIntegerField(default=0)
    confirmed_at = models.DateTimeField(null=True, help_text="when a later judgement said the same")
    warned_by = models.CharField(max_length=150, blank=True, help_text="who began the countdown by hand")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload", "kind"],
                condition=models.Q(closed_at=None),
                name="finding_one_open_per_kind",
            ),
            models.CheckConstraint(
                condition=models.Q(workload=None) ^ models.Q(made=None), name="finding_of_one"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "closed_at", "-wasted"], name="finding_by_tenant"),
            models.Index(fields=["stops_at"], name="finding_by_countdown"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.workload_id or self.made_id}"

    @property
    def work(self) -> Workload:
        """The workload of one that is not of what was made with kubectl."""
        if self.workload is None:
            raise TypeError("it was made with kubectl")
        return self.workload


class Judgement(models.Model):
    """When a running workload was last judged, as what, by telemetry until when, and when it is due again."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, related_name="judgement")
    judged_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    labels = models.JSONField(default=list, help_text="of the detector; empty: not old enough")
    seen_until = models.DateTimeField(null=True, help_text="the last sample that can be trusted")

    def __str__(self) -> str:
        return f"{self.workload_id} {self.judged_at:%H:%M}"


class KubectlJudgement(models.Model):
    """The same of a claim or pod made with kubectl, as long as it holds something."""

    claim_uid = models.CharField(max_length=64, primary_key=True)
    judged_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.claim_uid} {self.judged_at:%H:%M}"


class IdlePolicy(models.Model):
    """What a tenant does with idle allocations. A tenant without a row has the defaults."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="idle_policy")
    mode = models.CharField(max_length=12, choices=IdleMode.choices(), default=IdleMode.COUNTDOWN)
    idle_seconds = models.PositiveIntegerField(default=3600)
    countdown_seconds = models.PositiveIntegerField(default=1800)
    extension_seconds = models.PositiveIntegerField(default=7200)
    most_extensions = models.PositiveIntegerField(default=2)
    quiet_from = models.TimeField(null=True, help_text="no stop between these, local time")
    quiet_to = models.TimeField(null=True)
    office_from = models.TimeField(null=True)
    office_to = models.TimeField(null=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    updated_by = models.CharField(max_length=150, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.tenant_id}: {self.mode}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("idle_policy", self.tenant_id, self.tenant.slug, self.tenant.slug)
