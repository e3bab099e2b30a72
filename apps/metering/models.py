"""What was allocated, to whom, from when to when: the facts that bills are made from."""

import uuid

from django.db import models

from apps.cluster.models import Cluster
from apps.quotas.models import Offer
from apps.workloads.models import Workload


class Allocation(models.Model):
    """A half-open interval [started_at, ended_at) during which a workload held one device; null is open.

    `share_numerator / share_denominator` is the part of the physical GPU (MIG 1g: 1/7). One row per claim
    result.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="allocations")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, related_name="+")
    claim_uid = models.CharField(max_length=64)
    node = models.CharField(max_length=253)
    device = models.CharField(max_length=128, help_text="pool/device as the driver names it")
    device_uuid = models.CharField(max_length=80, blank=True)
    share_numerator = models.PositiveIntegerField()
    share_denominator = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["claim_uid", "device"], name="allocation_once_per_claim_device")
        ]
        indexes = [models.Index(fields=["workload", "started_at"], name="allocation_by_workload")]

    def __str__(self) -> str:
        return f"{self.device} from {self.started_at:%H:%M:%S}"
