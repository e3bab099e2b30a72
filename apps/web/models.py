"""What HTTP itself has to remember: answers to requests that carried an Idempotency-Key."""

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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["credential", "path", "key"], name="idempotency_key_once")
        ]

    def __str__(self) -> str:
        return f"{self.key} on {self.path}"
