"""What the ledger is made from besides allocations: facts of hardware, what is held by kubectl, what is to be
made anew, and how far.

They need no other model of metering, so that `models` may import them.
"""

import uuid

from django.db import models

from apps.cluster.models import Cluster
from apps.quotas.models import Offer
from apps.tenants.models import Tenant


class HardwareFact(models.Model):
    """One thing that became so of a physical GPU, from `at` on. Append-only; later facts outdo earlier ones.

    `gpu` is its UUID, or node/resource where a device plugin hides which GPU it is. Kinds and values are
    those of `ledger.Change`.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    gpu = models.CharField(max_length=128)
    kind = models.CharField(max_length=16)
    at = models.DateTimeField()
    value = models.JSONField(default=dict)
    recorded_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["cluster", "gpu", "at"], name="hardware_fact_by_gpu")]

    def __str__(self) -> str:
        return f"{self.gpu} {self.kind} {self.at:%H:%M:%S}"


class KubectlHolding(models.Model):
    """A half-open interval [started_at, ended_at) during which a tenant held one device by a claim or pod
    that is no workload of ours; null is open. Ended, never changed otherwise; `device_uuid` and `root` are
    added to an open one when they are first told.

    `offer` is what the device was of when it was seen; null: no offer was like it, so it has no price.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, null=True, related_name="+")
    capacity = models.CharField(max_length=12, blank=True, help_text="of the node: on-demand, spot, unknown")
    claim_uid = models.CharField(max_length=64, help_text="the pod's behind a device plugin")
    device = models.CharField(max_length=128, help_text="as the ledger names it")
    device_uuid = models.CharField(max_length=80, blank=True, default="", db_default="")
    gpu = models.CharField(max_length=128, help_text="the ledger's")
    node = models.CharField(max_length=253)
    root = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="what made its pod: job/train"
    )
    share_numerator = models.PositiveIntegerField()
    share_denominator = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["claim_uid", "device"], condition=models.Q(ended_at=None), name="kubectl_holding_open"
            )
        ]
        indexes = [models.Index(fields=["tenant", "started_at"], name="kubectl_holding_by_tenant")]

    def __str__(self) -> str:
        return f"{self.device} from {self.started_at:%H:%M:%S}"


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
