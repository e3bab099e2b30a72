"""What HTTP itself has to remember: answers to requests that carried an Idempotency-Key; and self-checks."""

from collections.abc import Collection

from django.db import models


class IdempotencyKey(models.Model):
    """An Idempotency-Key of one credential on one path, with the 2xx it got. Written together with the object
    it made.
    """

    credential = models.CharField(max_length=64)
    path = models.CharField(max_length=300)
    key = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0, help_text="0 while the first request still runs")
    headers = models.JSONField(default=dict)
    response = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    hashes: Collection[str] = ()
    """Of a key that comes in: what `body_hash` may be, by each secret key of the settings."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["credential", "path", "key"], name="idempotency_key_once")
        ]

    def __str__(self) -> str:
        return f"{self.key} on {self.path}"


class SelfCheck(models.Model):
    """What the product last found when it checked itself; a check that could not run leaves the last one."""

    name = models.CharField(primary_key=True, max_length=64, help_text="audit, or ledger:<cluster>")
    checked_at = models.DateTimeField()
    seen = models.BigIntegerField(default=0, help_text="how many things were looked at")
    breaches = models.PositiveIntegerField(default=0, help_text="how many of them do not hold")
    first = models.TextField(default="", db_default="", help_text="where the first breach is, in words")

    def __str__(self) -> str:
        return f"{self.name}: {self.breaches} breaches"
