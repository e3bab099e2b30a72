"""Closed months: written once, never changed. They need no other model of metering, so that `models` may
import them.
"""

import uuid
from typing import Any, NoReturn

from django.db import models
from django.utils import timezone

from apps.audit.specs import Target
from apps.metering.specs import LineKind
from apps.quotas.models import Offer
from apps.tenants.models import Tenant
from apps.workloads.models import Workload


class Unchangeable(RuntimeError):
    """What is closed was about to be changed or deleted: a mistake of the program, never of a person."""


class _WrittenOnce(models.QuerySet[Any]):
    """Rows are added, and nothing else."""

    def update(self, **_values: object) -> NoReturn:
        """Refused."""
        raise Unchangeable("a closed statement is never changed")

    def bulk_update(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused."""
        raise Unchangeable("a closed statement is never changed")

    def delete(self) -> NoReturn:
        """Refused."""
        raise Unchangeable("a closed statement is never deleted")


class WrittenOnce(models.Model):
    """A row that is added once: a second save, an update and a deletion raise `Unchangeable`."""

    objects = _WrittenOnce.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Adds it; whatever is there already is never written again."""
        if not self._state.adding:
            raise Unchangeable("a closed statement is never changed")
        super().save(*args, **(kwargs | {"force_insert": True}))

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused."""
        raise Unchangeable("a closed statement is never deleted")


class Statement(WrittenOnce):
    """One tenant's closed month. What comes to light later is a correction in the next one.

    `total = effective + waste + unknown + other`; other is CPU, memory and storage, which have one price.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="statements")
    month = models.DateField(help_text="its first day; months are those of UTC")
    number = models.CharField(max_length=64, unique=True)
    currency = models.CharField(max_length=3)
    formula = models.CharField(max_length=64, help_text="of the effective price, with its version")
    total = models.DecimalField(max_digits=20, decimal_places=2)
    effective = models.DecimalField(max_digits=20, decimal_places=2)
    waste = models.DecimalField(max_digits=20, decimal_places=2)
    unknown = models.DecimalField(max_digits=20, decimal_places=2)
    other = models.DecimalField(max_digits=20, decimal_places=2, default=0)
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=150)
    digest = models.CharField(max_length=64, help_text="SHA-256 over its head and lines")
    focus_digest = models.CharField(
        max_length=64, default="", db_default="", help_text="SHA-256 of its file; empty: none was kept"
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "month"], name="statement_once")]

    def __str__(self) -> str:
        return self.number

    @property
    def audit_target(self) -> Target:
        """In its tenant's chain."""
        return Target("statement", self.pk, self.number, self.tenant.slug)


class StatementLine(WrittenOnce):
    """One line of a statement; the amounts of all sum to its total to the cent.

    A GPU line tells what was charged of it in two prices: its `effective`, `waste` (by `causes`) and
    `unknown` sum to its amount and its refund's. A correction's `begins` and `ends` are the month corrected.
    """

    statement = models.ForeignKey(Statement, on_delete=models.PROTECT, related_name="lines")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=12, choices=LineKind.choices())
    about = models.CharField(
        max_length=12, choices=LineKind.choices(), help_text="what is corrected, else kind"
    )
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, null=True, related_name="+")
    offer = models.ForeignKey(Offer, on_delete=models.PROTECT, null=True, related_name="+")
    capacity = models.CharField(max_length=12, blank=True)
    description = models.CharField(max_length=200)
    quantity = models.DecimalField(max_digits=20, decimal_places=8)
    unit = models.CharField(max_length=24)
    unit_price = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, help_text="per hour; null: it changed in the month"
    )
    list_price = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, help_text="everybody's; null: it changed in the month"
    )
    listed = models.DecimalField(
        max_digits=20, decimal_places=2, default=0, help_text="the amount at everybody's price"
    )
    amount = models.DecimalField(max_digits=20, decimal_places=2)
    effective = models.DecimalField(max_digits=20, decimal_places=2, default=0)
    waste = models.DecimalField(max_digits=20, decimal_places=2, default=0)
    unknown = models.DecimalField(max_digits=20, decimal_places=2, default=0)
    causes = models.JSONField(default=dict, help_text="cause -> cents as text; they sum to waste")
    begins = models.DateTimeField()
    ends = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["statement", "position"], name="statement_line_position")
        ]
        ordering = ["position"]

    def __str__(self) -> str:
        return f"{self.position}. {self.description}"


class StatementExport(WrittenOnce):
    """A statement's file in FOCUS's columns, as it was when it was closed: names, labels and days of then."""

    statement = models.OneToOneField(Statement, on_delete=models.PROTECT, related_name="export")
    focus = models.BinaryField(help_text="CSV, packed with zlib")

    def __str__(self) -> str:
        return f"file of {self.statement_id}"
