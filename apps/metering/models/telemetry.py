"""What the silicon did: devices, samples, and how their sources do."""

from django.db import models

from apps.cluster.models import Cluster
from apps.metering.specs import Source, TroubleKind


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
    # The primary key begins with the device: an index of its own would make each row a tenth dearer.
    device = models.ForeignKey(
        Device, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
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
