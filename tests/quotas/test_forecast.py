"""What approving a quota request would change, told to whoever reads it, on the simulated fleet `story`."""

import html

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.models import Offer, QuotaRequest, TenantQueue
from apps.quotas.requests.services import forecast
from apps.quotas.specs import Priority
from apps.tenants.lifecycle.services.reconcile import reconcile_department, reconcile_tenant
from apps.tenants.models import Department, DepartmentManager, Tenant
from apps.tenants.specs import Role
from tests.conftest import as_actor
from tests.factories import NOW, join, make_department, make_tenant, make_user
from tests.quotas.conftest import Story
from tests.quotas.effects import WHOLE, give, work
from tests.quotas.fleet import allocate
from tests.tenants.rest import Rest

pytestmark = pytest.mark.django_db
GIVES_WAY = "Would lose borrowed devices: "


@pytest.fixture
def asked(story: Story) -> QuotaRequest:
    """Vision's lead asks for one whole H100. Speech of its department and genomics of the one beside it,
    both below `science`, run on one each that nobody is guaranteed.
    """
    science = make_department(story.cluster, "science")
    bio = make_department(story.cluster, "bio")
    Department.objects.exclude(pk=science.pk).update(parent=science)
    genomics = make_tenant(bio, "genomics")
    reconcile_tenant(genomics.pk, gateway=story.gateway)
    give(story, story.vision, Amounts(0, 0))
    for tenant in (story.speech, genomics):
        give(story, tenant, Amounts(0, None))
    for row in Department.objects.all():
        reconcile_department(row.pk, gateway=story.gateway)
    for queue in TenantQueue.objects.all():
        reconcile_queue(queue.pk, gateway=story.gateway)
    work(story, story.speech, "neighbour", priority=Priority.PREEMPTIBLE, runs=True)
    work(story, genomics, "unpublished", priority=Priority.PREEMPTIBLE, runs=True)
    work(story, story.vision, "sweep", priority=Priority.INTERACTIVE)
    return wish(story.vision)


def wish(tenant: Tenant) -> QuotaRequest:
    lead = make_user("lead")
    join(tenant, lead, Role.LEAD)
    return QuotaRequest.objects.create(
        tenant=tenant, offer=offer_of(tenant), kind="guaranteed", count=1, reason="a paper",
        asked_by=lead, created_at=timezone.now(),
    )  # fmt: skip


def offer_of(tenant: Tenant) -> Offer:
    return Offer.objects.get(cluster=tenant.cluster, slug=WHOLE)


def manager() -> User:
    """She manages research, where vision and speech are, and nothing else."""
    mona = make_user("mona")
    DepartmentManager.objects.create(department=Department.objects.get(slug="research"), user=mona)
    return mona


def losers(row: QuotaRequest, user: User) -> set[str]:
    told = forecast.of_request(row, 1, actor=as_actor(user), now=NOW).sentences
    (words,) = [each for each in told if each.startswith(GIVES_WAY)]
    return set(words.removeprefix(GIVES_WAY).removesuffix(".").split(", "))


def test_a_platform_engineer_reads_whose_work_gives_way(story: Story, asked: QuotaRequest) -> None:
    petra = User.objects.get(username="platform")
    assert losers(asked, petra) == {"job-neighbour of speech (1)", "job-unpublished of genomics (1)"}


def test_a_manager_reads_names_of_her_department_alone(asked: QuotaRequest) -> None:
    seen = {"job-neighbour of speech (1)", "a workload of another department (1)"}
    assert losers(asked, manager()) == seen


def test_under_fair_sharing_the_forecast_says_that_it_does_not_know(
    story: Story, asked: QuotaRequest
) -> None:
    kueue = story.gateway.simulated.client(manager="kueue")
    share = {"status": {"fairSharing": {"weightedShare": 0}}}
    kueue.patch("clusterqueues.kueue.x-k8s.io", story.speech.object_name, share, subresource="status")
    story.gateway.mirror(story.cluster)
    told = forecast.of_request(asked, 1, actor=story.petra, now=NOW).message
    assert told.endswith("Kueue shares fairly here (fairSharing is on): who starts is not predicted.")


def test_what_no_node_has_room_for_is_not_said_to_start(story: Story) -> None:
    for tenant in (story.vision, story.speech):
        give(story, tenant, Amounts(0, 0))
        reconcile_queue(tenant.queue.pk, gateway=story.gateway)
    work(story, story.vision, "sweep")
    asked = wish(story.vision)

    def told() -> tuple[str, ...]:
        story.gateway.mirror(story.cluster)
        return forecast.of_request(asked, 1, actor=story.petra, now=NOW).sentences

    assert "Would start at once: job-sweep of vision (1)." in told()
    for device in ("gpu-0", "gpu-1"):
        allocate(story.gateway, "gpu-02", device)
    none, still = told()[-2:]
    assert none == "No waiting work would start at once, and nobody would lose a device."
    assert still.startswith("Would have the quota and wait for devices: job-sweep of vision (1); 0 H100")


def test_a_lead_reads_the_names_of_neighbours_and_not_of_their_work(asked: QuotaRequest) -> None:
    seen = {"a workload of speech (1)", "a workload of another department (1)"}
    assert losers(asked, asked.asked_by) == seen


@pytest.mark.parametrize("who", ["mona", "lead", "researcher"])
def test_rest_names_no_work_of_other_departments(asked: QuotaRequest, who: str) -> None:
    manager()
    person = User.objects.get(username=who)
    told = Rest(person).get(f"/quota-requests/{asked.pk}").json()["status"]["effect"]["message"]
    assert "a workload of another department (1)" in told
    assert "unpublished" not in told
    assert "genomics" not in told


def test_the_page_names_no_work_of_other_departments(asked: QuotaRequest) -> None:
    client = Client()
    client.force_login(manager())
    shown = html.unescape(client.get(f"/console/requests/{asked.pk}/").content.decode())
    assert "job-neighbour of speech (1)" in shown
    assert "a workload of another department (1)" in shown
    assert "unpublished" not in shown
    assert "genomics" not in shown
