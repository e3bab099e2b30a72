"""The words of tenancy and the frozen shapes that its manifests are made from. Pure."""

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from apps.words import Word

QUEUE_NAME = "gpu"
"""Every tenant's LocalQueue. Never `default`: Kueue would label every unlabelled job of the namespace."""
RESERVE_SUFFIX = "-lends"
"""Behind the name of a tenant's ClusterQueue: another that only lends, of what is closed to the tenant."""

ACCESS_NAMESPACE = "allotment-access"
"""Where the accounts of members live; the chart creates it, and we do inside a virtual cluster."""

ACCESS = "Access"
"""The condition that says whether members have their accounts inside a virtual cluster."""

REGISTRIES = "allotment-registries"
"""The Secret of a tenant's namespace with which its images are pulled."""

ASK_A_LEAD = "A lead of the tenant can make you a member."
"""What to do where only members get further."""

DOOR_NAMESPACE = "allotment-system"
DOOR_LABELS = {"app.kubernetes.io/name": "allotment", "app.kubernetes.io/component": "proxy"}
"""Where the door runs, and the labels of its pods. Routes lie there too, where no tenant writes."""
NOTEBOOKS = "allotment-notebooks"
"""The headless Service of a tenant's namespace that gives the pods of all its notebooks their names."""

OBJECT_QUOTA = "objects"
"""The ResourceQuota of a tenant's namespace that keeps `OBJECT_LIMITS`."""
MOST_PODS = 3000
"""What Kubernetes promises to carry in a namespace (kubernetes/community,
`sig-scalability/configs-and-limits/thresholds.md`).
"""
OBJECT_LIMITS = dict.fromkeys(("count/jobs.batch", "persistentvolumeclaims", "pods"), str(MOST_PODS))
"""How many objects of a kind a tenant's namespace may hold: against runaways, far above honest use. A sweep
of 2,000 jobs waits in the queue, not before it.

RULE: only what a tenant's people make, and disks, which stay. Each creation of a counted object rewrites the
quota, and in a burst those writes wait for each other. What a virtual cluster makes besides is counted for it
alone (`isolation.vcluster`).
"""


class Isolation(Word):
    """How a tenant is fenced off. Every tenant has its namespace; the others add to it."""

    NAMESPACE = "namespace", "Namespace"
    DEDICATED_NODES = "dedicated-nodes", "Dedicated nodes"
    VCLUSTER = "vcluster", "Virtual cluster"

    @property
    def sentence(self) -> str:
        """What it means to the tenant, for pages and forms."""
        return _ISOLATION[self]


_ISOLATION = {
    Isolation.NAMESPACE: "A namespace of its own on nodes that other tenants use too.",
    Isolation.DEDICATED_NODES: "A namespace of its own, and nodes that no other tenant's work runs on.",
    Isolation.VCLUSTER: "A Kubernetes API of its own; its pods run in one namespace of the cluster.",
}


class NodePhase(Word):
    """Where the hand-over of a node to a tenant, or back, stands."""

    CLEARING = "Clearing", "Being cleared for its tenant"
    ASSIGNED = "Assigned", "Serves its tenant"
    RELEASING = "Releasing", "Being given back"
    RELEASED = "Released", "Given back"


class InvitationStatus(Word):
    """Where the invitation of a mail address to a tenant stands."""

    OPEN = "open", "Open"
    APPROVED = "approved", "Approved"
    JOINED = "joined", "Joined"
    DECLINED = "declined", "Declined"
    WITHDRAWN = "withdrawn", "Withdrawn"

    @property
    def sentence(self) -> str:
        """What it means to the team, for pages."""
        return _INVITATION[self]


PENDING_INVITATION = (InvitationStatus.OPEN, InvitationStatus.APPROVED)
"""Those of which something is still to come."""
_INVITATION = {
    InvitationStatus.OPEN: "Waits for a platform engineer",
    InvitationStatus.APPROVED: "Joins at the first sign-in",
    InvitationStatus.JOINED: "Is a member",
    InvitationStatus.DECLINED: "Declined",
    InvitationStatus.WITHDRAWN: "Withdrawn",
}


