"""People, their sign-in and their API tokens. Tenant roles live in `apps.tenants`."""

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models

from apps.accounts.specs import PlatformRole
from apps.audit.specs import Target


class User(AbstractUser):
    """A person or a service account. `platform_role` gives rights over the whole installation."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    display_name = models.CharField(max_length=120, blank=True)
    platform_role = models.CharField(max_length=16, blank=True, choices=PlatformRole.choices())
    is_service = models.BooleanField(default=False, help_text="a service account: never signs in")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.username

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("user", self.pk, self.username)

    @property
    def shown_name(self) -> str:
        """What pages call this person."""
        return self.display_name or self.username


class ApiToken(models.Model):
    """A bearer token of a user. Only its SHA-256 is stored, so a stolen database gives no access."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=120)
    prefix = models.CharField(
        max_length=12, help_text="the first characters, shown so that people can tell tokens apart"
    )
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list, help_text="such as workloads:write; empty: all the user may do")
    tenants = models.JSONField(
        default=list, help_text="tenant slugs the token is cut to; empty: all of the user's"
    )
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("token", self.pk, self.prefix)


class Invitation(models.Model):
    """A one-time link with which a person chooses a password; only its SHA-256 is kept."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="invitations")
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link for {self.user_id}"
