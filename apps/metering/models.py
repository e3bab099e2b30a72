"""What was allocated, what the silicon did, and what follows from both: sums, bills, findings.

Ratios are kept as integers in millionths and times as microseconds, so that sums are exact in any order.
"""

import uuid
from datetime import datetime

from django.db import models
from django.utils import timezone

from apps.audit.specs import Target
from apps.cluster.models import Cluster
from apps.metering import ledger_models, statement_models  # noqa: F401 - Django finds its models by this import
from apps.metering.specs import Account, FindingKind, FindingPhase, IdleMode, Origin, Source, TroubleKind
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload


class Allocation(models.Model):
    """A half-open interval [started_at, ended_at) during which a tenant held one device; null is open.

    `origin` says what holds it: a workload, or a claim or pod made with kubectl. That has no workload; its
    `root` and `device_uuid` are added while it is open, when they are first told. `offer` is what it is
    charged as; null: no offer was like the device when it was seen, so it has no price. `share_numerator /
    share_denominator` is the part of the physical GPU (MIG 1g: 1/7).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    origin = models.CharField(max_length=12, choices=Origin.choices(), default=Origin.ALLOTMENT)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, null=True, related_name="allocations")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, null=True, related_name="+")
    claim_uid = models.CharField(max_length=64, help_text="the pod's behind a device plugin")
    node = models.CharField(max_length=253)
    capacity = models.CharField(max_length=12, blank=True, help_text="of the node: on-demand, spot, unknown")
    device = models.CharField(max_length=128, help_text="pool/device as the driver names it")
    device_uuid = models.CharField(max_length=80, blank=True)
    share_numerator = models.PositiveIntegerField()
    share_denominator = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    gpu = models.CharField(max_length=128, blank=True, help_text="the ledger's; empty: device_uuid")
    root = models.CharField(max_length=300, blank=True, help_text="of kubectl: what made its pod, job/train")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["claim_uid", "device"],
                condition=models.Q(origin=Origin.ALLOTMENT),
                name="allocation_once_per_claim_device",
            ),
            models.UniqueConstraint(
                fields=["claim_uid", "device"],
                condition=models.Q(origin=Origin.KUBECTL, ended_at=None),
                name="allocation_one_open_by_kubectl",
            ),
            models.CheckConstraint(
                condition=models.Q(origin=Origin.ALLOTMENT, workload__isnull=False, offer__isnull=False)
                | models.Q(origin=Origin.KUBECTL, workload=None),
                name="allocation_of_its_origin",
            ),
        ]
        indexes = [
            models.Index(fields=["workload", "started_at"], name="allocation_by_workload"),
            models.Index(fields=["tenant", "started_at"], name="allocation_by_tenant"),
            models.Index(fields=["gpu", "ended_at"], name="allocation_by_gpu"),
        ]

    def __str__(self) -> str:
        return f"{self.device} from {self.started_at:%H:%M:%S}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("allocation", self.pk, self.device, self.tenant.slug)

    @property
    def interval(self) -> tuple[datetime, datetime | None]:
        """When it counts, by the newest correction; one without an end keeps the observed end."""
        newest = max(self.corrections.all(), key=lambda each: each.pk, default=None)
        if newest is None:
            return self.started_at, self.ended_at
        ended_at = newest.ended_at or self.ended_at
        return newest.started_at, ended_at and max(newest.started_at, ended_at)

    @property
    def work(self) -> Workload:
        """The workload of one that was not made with kubectl."""
        if self.workload is None:
            raise TypeError("it was made with kubectl")
        return self.workload


class Correction(models.Model):
    """A later and better word on when an allocation began and ended. Never changed; the newest holds."""

    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, related_name="corrections")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField()
    made_by = models.CharField(max_length=150)
    made_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["allocation", "-id"], name="correction_by_allocation")]

    def __str__(self) -> str:
        return f"{self.allocation_id}: {self.reason}"


class Device(models.Model):
    """What telemetry speaks of: a GPU, or an instance of one. -1 stands for no instance.

    `instance_uuid` (MIG-...) is learned from the exporter's labels and joins it to its allocations; a GPU is
    joined by `uuid`. An instance that was cut anew (another profile or MIG UUID) is another device.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    uuid = models.CharField(max_length=80, help_text="of the physical GPU")
    gpu_instance = models.SmallIntegerField(default=-1)
    compute_instance = models.SmallIntegerField(default=-1)
    profile = models.CharField(max_length=32, blank=True)
    instance_uuid = models.CharField(max_length=80, blank=True)
    node = models.CharField(max_length=253)
    model = models.CharField(max_length=80, blank=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "uuid", "gpu_instance", "compute_instance", "profile", "instance_uuid"],
                name="metering_device_once",
            )
        ]
        indexes = [
            models.Index(fields=["uuid"], name="metering_device_by_uuid"),
            models.Index(fields=["instance_uuid"], name="metering_device_by_instance"),
        ]

    def __str__(self) -> str:
        return f"{self.uuid}/{self.gpu_instance}" if self.gpu_instance >= 0 else self.uuid


