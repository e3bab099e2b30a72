"""The tokens with which programs call a service, as a table. `apps.workloads.models` registers it."""

import uuid

from django.db import models

from apps.accounts.models import ApiToken, User
from apps.audit.specs import Target


class ServiceToken(models.Model):
    """A token of one service. Of its text only the SHA-256 is kept.

    RULE: it hangs on the access of whoever made it, and where that was done with an API token, on that token
    too: what a token makes opens no longer and no more than itself. After a rotation the text of before opens
    until `old_ends_at`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workload = models.ForeignKey("workloads.Workload", on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=60)
    made_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    made_with = models.ForeignKey(ApiToken, on_delete=models.CASCADE, related_name="+", null=True)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    old_digest = models.CharField(max_length=64, null=True, unique=True)
    old_ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    rotated_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload", "name"],
                condition=models.Q(revoked_at__isnull=True),
                name="service_token_once_by_name",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.workload_id}"

    @property
    def audit_target(self) -> Target:
        """In the chain of the workload's tenant."""
        work = self.workload
        return Target("service-token", self.pk, f"{work.slug}/{self.name}", work.tenant.slug)
