"""A simulated cluster with the fleet `story`, its inventory adopted as offers."""

from dataclasses import dataclass

import pytest

from apps.accounts.specs import Actor
from apps.cluster.models import Cluster
from apps.quotas.catalogue.services import adoption
from apps.quotas.models import Offer
from apps.tenants.lifecycle.services.reconcile import reconcile_tenant
from apps.tenants.models import Tenant
from tests.conftest import as_actor
from tests.factories import NOW, join, make_department, make_tenant, make_user
from tests.quotas.fleet import with_fleet
from tests.tenants.in_process import InProcess


@dataclass(frozen=True)
class Story:
    """vision (with its member rosa) and speech share the department research on the fleet `story`; petra is
    platform.
    """

    cluster: Cluster
    gateway: InProcess
    vision: Tenant
    speech: Tenant
    petra: Actor

    def offer(self, slug: str) -> Offer:
        return Offer.objects.select_related("flavor").get(slug=slug)


@pytest.fixture
def story(cluster: Cluster) -> Story:
    gateway = with_fleet(InProcess())
    gateway.mirror(cluster)
    petra = as_actor(make_user("platform", platform_role="platform"))
    adoption.adopt_inventory(actor=petra, cluster=cluster, now=NOW)
    research = make_department(cluster, "research")
    vision, speech = (make_tenant(research, slug) for slug in ("vision", "speech"))
    join(vision, make_user("researcher"))
    for tenant in (vision, speech):
        reconcile_tenant(tenant.pk, gateway=gateway)
    gateway.mirror(cluster)
    return Story(cluster, gateway, vision, speech, petra)