class Sample(models.Model):
    """One device over one collection that ended at `ts`. Ratios in millionths; null is unknown, never 0.

    Partitioned by day on PostgreSQL. `smi` is nvidia-smi's GPU utilization in percent, shown beside and
    believed in nothing.
    """

    pk = models.CompositePrimaryKey("device_id", "ts")
    device = models.ForeignKey(Device, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    ts = models.DateTimeField()
    seconds = models.SmallIntegerField(db_default=30, help_text="it speaks of (ts - seconds, ts]")
    smi = models.SmallIntegerField(null=True)
    sm_active = models.IntegerField(null=True)
    sm_occupancy = models.IntegerField(null=True)
    tensor_active = models.IntegerField(null=True)
    fp64_active = models.IntegerField(null=True)
    fp32_active = models.IntegerField(null=True)
    fp16_active = models.IntegerField(null=True)
    dram_active = models.IntegerField(null=True)
    memory_used_mib = models.IntegerField(null=True)
    memory_total_mib = models.IntegerField(null=True)
    power_mw = models.IntegerField(null=True)
    energy_mj = models.BigIntegerField(null=True)
    pcie_tx = models.BigIntegerField(null=True, help_text="bytes per second, as all rates")
    pcie_rx = models.BigIntegerField(null=True)
    nvlink = models.BigIntegerField(null=True)
    sm_clock_mhz = models.SmallIntegerField(null=True)
    throttle = models.BigIntegerField(null=True, help_text="NVML's bit mask of reasons")
    celsius = models.SmallIntegerField(null=True)
    xid = models.IntegerField(null=True)
    processes = models.SmallIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.device_id} {self.ts:%H:%M:%S}"


class CollectorPosition(models.Model):
    """How far one source was read for one cluster, so that a restarted collector goes on where it was."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    source = models.CharField(max_length=16, choices=Source.choices())
    shard = models.CharField(max_length=253, blank=True)
    until = models.DateTimeField()
    not_before = models.DateTimeField(null=True, help_text="when it may be asked again: it said so")
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "source", "shard"], name="collector_position_once")
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.shard} until {self.until:%H:%M:%S}"


class TelemetryIssue(models.Model):
    """Something wrong with what the exporters send, in an operator's words; open until `resolved_at`."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    node = models.CharField(max_length=253, blank=True)
    kind = models.CharField(max_length=32, choices=TroubleKind.choices())
    message = models.TextField(help_text="what is wrong and exactly what to do")
    kept_aside = models.TextField(blank=True, help_text="the beginning of what could not be read")
    count = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(help_text="when it was first seen")
    last_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["cluster", "resolved_at"], name="telemetry_issue_open")]

    def __str__(self) -> str:
        return f"{self.kind} on {self.node}"


class Bucket(models.Model):
    """What one account had of one physical GPU in a span of `level` seconds, and what was done with it.

    Written by `rolling` alone, by replacing: the same facts give the same rows, bit for bit. Invariant: the
    `share_us` of one (level, starts_at, gpu) sum to `denominator` x the microseconds the GPU was there.
    Units: `share_us` numerators x µs; `held_us`, `seen_us` µs of the device held and of it seen; the sums µs
    x millionths over what was seen; `effective` sums max(SM, DRAM); the four causes and `effective` sum to
    `seen_us` x 1,000,000. `blind_idle` is a part of `idle`.
    """

    level = models.IntegerField(help_text="300, 3600 or 86400")
    starts_at = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    gpu = models.CharField(max_length=128)
    node = models.CharField(max_length=253, blank=True)
    model = models.CharField(max_length=80, blank=True)
    account = models.CharField(max_length=12, choices=Account.choices())
    reason = models.CharField(max_length=16, blank=True, help_text="of idle: free, reserved, cordoned ...")
    holder = models.CharField(max_length=36, blank=True, help_text="the allocation's id as text, or empty")
    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, null=True, related_name="+")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, null=True, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, null=True, related_name="+")
    denominator = models.PositiveIntegerField()
    share_us = models.BigIntegerField()
    held_us = models.BigIntegerField()
    seen_us = models.BigIntegerField(default=0)
    samples = models.IntegerField(default=0)
    smi_us = models.BigIntegerField(default=0, help_text="of what was seen, with a figure of nvidia-smi")
    sm_us = models.BigIntegerField(default=0, help_text="... with SM active; missing is never 0")
    tensor_us = models.BigIntegerField(default=0)
    dram_us = models.BigIntegerField(default=0)
    smi_sum = models.BigIntegerField(default=0)
    sm_sum = models.BigIntegerField(default=0)
    sm_max = models.IntegerField(null=True)
    tensor_sum = models.BigIntegerField(default=0)
    dram_sum = models.BigIntegerField(default=0)
    effective = models.BigIntegerField(default=0)
    partly = models.BigIntegerField(default=0)
    idle = models.BigIntegerField(default=0)
    blind_idle = models.BigIntegerField(default=0, db_default=0, help_text="of idle: without SM active")
    hoarded = models.BigIntegerField(default=0)
    zombie = models.BigIntegerField(default=0)
    memory_max_mib = models.IntegerField(null=True)
    power_us_mw = models.BigIntegerField(default=0, help_text="µs x mW of the board, 0 on instances")
    histogram = models.JSONField(default=list, help_text="µs seen by tenth of SM active")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["level", "starts_at", "cluster", "gpu", "account", "reason", "holder"],
                name="bucket_once",
            )
        ]
        indexes = [
            models.Index(fields=["tenant", "level", "starts_at"], name="bucket_by_tenant"),
            models.Index(fields=["workload", "level", "starts_at"], name="bucket_by_workload"),
            models.Index(fields=["level", "starts_at"], name="bucket_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.gpu} {self.account} {self.starts_at:%d %H:%M}"


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
