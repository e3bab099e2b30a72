"""The story the simulated demo tells: three tenants of two departments, and what they run as it starts.

Data, and one function that brings it about through the services that REST calls. An entry whose offer the
fleet lacks, or which could never fit, is left out, so that every fleet file tells as much of it as it can.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.models import User
from apps.accounts.services import create_user
from apps.accounts.specs import Actor, system_actor
from apps.cluster.models import Cluster
from apps.errors import DomainError
from apps.metering.findings.rules.idle_policy import Policy
from apps.metering.findings.services.idle_policies import set_idle_policy
from apps.metering.models import IdlePolicy
from apps.metering.specs import IdleMode
from apps.quotas.allowances.services.quota_changes import Amounts, set_quota
from apps.quotas.budgets.rules.budget import Limits
from apps.quotas.budgets.services.budgeting import set_budget
from apps.quotas.catalogue.selectors.stock import supply
from apps.quotas.models import Offer
from apps.quotas.requests.services.deciding import RequestWish, ask
from apps.quotas.specs import BudgetUnit, RequestKind
from apps.ranges import OWN_IDLE_SECONDS
from apps.tenants.lifecycle.services.tenancy import (
    TenantChange,
    create_department,
    create_tenant,
    set_member,
    update_tenant,
)
from apps.tenants.models import Department, Tenant
from apps.tenants.specs import Role, TrustLevel
from apps.workloads.lifecycle.services.verbs import submit_workload, update_workload
from apps.workloads.models import Workload
from apps.workloads.spec.parsing import parse
from apps.workloads.specs import Phase, WorkloadChange, WorkloadRequest

TELLER = system_actor("seed")
SANDBOX = "sandbox.allotment.dev/"
DEPARTMENTS = {"research": "Research", "bio": "Biology"}


@dataclass(frozen=True)
class Team:
    """A tenant of the story: `parts` of every offer's devices are guaranteed to it."""

    slug: str
    name: str
    department: str
    parts: int
    members: Mapping[str, Role] = field(default_factory=dict)
    has_shell: bool = False


@dataclass(frozen=True)
class Scene:
    """One workload, asked for by its owner like any other."""

    tenant: str
    owner: str
    slug: str
    offer: str
    behaviour: str
    spec: Mapping[str, Any]
    drawn: Mapping[str, str] = field(default_factory=dict)
    """What the sandbox would draw for this behaviour, fixed."""
    idle_policy: Mapping[str, Any] | None = None
    """What its tenant's lead sets for it."""
    is_late: bool = False
    """Asked for once the queue has judged all others: what has to wait must not overtake what is to run."""


PEOPLE = {"kim": "Kim", "sam": "Sam", "mia": "Mia", "noor": "Noor", "eli": "Eli"}
TEAMS = (
    Team(
        "vision",
        "Vision",
        "research",
        2,
        {"researcher": Role.MEMBER, "lead": Role.LEAD, "kim": Role.MEMBER},
        has_shell=True,
    ),
    Team("speech", "Speech", "research", 2, {"sam": Role.LEAD, "mia": Role.MEMBER}),
    Team("genomics", "Genomics", "bio", 1, {"noor": Role.LEAD, "eli": Role.MEMBER}),
)
ALL_PARTS = sum(team.parts for team in TEAMS)

NOTEBOOK = {"kind": "notebook"}


def _job(seconds: int, count: int = 1) -> dict[str, Any]:
    return {
        "kind": "job",
        "image": "pytorch/pytorch:2.9.0",
        "command": ["sleep", str(seconds)],
        "count": count,
    }


SOON = {"action": "warn", "for_seconds": OWN_IDLE_SECONDS.least}
"""Two workloads that idle are found in minutes, not in hours: for who looks at the demo."""
NEVER_WORKED = {"worked_for": "0", "memory": "0.03"}
"""Little memory is loaded in seconds, and what is loading is not idle yet."""
ASLEEP = {"variant": "0.9", "duty": "0.9"}
"""Blocks that sleep on every multiprocessor: nvidia-smi and SM active both say busy, the watts do not."""
SCENES = (
    Scene("speech", "sam", "asr-tune", "h100-whole", "idle-hoarder", _job(200_000, 4), NEVER_WORKED, SOON),
    Scene("speech", "sam", "tts-train", "h100-whole", "train", _job(90_000, 2)),
    Scene("speech", "sam", "whisper-dev", "h100-1g-10gb", "notebook", NOTEBOOK),
    Scene("vision", "kim", "bert-ft", "h100-whole", "train", _job(40_000, 2)),
    Scene("vision", "researcher", "rag-dev", "h100-1g-10gb", "notebook", NOTEBOOK),
    Scene("vision", "kim", "vit-old", "a100-whole", "keepalive", _job(260_000, 2), ASLEEP, SOON),
    Scene("vision", "kim", "clip-eval", "a100-whole", "idle-hoarder", _job(150_000), NEVER_WORKED, SOON),
    Scene("vision", "researcher", "segment-lab", "a100-1g-5gb", "notebook", NOTEBOOK),
    Scene("vision", "researcher", "sweep-8", "h100-whole", "train", _job(7_200, 6), is_late=True),
    Scene("genomics", "noor", "fold-batch", "a100-whole", "dataloader-bound", _job(30_000)),
    Scene("genomics", "noor", "align-l4", "l4-whole", "inference", _job(50_000, 2)),
)


