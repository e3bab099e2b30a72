"""The append-only record: one hash chain per tenant and one for the platform."""

from typing import Any, NoReturn

from django.db import models


class AppendOnlyError(RuntimeError):
    """Somebody tried to change or delete an audit event; a programming mistake, not a refusal to a person."""


class AppendOnlyQuerySet(models.QuerySet["AuditEvent"]):
    """Rows can be added and read; every other write raises."""

    def update(self, **_kwargs: Any) -> NoReturn:
        """Always raises."""
        raise AppendOnlyError("audit events are never changed")

    def delete(self) -> NoReturn:
        """Always raises."""
        raise AppendOnlyError("audit events are never deleted")

    def bulk_update(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Always raises."""
        raise AppendOnlyError("audit events are never changed")


class ChainHead(models.Model):
    """The last link of a chain; locked last, so that writers to one chain queue here and nowhere else."""

    chain = models.CharField(primary_key=True, max_length=64)
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="")

    def __str__(self) -> str:
        return f"{self.chain}#{self.sequence}"


class AuditEvent(models.Model):
    """Who did what to which thing. Never updated or deleted; `hash` covers the row and `previous_hash`."""

    id = models.BigAutoField(primary_key=True)
    chain = models.CharField(max_length=64)
    sequence = models.BigIntegerField(help_text="1, 2, 3 ... within the chain")
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    token = models.CharField(max_length=12, blank=True)
    action = models.CharField(max_length=64, help_text="such as workload.stop")
    target_kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    target_name = models.CharField(max_length=255)
    request_id = models.CharField(max_length=64, blank=True)
    reason = models.TextField(blank=True)
    changes = models.JSONField(default=dict)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        base_manager_name = "objects"
        constraints = [models.UniqueConstraint(fields=["chain", "sequence"], name="audit_one_link_per_place")]
        indexes = [
            models.Index(fields=["target_id", "-id"], name="audit_by_target"),
            models.Index(fields=["at"], name="audit_by_time"),
            models.Index(fields=["chain", "at"], name="audit_by_chain"),
            models.Index(fields=["actor", "at"], name="audit_by_actor"),
            models.Index(fields=["action", "at"], name="audit_by_action"),
            models.Index(fields=["target_kind", "at"], name="audit_by_kind"),
            models.Index(fields=["request_id"], name="audit_by_request"),
        ]

    def __str__(self) -> str:
        return f"{self.chain}#{self.sequence} {self.action}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert only."""
        if not self._state.adding:
            raise AppendOnlyError("audit events are never changed")
        super().save(*args, **kwargs)

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Always raises."""
        raise AppendOnlyError("audit events are never deleted")