class TrustLevel(Word):
    """How far a tenant is trusted with others on one device."""

    UNTRUSTED = "untrusted", "Untrusted"
    STANDARD = "standard", "Standard"
    TRUSTED = "trusted", "Trusted"

    @cached_property
    def rank(self) -> int:
        """0 for the least trusted; an offer's minimum is compared by rank."""
        return list(type(self)).index(self)


class Suspend(Word):
    """Whether new work is admitted (`hold`) and whether running work is evicted too (`drain`)."""

    NONE = "none", "Not suspended"
    HOLD = "hold", "New work is held"
    DRAIN = "drain", "New work is held, running work is stopped"


class Role(Word):
    """What a member may do in the tenant."""

    MEMBER = "member", "Member"
    LEAD = "lead", "Team lead"


class RightKind(Word):
    """What a rule on groups may give a right over."""

    TENANT = "tenant", "Tenant"
    DEPARTMENT = "department", "Department"
    PLATFORM = "platform", "Installation"


class DepartmentRole(Word):
    """What a person may be in a department."""

    MANAGER = "manager", "Manager"


class Verdict(Word):
    """How one check of a tenant's isolation came out."""

    PASSED = "passed", "Passed"
    FAILED = "failed", "Failed"
    NOT_CHECKED = "not_checked", "Not checked"

    @property
    def tone(self) -> str:
        """The colour token."""
        return {"passed": "good", "failed": "bad"}.get(self, "muted")

    @property
    def icon(self) -> str:
        """The name in the sprite."""
        return {"passed": "circle-check", "failed": "octagon-alert"}.get(self, "circle-question-mark")


class TenantPhase(Word):
    """Where a tenant stands."""

    PENDING = "Pending", "Being set up"
    READY = "Ready", "Ready"
    ARCHIVED = "Archived", "Archived"
    DELETING = "Deleting", "Being deleted"


class EgressMode(Word):
    """Where a tenant's pods may open connections to, beyond their own namespace and DNS."""

    NONE = "none", "Nowhere"
    ALLOW_LIST = "allow-list", "Listed networks and ports only"
    INTERNET = "internet", "The internet, no private network"


PRIVATE_NETWORKS = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
"""IPv4 that is not the internet (RFC 6890); a cloud's metadata address is link-local."""

PRIVATE_NETWORKS_6 = ("::/127", "fc00::/7", "fe80::/10", "ff00::/8")
"""The same in IPv6; the metadata address `fd00:ec2::254` lies in `fc00::/7`."""


@dataclass(frozen=True)
class EgressPort:
    """One port, or every port of the protocol when `port` is None."""

    protocol: str
    port: int | None


@dataclass(frozen=True)
class EgressRule:
    """One network in CIDR form with the ports that are open there; no ports: all of them."""

    cidr: str
    ports: tuple[EgressPort, ...] = ()


@dataclass(frozen=True)
class Egress:
    """Where to; `allow` counts in the mode `allow-list` alone."""

    mode: EgressMode = EgressMode.NONE
    allow: tuple[EgressRule, ...] = ()


@dataclass(frozen=True)
class Bound:
    """What a department as a whole borrows of a resource from its parent and lends to it; None: no limit."""

    flavor: str
    resource: str
    borrowing: int | None
    lending: int | None


@dataclass(frozen=True)
class DepartmentSpec:
    """All that a department's manifest depends on; `parent` is the parent's Cohort, empty for none."""

    id: str
    object_name: str
    generation: int
    parent: str = ""
    fair_weight: Decimal = Decimal(1)
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class MemberSpec:
    """A member as the cluster sees one: `account` is the service account's name in `allotment-access`."""

    account: str
    role: Role


@dataclass(frozen=True)
class RegistryLogin:
    """How images of one registry are pulled. Never shown, kept or logged as it is."""

    registry: str
    username: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True)
class TenantSpec:
    """All that a tenant's manifests depend on, besides its quota (`apps.quotas.specs.QueueSpec`)."""

    id: str
    slug: str
    object_name: str
    cohort: str
    generation: int
    suspend: Suspend
    members: tuple[MemberSpec, ...]
    syncer: str = ""
    """The account that makes pods for its virtual cluster; empty where it has none."""
    egress: Egress = Egress()
    shells: tuple[MemberSpec, ...] = ()
    """Who has an account beside the tenant's virtual cluster, for SSH and terminals alone; elsewhere the
    accounts of `members` do it.
    """