def tell(cluster: Cluster, now: datetime) -> None:
    """Bring the story about; what is there already stays as it is."""
    _people_and_departments(cluster, now)
    for team in TEAMS:
        if not Tenant.objects.filter(slug=team.slug).exists():
            _found(team, cluster, now)
    _money_and_requests(now)
    _play_all([scene for scene in SCENES if not scene.is_late], now)


def is_judged() -> bool:
    """Whether the queue has said of all that was asked for whether it runs or waits."""
    return not Workload.objects.filter(phase=Phase.PENDING, queue__isnull=True, deleted_at=None).exists()


def end(now: datetime) -> None:
    """The late scenes."""
    _play_all([scene for scene in SCENES if scene.is_late], now)


def _play_all(scenes: Iterable[Scene], now: datetime) -> None:
    for scene in scenes:
        if not Workload.objects.filter(tenant__slug=scene.tenant, slug=scene.slug).exists():
            _play(scene, now)


def _people_and_departments(cluster: Cluster, now: datetime) -> None:
    for username, name in PEOPLE.items():
        if not User.objects.filter(username=username).exists():
            create_user(actor=TELLER, username=username, display_name=name, password=None, platform_role="")
    for slug, name in DEPARTMENTS.items():
        if not Department.objects.filter(slug=slug).exists():
            create_department(actor=TELLER, slug=slug, name=name, cluster=cluster, now=now)


def _found(team: Team, cluster: Cluster, now: datetime) -> None:
    department = Department.objects.get(slug=team.department)
    tenant = create_tenant(
        actor=TELLER,
        slug=team.slug,
        name=team.name,
        department=department,
        trust_level=TrustLevel.STANDARD,
        now=now,
    )
    update_tenant(actor=TELLER, tenant=tenant, change=TenantChange(has_shell=team.has_shell), now=now)
    for username, role in team.members.items():
        set_member(actor=TELLER, tenant=tenant, username=username, role=role, now=now)
    for offer in Offer.objects.filter(cluster=cluster):
        guaranteed = supply(cluster)[offer.pk].capacity * team.parts // ALL_PARTS
        amounts = Amounts(nominal_quota=guaranteed, borrowing_limit=guaranteed, lending_limit=None)
        set_quota(actor=TELLER, tenant=tenant, offer=offer, amounts=amounts, now=now)


def _money_and_requests(now: datetime) -> None:
    """Vision has a budget, and its lead waits for an answer; speech is told of idle work, which goes on."""
    speech = Tenant.objects.get(slug="speech")
    if not IdlePolicy.objects.filter(tenant=speech).exists():
        set_idle_policy(actor=TELLER, tenant=speech, policy=Policy(mode=IdleMode.TELL), now=now)
    vision = Tenant.objects.get(slug="vision")
    if not vision.budgets.exists():
        limits = Limits(BudgetUnit.MONEY, soft=Decimal(4000), hard=Decimal(5000))
        set_budget(actor=TELLER, owner=vision, limits=limits, now=now)
    offer = Offer.objects.filter(cluster=vision.cluster).order_by("-gpu_memory_bytes", "slug").first()
    if offer is None or vision.quota_requests.exists():
        return
    lead = User.objects.get(username="lead")
    wish = RequestWish(RequestKind.GUARANTEED, 2, "The conference's deadline is on Friday.", 3 * 86400)
    ask(actor=_actor(lead), tenant=vision, offer=offer, wish=wish, now=now)


def _play(scene: Scene, now: datetime) -> None:
    tenant = Tenant.objects.get(slug=scene.tenant)
    owner = User.objects.get(username=scene.owner)
    try:
        request = WorkloadRequest(
            spec=parse({**scene.spec, "offer": scene.offer}),
            slug=scene.slug,
            labels={
                SANDBOX + name: value for name, value in {"behaviour": scene.behaviour, **scene.drawn}.items()
            },
        )
        row = submit_workload(actor=_actor(owner), tenant=tenant, request=request, now=now)
    except DomainError:
        # This fleet has no such offer, or too few of it for the story.
        return
    if scene.idle_policy is not None:
        lead = User.objects.get(memberships__tenant=tenant, memberships__role=Role.LEAD)
        spec = parse({**row.spec, "idle_policy": scene.idle_policy})
        update_workload(actor=_actor(lead), workload=row, change=WorkloadChange(spec), now=now)


def _actor(user: User) -> Actor:
    return Actor(username=user.username, user_id=user.pk)
