"""Where a tenant stands: quota against what the mirrored cluster says is used, lent, waiting and free."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from apps.cluster import request_cache
from apps.quotas.allowances.rules.fit import VerdictKind
from apps.quotas.allowances.selectors import standing
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.queue_reconcile import reconcile_queue
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.selectors import stock
from apps.quotas.models import Flavor, Grant, TenantQueue
from apps.quotas.specs import SharingMode
from apps.tenants.models import Tenant
from tests.conftest import as_actor
from tests.factories import NOW, make_user
from tests.quotas.conftest import Story
from tests.quotas.fleet import allocate, reserve

pytestmark = pytest.mark.both_databases

WHOLE = "h100-whole"


def grant(
    story: Story, tenant: Tenant, nominal: int, borrow: int | None = 0, lend: int | None = None
) -> None:
    amounts = Amounts(nominal, borrow, lend)
    quota_changes.set_quota(
        actor=story.petra, tenant=tenant, offer=story.offer(WHOLE), amounts=amounts, now=NOW
    )
    reconcile_queue(TenantQueue.objects.get(tenant=tenant).pk, gateway=story.gateway)


def use(story: Story, tenant: Tenant, count: int) -> None:
    reserve(story.gateway, tenant.object_name, Flavor.objects.get(slug="h100").object_name, h100_whole=count)
    story.gateway.mirror(story.cluster)


def wait(story: Story, tenant: Tenant, name: str, count: int) -> None:
    """A Kueue Workload that has no quota reserved yet."""
    asked = {"limits": {"allotment.dev/h100-whole": str(count)}}
    container = {"name": "c", "image": "i", "resources": asked}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": tenant.object_name},
        "spec": {"queueName": "gpu", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    story.gateway.simulated.client().create("workloads.kueue.x-k8s.io", body, tenant.object_name)
    story.gateway.mirror(story.cluster)


def test_supply_counts_what_is_there_given_out_and_free(story: Story) -> None:
    allocate(story.gateway, "gpu-02", "gpu-0")
    story.gateway.mirror(story.cluster)
    supply = stock.supply(story.cluster)
    found = supply[story.offer(WHOLE).pk]
    assert (found.capacity, found.allocated, found.free) == (2, 1, 1)
    assert supply[story.offer("h100-1g-10gb").pk].capacity == 1


def test_devices_of_a_cordoned_node_are_there_and_not_free(story: Story) -> None:
    story.gateway.simulated.client().patch("nodes", "gpu-02", {"spec": {"unschedulable": True}})
    story.gateway.mirror(story.cluster)
    found = stock.supply(story.cluster)[story.offer(WHOLE).pk]
    assert (found.capacity, found.free) == (2, 0)


def test_a_bar_shows_own_use_what_is_lent_and_what_waits(story: Story) -> None:
    grant(story, story.vision, 2, borrow=1)
    grant(story, story.speech, 0, borrow=2)
    use(story, story.vision, 1)
    use(story, story.speech, 1)
    wait(story, story.vision, "job-a", 2)
    (bar,) = standing.quota_bars(story.petra, story.vision, now=timezone.now())
    assert (bar.guaranteed, bar.used, bar.lent, bar.borrowed) == (2, 1, 1, 0)
    assert (bar.borrow_limit, bar.pending, bar.supply, bar.free) == (1, 2, 2, 0)
    (borrower,) = standing.quota_bars(story.petra, story.speech, now=timezone.now())
    assert (borrower.guaranteed, borrower.used, borrower.borrowed) == (0, 1, 1)


def test_bars_are_empty_for_whoever_does_not_see_the_tenant(story: Story) -> None:
    grant(story, story.vision, 2)
    assert len(standing.quota_bars(story.petra, story.vision, now=timezone.now())) == 1
    assert standing.quota_bars(as_actor(make_user("stranger")), story.vision, now=timezone.now()) == []


def test_the_bars_of_a_cluster_are_those_of_its_tenants(
    story: Story, django_assert_max_num_queries: object
) -> None:
    """In as many statements for a hundred tenants as for two, of one department."""
    grant(story, story.vision, 2, borrow=1)
    grant(story, story.speech, 0, borrow=2)
    use(story, story.speech, 1)
    wait(story, story.vision, "job-a", 2)
    now = timezone.now()
    own = {each.pk: standing.quota_bars(story.petra, each, now=now) for each in (story.vision, story.speech)}
    with django_assert_max_num_queries(9):  # type: ignore[operator]
        assert standing.bars_of_cluster(story.petra, story.cluster, now=now) == own
    assert standing.bars_of_cluster(as_actor(make_user("stranger")), story.cluster, now=now) == {}


def test_a_verdict_follows_quota_and_hardware(story: Story) -> None:
    grant(story, story.vision, 2)
    offer = story.offer(WHOLE)
    assert standing.verdict_for(story.vision, offer, 2, now=timezone.now()).kind is VerdictKind.NOW
    allocate(story.gateway, "gpu-02", "gpu-1")
    story.gateway.mirror(story.cluster)
    assert standing.verdict_for(story.vision, offer, 2, now=timezone.now()).kind is VerdictKind.WAITS
    never = standing.verdict_for(story.vision, offer, 3, now=timezone.now())
    assert never.message == "3 H100 whole can never start; vision reaches 2 (2 guaranteed + 0)."
    assert standing.verdict_for(story.speech, offer, 1, now=timezone.now()).kind is VerdictKind.NOT_OFFERED


def test_choices_begin_with_what_starts_now_and_say_why_the_rest_does_not(story: Story) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    story.vision.quotas.filter(offer__slug="l4-whole").delete()
    allocate(story.gateway, "gpu-01", "gpu-0-mig-1g10gb-19-0")
    story.gateway.mirror(story.cluster)
    choices = {choice.offer.slug: choice for choice in standing.offer_choices(story.vision, now=NOW)}
    assert list(choices) == ["h100-3g-40gb", "h100-whole", "h100-1g-10gb", "l4-whole"]
    busy, refused = choices["h100-1g-10gb"], choices["l4-whole"]
    assert (busy.allowed, busy.starts_now, busy.free_now, busy.hourly) == (True, False, 0, Decimal("0.42"))
    assert (busy.isolation, busy.compute_share) == ("Memory and faults isolated", "1/7")
    assert not refused.allowed
    assert refused.reason.startswith("vision has no quota of L4 whole.")


def test_a_choice_refused_by_trust_says_so_before_anything_else(story: Story) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    offer = story.offer(WHOLE)
    type(offer).objects.filter(pk=offer.pk).update(sharing_mode=SharingMode.FRACTION)
    (choice,) = (c for c in standing.offer_choices(story.vision, now=NOW) if c.offer == offer)
    assert choice.reason == "H100 whole needs trust level trusted; vision is standard. Soft limit."


def test_reading_where_a_tenant_stands_takes_few_queries(
    story: Story, django_assert_max_num_queries: object
) -> None:
    quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    standing.quota_bars(story.petra, story.vision, now=timezone.now())  # the first look parses the fleet
    with django_assert_max_num_queries(9):  # type: ignore[operator]
        assert len(standing.quota_bars(story.petra, story.vision, now=timezone.now())) == 4


def test_within_one_request_each_moment_has_its_own_standing(story: Story) -> None:
    grant(story, story.vision, 1)
    offer, later = story.offer(WHOLE), NOW + timedelta(hours=2)
    Grant.objects.create(
        tenant=story.vision,
        offer=offer,
        count=1,
        starts_at=NOW + timedelta(hours=1),
        ends_at=later + timedelta(hours=1),
    )
    with request_cache.scope():
        found = [standing.standings(story.vision, now=at)[offer.pk].own.quota.nominal for at in (NOW, later)]
    assert found == [1, 2]
