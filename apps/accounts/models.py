"""People, their sign-in, their API tokens and SSH keys. Tenant roles live in `apps.tenants`."""

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models

from apps.accounts.specs import LONGEST_REASON, PlatformRole, ViewEnd
from apps.audit.specs import Target
from apps.sealing import key_in_force


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


class ExternalIdentity(models.Model):
    """Whom an organisation's sign-in brings: a person is known by issuer and subject, never by e-mail."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    provider = models.CharField(max_length=32, help_text="its slug in the settings")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    groups = models.JSONField(default=list, help_text="as the provider said at the last sign-in")
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(help_text="the last sign-in")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_one_person_per_subject")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} by {self.provider}"


class Authenticator(models.Model):
    """Somebody's authenticator app. Its secret is sealed (`apps.sealing`): a stolen database is no app."""

    user = models.OneToOneField(
        User, primary_key=True, on_delete=models.CASCADE, related_name="authenticator"
    )
    sealed = models.CharField(max_length=255)
    last_step = models.BigIntegerField(default=0, help_text="of the last code accepted: each opens once")
    wrong = models.PositiveIntegerField(default=0, help_text="wrong codes since `wrong_since`, for an hour")
    wrong_since = models.DateTimeField(null=True)
    set_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"of {self.user_id}"


class Passkey(models.Model):
    """A passkey of a person: its public key, so nothing here opens anything."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=60)
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the credential's id")
    credential = models.TextField(help_text="WebAuthn's attested credential data: id and public key")
    uses = models.BigIntegerField(
        default=0, help_text="as the device counts its signatures; synced passkeys say 0"
    )
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} of {self.user_id}"


class SshKey(models.Model):
    """A public SSH key of a person: who connects with its private half is known by it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys")
    name = models.CharField(max_length=120, help_text="what the person calls it")
    text = models.TextField(help_text="type and base64, as in a .pub file, without the comment")
    fingerprint = models.CharField(
        max_length=64, unique=True, help_text="SHA256:..., as ssh-keygen prints it"
    )
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} of {self.user_id}"

    @property
    def type(self) -> str:
        """Such as ssh-ed25519."""
        return self.text.partition(" ")[0]

    @property
    def audit_target(self) -> Target:
        """In the platform's chain."""
        return Target("ssh-key", self.pk, self.fingerprint)


class RecoveryCode(models.Model):
    """One of ten codes for who has lost the second factor; kept as a digest that needs the secret key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64, unique=True)
    key = models.CharField(
        max_length=8, default=key_in_force, db_default="", help_text="the secret key; empty: the oldest"
    )
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"of {self.user_id}"


class SignInFlow(models.Model):
    """A sign-in that is under way at a provider; used up by the first answer, whatever that says.

    `digest` is of the secret in the browser's cookie, so that an answer counts only where it was asked for.
    """

    digest = models.CharField(primary_key=True, max_length=64)
    provider = models.CharField(max_length=32)
    state = models.CharField(max_length=64)
    nonce = models.CharField(max_length=64)
    verifier = models.CharField(max_length=64)
    way_on = models.CharField(max_length=2000, blank=True)
    user = models.ForeignKey(
        User, null=True, on_delete=models.CASCADE, related_name="+", help_text="who connects a further way in"
    )
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"at {self.provider}"


class PersonSession(models.Model):
    """A browser in which somebody is signed in. The session itself is Django's; it ends with that row."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions")
    session_key = models.CharField(max_length=40, unique=True)
    way = models.CharField(
        max_length=48,
        help_text="password, passkey, demo, break-glass, oidc:<provider>; after + what else was shown",
    )
    address = models.CharField(max_length=64, blank=True)
    browser = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["user", "-started_at"], name="session_by_user")]

    def __str__(self) -> str:
        return f"{self.user_id} by {self.way}"


class Viewing(models.Model):
    """A time in which a platform engineer saw the portal as somebody else. The session that it was begun in
    names it; it is over by `end_of`, and `ended_at` says that this was recorded and told.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    viewer = models.ForeignKey(User, on_delete=models.CASCADE, related_name="views")
    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="viewings")
    session_key = models.CharField(max_length=40)
    reason = models.CharField(max_length=LONGEST_REASON)
    began_at = models.DateTimeField()
    ends_at = models.DateTimeField(help_text="it ends by itself then")
    ended_at = models.DateTimeField(null=True)
    how = models.CharField(max_length=12, blank=True, choices=ViewEnd.choices())

    class Meta:
        indexes = [
            models.Index(fields=["person", "-began_at"], name="viewing_by_person"),
            models.Index(fields=["session_key"], name="viewing_open", condition=models.Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.viewer_id} as {self.person_id}"
