"""What the ledger is made from besides allocations: facts of hardware, what is to be made anew, and how far.

They need no other model of metering, so that `models` may import them.
"""

from django.db import models

from apps.cluster.models import Cluster


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
