"""What was allocated, what the silicon did, and what follows from both: sums, bills, findings.

Ratios are kept as integers in millionths and times as microseconds, so that sums are exact in any order.
"""

import uuid
from datetime import datetime
from fractions import Fraction

from django.db import models
from django.utils import timezone

from apps.audit.specs import Target
from apps.cluster.models import Cluster
from apps.metering.specs import Origin
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload


class Allocation(models.Model):
    """A half-open interval [started_at, ended_at) during which a tenant held one device, or a pod's cores of
    an offer without a GPU; null is open.

    `origin` says what holds it: a workload, or a claim or pod made with kubectl. That has no workload; its
    `root` and `device_uuid` are added while it is open, when they are first told. `offer` is what it is
    charged as; null: no offer was like the device when it was seen, so it has no price. `share_numerator /
    share_denominator` is the part of the physical GPU (MIG 1g: 1/7; cores: 0); `units`: how many times the
    offer's price it costs, which is 1 for a device. `in_shares`: the share is a part of a device that others
    may hold too (consumable capacity), whose UUID speaks of nobody alone and is left out.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    origin = models.CharField(max_length=12, choices=Origin.choices(), default=Origin.ALLOTMENT)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+", db_index=False)
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
    units = models.PositiveIntegerField(default=1, db_default=1, help_text="cores; 1 of a device")
    in_shares = models.BooleanField(
        default=False, db_default=False, help_text="the share is a part of a device that others may hold too"
    )
    started_at = models.DateTimeField()
    is_start_seen = models.BooleanField(
        default=False, db_default=False, help_text="the claim did not say when it was allocated"
    )
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
            models.Index(fields=["cluster", "ended_at"], name="allocation_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.device} from {self.started_at:%H:%M:%S}"

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("allocation", self.pk, self.device, self.tenant.slug)

    @property
    def is_cores(self) -> bool:
        """Whether it is of no GPU."""
        return not self.share_numerator

    @property
    def part(self) -> Fraction:
        """What of its device it holds: the ledger counts no more of it."""
        return Fraction(self.share_numerator, self.share_denominator) if self.in_shares else Fraction(1)

    @property
    def priced(self) -> int | Fraction:
        """How many times the offer's price it costs: its cores, its part of a device, or 1."""
        return self.part if self.in_shares else self.units

    @property
    def charged_as(self) -> str:
        """The offer's name, of a share of a device as such: `1/4 of H100`."""
        name = self.offer.name if self.offer else "like no offer"
        return f"{self.part} of {name}" if self.in_shares and self.offer else name

    @property
    def interval(self) -> tuple[datetime, datetime | None]:
        """When it counts, by the newest correction; one without an end keeps the observed end."""
        return self.interval_by(max(self.corrections.all(), key=lambda each: each.pk, default=None))

    def interval_by(self, newest: "Correction | None") -> tuple[datetime, datetime | None]:
        """The same where the newest correction is known."""
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
