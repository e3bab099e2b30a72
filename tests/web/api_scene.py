"""What `make bench SUITE=api` asks about: a fleet, 12 offers, 3 tenants with quota, 50 workloads of one user.

`tests.web.test_budget` counts the statements of the same scene, so that both speak of one thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import cycle, islice

from django.test import Client

from apps.accounts.models import User
from apps.accounts.services import create_token
from apps.cluster.models import Cluster
from apps.quotas.models import Offer, Price
from apps.tenants.models import Tenant
from apps.workloads.models import Workload
from apps.workloads.spec import parsing
from apps.workloads.specs import Phase
from tests import factories
from tests.conftest import as_actor
from tests.pages import fleet

PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "")
FREE_TIME = timedelta(hours=1)
DEVICES = (*(("gpu-01", f"gpu-1-mig-1g10gb-19-{place}") for place in range(7)),)
ENDED = (Phase.STOPPED, Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True)
class Scene:
    """Who asks, with a session and tokens enough that no rate limit is met, and what is asked about."""

    user: User
    tenants: Sequence[Tenant]
    offers: Sequence[Offer]
    tokens: Sequence[str]
    session: str

    @property
    def tenant(self) -> Tenant:
        """The one with the workloads."""
        return self.tenants[0]


def make(now: datetime, *, workloads: int = 50, offers: int = 12, tokens: int = 1, mark: str = "") -> Scene:
    """Every third workload runs, every third waits, the rest has ended; `mark` tells a second scene apart."""
    cluster = factories.make_cluster(f"bench{mark}")
    fleet.show_fleet(cluster, now=now)
    research = factories.make_department(cluster, f"research{mark}")
    tenants = [factories.make_tenant(research, f"{slug}{mark}") for slug in ("vision", "speech", "robots")]
    user = factories.make_user(f"rosa{mark}")
    for tenant in tenants:
        factories.join(tenant, user)
    sold = _offers(cluster, offers, mark)
    Price.objects.update(valid_from=now - timedelta(days=30))
    for tenant in tenants:
        for offer in sold[:6]:
            factories.make_quota(tenant, offer, nominal=4, borrow=2)
    _workloads(tenants[0], user, sold, workloads, now)
    fleet.reserve(tenants[0], {sold[0]: min(len(DEVICES), workloads // 3)}, now=now)
    made = [_token(user, number, now) for number in range(tokens)]
    return Scene(user, tenants, sold, made, _session(user))


def _offers(cluster: Cluster, count: int, mark: str) -> list[Offer]:
    kinds = [
        factories.make_flavor(cluster, f"{slug}{mark}", model)
        for slug, model in (("h100", "NVIDIA H100 80GB HBM3"), ("l4", "NVIDIA L4"), ("a100", "NVIDIA A100"))
    ]
    mixed = [(kind, profile) for kind in kinds for profile in PROFILES]
    return [
        factories.make_offer(kind, f"{kind.slug}-{number}", profile=profile, hourly=f"0.{number + 10}")
        for number, (kind, profile) in enumerate(islice(cycle(mixed), count))
    ]


def _workloads(tenant: Tenant, user: User, sold: Sequence[Offer], count: int, now: datetime) -> None:
    devices = iter(DEVICES)
    for number in range(count):
        offer = sold[number % min(6, len(sold))]
        spec = parsing.as_json(parsing.parse(factories.notebook_body(offer.slug, env={"RUN": str(number)})))
        row = factories.make_workload(tenant, user, offer, slug=f"nb-{number:03}", spec=spec)
        row.labels = {"project": f"p{number % 5}"}
        if number % 3 == 0 and (device := next(devices, None)):
            fleet.run(row, device, now=now, started=timedelta(minutes=number))
        elif number % 3 == 1:
            fleet.wait(row, now=now)
        else:
            _ended(row, ENDED[number % len(ENDED)], now)
        _counted(row, number, now)


def _ended(row: Workload, phase: Phase, now: datetime) -> None:
    row.phase, row.suspended = phase, phase == Phase.STOPPED
    row.started_at, row.ended_at = now - 2 * FREE_TIME, now - FREE_TIME
    words = "Its container ended with 1." if phase == Phase.FAILED else "It has ended."
    row.conditions = [fleet.condition("Ready", "False", words, now, reason="Ended")]


def _counted(row: Workload, number: int, now: datetime) -> None:
    """What metering writes, and what the reconcile has observed."""
    row.cost_hourly, row.cost_allocated = Decimal("0.42"), Decimal(number) / 7
    row.cost_effective, row.cost_waste, row.cost_unknown = Decimal(1), Decimal("0.5"), Decimal(0)
    row.cost_as_of, row.observed_generation = now, row.generation
    row.save()


def _token(user: User, number: int, now: datetime) -> str:
    made = create_token(
        actor=as_actor(user), name=f"bench-{number}", scopes=[], tenants=[], expires_in_days=1, now=now
    )
    return made[1]


def _session(user: User) -> str:
    client = Client()
    client.force_login(user)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
