"""Messages inside the product, one row for each person told."""

import uuid

from django.conf import settings
from django.db import models

from apps.notices.specs import Kind


class Notice(models.Model):
    """One message to one person. `url` is the portal page where they can act on it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=32, choices=Kind.choices())
    tenant = models.CharField(max_length=40, blank=True, help_text="its slug, where it is about one")
    message = models.CharField(max_length=1000)
    url = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-created_at"], name="notice_by_user"),
            models.Index(fields=["user"], name="notice_unread", condition=models.Q(read_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.user_id}"
