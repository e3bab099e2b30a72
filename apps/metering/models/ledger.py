"""What the ledger is made from besides allocations: facts of hardware, what is to be made anew, and how far.

They need no other model of metering, so that `models` may import them.
"""

from django.db import models

from apps.cluster.models import Cluster
from apps.metering.models.allocations import Allocation
from apps.metering.specs import Account
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload


class HardwareFact(models.Model):
    """One thing that became so of a physical GPU, from `at` on. Append-only; later facts outdo earlier ones.

    `gpu` is its UUID, or node/resource where a device plugin hides which GPU it is. Kinds and values are
    those of `ledger.Change`. Whoever reads what held at a moment need not read what was outdone before it: an
    `outdone_at` that is missing, or late, is read in vain and changes nothing.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    gpu = models.CharField(max_length=128)
    kind = models.CharField(max_length=16)
    at = models.DateTimeField()
    value = models.JSONField(default=dict)
    recorded_at = models.DateTimeField()
    outdone_at = models.DateTimeField(
        null=True, help_text="since when a later fact of its group holds instead"
    )

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "gpu", "outdone_at"], name="hardware_fact_of_gpu"),
            models.Index(fields=["cluster", "at"], name="hardware_fact_by_time"),
            models.Index(fields=["cluster", "outdone_at"], name="hardware_fact_that_holds"),
        ]

    def __str__(self) -> str:
        return f"{self.gpu} {self.kind} {self.at:%H:%M:%S}"


class DirtySpan(models.Model):
    """A GPU's time whose buckets must be made anew: a sample, fact or finding came for it.

    The unique index begins with the cluster; one of the cluster alone would make each mark a third dearer.
    """

    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    gpu = models.CharField(max_length=128)
    starts_at = models.DateTimeField(help_text="of a bucket of 300 s")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "gpu", "starts_at"], name="dirty_span_once")
        ]

    def __str__(self) -> str:
        return f"{self.gpu} {self.starts_at:%d %H:%M}"


class RollPosition(models.Model):
    """How far a cluster's ledger is rolled up: buckets of [since, until) exist, those before `pruned_until`
    only by the hour and day. Its lock lets one worker roll a cluster at a time.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField()
    until = models.DateTimeField()
    pruned_until = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"rolled until {self.until:%d %H:%M}"


class Bucket(models.Model):
    """What one account had of one physical GPU in a span of `level` seconds, and what was done with it.

    Written by `rolling` alone, by replacing: the same facts give the same rows, bit for bit. Invariant: the
    `share_us` of one (level, starts_at, gpu) sum to `denominator` x the microseconds the GPU was there.
    Units: `share_us` numerators x µs; `held_us`, `seen_us` µs of the device held and of it seen; the sums µs
    x millionths over what was seen; `effective` sums max(SM, DRAM); the six causes and `effective` sum to
    `seen_us` x 1,000,000. `blind_idle` is a part of `idle`; `evaded` the part of `sm_sum` whose time
    is hoarded or zombie as a whole, because a finding says that the counters were moved on purpose.

    It has the indexes that something reads by, and no other: each costs a write per row, of which there are
    more than of anything but samples.
    """

    level = models.IntegerField(help_text="300, 3600 or 86400")
    starts_at = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
    gpu = models.CharField(max_length=128)
    node = models.CharField(max_length=253, blank=True)
    model = models.CharField(max_length=80, blank=True)
    account = models.CharField(max_length=12, choices=Account.choices())
    reason = models.CharField(max_length=16, blank=True, help_text="of idle: free, reserved, cordoned ...")
    holder = models.CharField(max_length=36, blank=True, help_text="the allocation's id as text, or empty")
    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, null=True, related_name="+")
    workload = models.ForeignKey(
        Workload, on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
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
    crashing = models.BigIntegerField(default=0, db_default=0)
    oversized = models.BigIntegerField(default=0, db_default=0)
    evaded = models.BigIntegerField(default=0, db_default=0, help_text="of SM active: no work")
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


class AccountSum(models.Model):
    """What one account had of all GPUs of a cluster in a span of `level` seconds: its buckets added up, for
    the pages of a fleet and of a team.

    Written with the buckets, in one transaction (`account_sums`). Units: microseconds of physical GPUs, a
    part of a GPU weighed as such; `smi` to `beside` such times x activity. Each bucket is rounded to a
    microsecond: money is made of the buckets, never of these.
    """

    level = models.IntegerField(help_text="300, 3600 or 86400")
    starts_at = models.DateTimeField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
    account = models.CharField(max_length=12, choices=Account.choices())
    reason = models.CharField(max_length=16, blank=True)
    owner = models.CharField(max_length=36, blank=True, help_text="the tenant's id as text, or empty")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    gpu_us = models.BigIntegerField()
    seen_us = models.BigIntegerField()
    smi_us = models.BigIntegerField()
    sm_us = models.BigIntegerField()
    tensor_us = models.BigIntegerField()
    dram_us = models.BigIntegerField()
    smi = models.BigIntegerField()
    sm = models.BigIntegerField()
    tensor = models.BigIntegerField()
    dram = models.BigIntegerField()
    beside = models.BigIntegerField(help_text="of SM active, what nvidia-smi has a figure of, too")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["level", "starts_at", "cluster", "account", "reason", "owner"],
                name="account_sum_once",
            )
        ]
        indexes = [models.Index(fields=["tenant", "level", "starts_at"], name="account_sum_by_tenant")]

    def __str__(self) -> str:
        return f"{self.account} {self.owner or self.reason} {self.starts_at:%d %H:%M}"
