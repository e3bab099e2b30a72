"""Who acts, with which rights. Pure: no I/O."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.words import Word


class PlatformRole(Word):
    """A right over the whole installation; blank for everybody else."""

    PLATFORM = "platform", "Platform engineer"
    AUDITOR = "auditor", "Auditor"


@dataclass(frozen=True)
class Actor:
    """The one who asks: a signed-in user, a token of a user, or the system itself.

    `scopes` and `tenants` are None when the credential does not cut the user's rights
    (a session, or a token made without limits). `ends_at` is a token's end; a session makes what outlives it.
    `user_id` is None for the system only. `viewed_by` is the platform engineer who sees the portal as this
    person (`apps.accounts.viewing`): such an actor reads, and nothing is recorded of it.
    """

    username: str
    user_id: UUID | None = None
    platform_role: str = ""
    token_prefix: str = ""
    token_id: UUID | None = None
    scopes: frozenset[str] | None = None
    tenants: frozenset[str] | None = None
    request_id: str = ""
    ends_at: datetime | None = None
    viewed_by: str = ""

    @property
    def is_platform(self) -> bool:
        """Whether this credential acts for the whole installation: a platform engineer's (or the system's)
        that is cut to no tenants.
        """
        return self.platform_role == PlatformRole.PLATFORM and self.tenants is None

    @property
    def sees_everything(self) -> bool:
        """Whether this credential sees the whole installation: a platform engineer's or an auditor's that is
        cut to no tenants.
        """
        return self.watches_tenants and self.tenants is None

    @property
    def watches_tenants(self) -> bool:
        """Whether no membership is needed to see a tenant that the credential reaches."""
        return self.platform_role in (PlatformRole.PLATFORM, PlatformRole.AUDITOR)

    def reaches(self, tenant: str) -> bool:
        """Whether the credential is not cut away from the tenant of this slug."""
        return self.tenants is None or tenant in self.tenants

    def is_engineer_of(self, tenant: str) -> bool:
        """Whether this is a platform engineer (or the system) whose credential reaches the tenant."""
        return self.platform_role == PlatformRole.PLATFORM and self.reaches(tenant)

    def may_use(self, group: str, verb: str) -> bool:
        """Whether the credential's scopes allow `verb` ("read" or "write") on a scope group; write includes
        read.
        """
        if self.scopes is None:
            return True
        return f"{group}:write" in self.scopes or (verb == "read" and f"{group}:read" in self.scopes)


def system_actor(name: str) -> Actor:
    """The product acting by itself (a lease ran out, a sweep); shown as `system:<name>` in the audit."""
    return Actor(username=f"system:{name}", platform_role=PlatformRole.PLATFORM)


class ScopeGroup(Word):
    """What a token's scope reaches; each has `<group>:read` and `<group>:write`, and write includes read."""

    TENANTS = "tenants", "Departments and tenants"
    PEOPLE = "people", "People, their roles and service accounts"
    QUOTAS = "quotas", "Quotas"
    CATALOG = "catalog", "Flavors, offers and prices"
    WORKLOADS = "workloads", "Workloads"
    INVENTORY = "inventory", "Nodes and devices"
    METERING = "metering", "Allocations, utilization and costs"
    AUDIT = "audit", "Audit record"
    CLUSTERS = "clusters", "Clusters"
    TOKENS = "tokens", "API tokens and SSH keys"
    NOTIFICATIONS = "notifications", "Messages"


SCOPES = tuple(f"{group}:{verb}" for group in ScopeGroup for verb in ("read", "write"))
"""Every scope there is."""

VIEWING = "viewing"
"""Under this name a session keeps the id of its view; all else about it stands in the database."""
LONGEST_REASON = 200
"""Of a view, in letters."""


class ViewEnd(Word):
    """How a view ended."""

    ENDED = "ended", "ended by the engineer"
    TIME = "time", "its time was over"
    SIGNED_OUT = "signed-out", "the engineer signed out"
    SESSION = "session", "the engineer's session ended"
    VIEWER = "viewer", "the engineer lost the role or was disabled"
    PERSON = "person", "the person was disabled or became a platform engineer"


DECIDED_BY = "decided_by"
"""In the record of a platform role that the system gave: who wrote the rules that it followed."""

DEMO_PEOPLE = {"researcher": "researcher", "lead": "team lead", "platform": "platform engineer"}
"""The demo's sign-in buttons in their order: username, and what the person is."""
