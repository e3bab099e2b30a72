"""What people do with offers, prices and quotas, and who may."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest

from apps.accounts.models import User
from apps.accounts.specs import Actor
from apps.audit.models import AuditEvent
from apps.errors import AlreadyExists, Invalid, NotAllowed, OfferNotAllowed
from apps.quotas.allowances.selectors import entitlements, standing
from apps.quotas.allowances.services import quota_changes
from apps.quotas.allowances.services.quota_changes import Amounts
from apps.quotas.catalogue.selectors import offers as catalogue_offers
from apps.quotas.catalogue.selectors import price_book
from apps.quotas.catalogue.services import adoption, booking, offering
from apps.quotas.catalogue.services.offering import OfferChange
from apps.quotas.models import Offer, Price, Quota, TenantQueue
from apps.quotas.specs import SharingMode
from apps.tenants.specs import TrustLevel
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_cluster, make_flavor, make_offer, make_tenant
from tests.quotas.conftest import Story

pytestmark = pytest.mark.both_databases


def test_adopting_makes_an_offer_of_each_profile_and_model_with_a_price(story: Story) -> None:
    offers = {offer.slug: offer for offer in Offer.objects.all()}
    assert set(offers) == {"h100-whole", "h100-1g-10gb", "h100-3g-40gb", "l4-whole"}
    big = offers["h100-3g-40gb"]
    assert (big.resource_name, big.sharing_mode) == ("allotment.dev/h100-3g-40gb", SharingMode.MIG)
    assert (big.share_numerator, big.share_denominator) == (3, 7)
    assert price_book.price_at(big, NOW) == Decimal("1.26")


def test_adopting_again_adds_nothing(story: Story) -> None:
    rows = (Offer.objects.count(), Price.objects.count(), AuditEvent.objects.count())
    assert adoption.adopt_inventory(actor=story.petra, cluster=story.cluster, now=NOW) == []
    assert (Offer.objects.count(), Price.objects.count(), AuditEvent.objects.count()) == rows


def test_a_slug_that_another_cluster_has_gets_this_clusters_behind_it(story: Story) -> None:
    south = make_cluster("south")
    story.gateway.mirror(south)
    made = adoption.adopt_inventory(actor=story.petra, cluster=south, now=NOW)
    assert {offer.slug for offer in made} >= {"h100-whole-south", "l4-whole-south"}


def test_granting_everything_guarantees_the_inventory(story: Story) -> None:
    for _ in range(2):
        quota_changes.grant_everything(actor=story.petra, tenant=story.vision, now=NOW)
    granted = dict(story.vision.quotas.values_list("offer__slug", "nominal_quota"))
    assert granted == {"h100-whole": 2, "h100-1g-10gb": 1, "h100-3g-40gb": 1, "l4-whole": 1}
    assert TenantQueue.objects.get(tenant=story.vision).generation > 1


def test_the_same_quota_again_is_no_new_generation_and_no_event(cast: Cast) -> None:
    petra, events = as_actor(cast.petra), AuditEvent.objects.filter(action="quota.set")
    for _ in range(2):
        quota = quota_changes.set_quota(
            actor=petra, tenant=cast.vision, offer=cast.offer, amounts=Amounts(4, 2, 1), now=NOW
        )
    assert (quota.nominal_quota, quota.generation, events.count()) == (4, 2, 1)
    assert events.get().changes["nominal_quota"] == [2, 4]
    assert events.get().chain == "tenant:vision"


def test_a_cohorts_total_moves_the_queues_that_borrow_without_limit(cast: Cast) -> None:
    petra = as_actor(cast.petra)
    quota_changes.set_quota(
        actor=petra, tenant=cast.speech, offer=cast.offer, amounts=Amounts(2, None), now=NOW
    )
    quota_changes.set_quota(
        actor=petra, tenant=cast.genomics, offer=cast.offer, amounts=Amounts(2, None), now=NOW
    )
    before = dict(TenantQueue.objects.values_list("tenant__slug", "generation"))
    quota_changes.set_quota(actor=petra, tenant=cast.vision, offer=cast.offer, amounts=Amounts(9, 0), now=NOW)
    after = dict(TenantQueue.objects.values_list("tenant__slug", "generation"))
    assert after["speech"] == before["speech"] + 1
    assert after["genomics"] == before["genomics"]
    spec = entitlements.queue_spec(TenantQueue.objects.get(tenant=cast.speech), namespace_is_there=True)
    assert spec.quotas[0].most == 11


@pytest.mark.parametrize(
    ("amounts", "pointer"),
    [
        (Amounts(2, 0, 3), "/spec/lending_limit"),
        (Amounts(-1), "/spec/nominal_quota"),
        (Amounts(1, 10**9), "/spec/borrowing_limit"),
    ],
)
def test_amounts_that_kueue_would_refuse_are_refused_here(cast: Cast, amounts: Amounts, pointer: str) -> None:
    with pytest.raises(Invalid) as refusal:
        quota_changes.set_quota(
            actor=as_actor(cast.petra), tenant=cast.vision, offer=cast.offer, amounts=amounts, now=NOW
        )
    assert [(problem.pointer, problem.code) for problem in refusal.value.problems] == [
        (pointer, "out_of_range")
    ]


def test_an_offer_of_another_cluster_is_refused(cast: Cast) -> None:
    foreign = make_offer(make_flavor(make_cluster("south"), "h100-south"), "h100-south-whole", profile="")
    with pytest.raises(Invalid, match="not an offer of vision's cluster"):
        quota_changes.set_quota(
            actor=as_actor(cast.petra), tenant=cast.vision, offer=foreign, amounts=Amounts(1), now=NOW
        )


def test_a_queue_covers_at_most_62_offers(cast: Cast) -> None:
    flavor = make_flavor(cast.vision.cluster, "l4", "NVIDIA L4")
    offers = [make_offer(flavor, f"offer-{number}", profile=f"{number}g") for number in range(62)]
    Quota.objects.bulk_create(
        Quota(tenant=cast.vision, offer=offer, nominal_quota=1) for offer in offers[:61]
    )
    with pytest.raises(Invalid, match="at most 62 offers"):
        quota_changes.set_quota(
            actor=as_actor(cast.petra), tenant=cast.vision, offer=offers[61], amounts=Amounts(1), now=NOW
        )


def test_no_quota_of_an_offer_the_trust_level_forbids(cast: Cast) -> None:
    untrusted = make_tenant(cast.vision.department, "guests", trust=TrustLevel.UNTRUSTED)
    Offer.objects.filter(pk=cast.offer.pk).update(sharing_mode=SharingMode.TIME_SLICING)
    cast.offer.refresh_from_db()
    with pytest.raises(
        OfferNotAllowed, match=r"needs trust level standard; guests is untrusted\. Nothing isolated"
    ):
        quota_changes.set_quota(
            actor=as_actor(cast.petra), tenant=untrusted, offer=cast.offer, amounts=Amounts(1), now=NOW
        )


def test_a_deleted_quota_leaves_an_empty_queue(cast: Cast) -> None:
    quota_changes.delete_quota(
        actor=as_actor(cast.petra), quota=Quota.objects.get(tenant=cast.vision), now=NOW
    )
    queue = TenantQueue.objects.get(tenant=cast.vision)
    assert entitlements.queue_spec(queue, namespace_is_there=True).quotas == ()
    assert AuditEvent.objects.get(action="quota.delete").target_name == "vision/h100-1g-10gb"


def test_a_price_holds_from_its_moment_on_and_never_changes_backwards(cast: Cast) -> None:
    petra, tomorrow = as_actor(cast.petra), NOW + timedelta(days=1)
    booking.set_price(actor=petra, offer=cast.offer, hourly=Decimal("0.50"), valid_from=tomorrow, now=NOW)
    assert price_book.price_at(cast.offer, NOW) == Decimal("0.42")
    assert price_book.price_at(cast.offer, tomorrow) == Decimal("0.50")
    assert price_book.price_at(cast.offer, NOW - timedelta(days=2)) is None
    with pytest.raises(AlreadyExists):
        booking.set_price(actor=petra, offer=cast.offer, hourly=Decimal(1), valid_from=tomorrow, now=NOW)
    with pytest.raises(Invalid, match="now or later"):
        booking.set_price(
            actor=petra, offer=cast.offer, hourly=Decimal(1), valid_from=NOW - timedelta(seconds=1), now=NOW
        )


@pytest.mark.parametrize(
    "change", [OfferChange(enabled=False), OfferChange(min_trust_level=TrustLevel.TRUSTED)]
)
def test_closing_an_offer_moves_the_queues_that_have_it(cast: Cast, change: OfferChange) -> None:
    queue = TenantQueue.objects.create(tenant=cast.vision, cluster=cast.vision.cluster, generation=5)
    offering.update_offer(actor=as_actor(cast.petra), offer=cast.offer, change=change, now=NOW)
    assert TenantQueue.objects.get(pk=queue.pk).generation == 6
    entitled = entitlements.entitlements(cast.vision.department_id, now=NOW)
    (own,) = (each for each in entitled if each.tenant == cast.vision)
    assert (own.quota.closed, own.quota.nominal) == (True, 2)


def test_a_disabled_offer_is_gone_for_teams_and_stays_for_the_platform(cast: Cast) -> None:
    offering.update_offer(
        actor=as_actor(cast.petra), offer=cast.offer, change=OfferChange(enabled=False), now=NOW
    )
    assert not catalogue_offers.offers_for(as_actor(cast.rosa)).exists()
    assert catalogue_offers.offers_for(as_actor(cast.ann)).get().generation == 2


@pytest.mark.parametrize(
    "act",
    [
        lambda cast, actor: quota_changes.set_quota(
            actor=actor, tenant=cast.vision, offer=cast.offer, amounts=Amounts(9), now=NOW
        ),
        lambda cast, actor: quota_changes.delete_quota(
            actor=actor, quota=Quota.objects.get(tenant=cast.vision), now=NOW
        ),
        lambda cast, actor: booking.set_price(actor=actor, offer=cast.offer, hourly=Decimal(1), now=NOW),
        lambda cast, actor: offering.update_offer(
            actor=actor, offer=cast.offer, change=OfferChange(enabled=False), now=NOW
        ),
        lambda cast, actor: adoption.adopt_inventory(actor=actor, cluster=cast.offer.cluster, now=NOW),
    ],
)
def test_only_platform_engineers_decide(cast: Cast, act: Callable[[Cast, Actor], object]) -> None:
    before = AuditEvent.objects.count()
    for user in (cast.leon, cast.rosa, cast.otto, cast.ann):
        with pytest.raises(NotAllowed):
            act(cast, as_actor(user))
    assert AuditEvent.objects.count() == before


def test_quotas_are_seen_with_their_tenant(cast: Cast) -> None:
    def seen(user: User) -> list[str]:
        return sorted(quota.tenant.slug for quota in entitlements.quotas_for(as_actor(user)))

    assert seen(cast.rosa) == ["vision"]
    assert seen(cast.ann) == ["genomics", "speech", "vision"]


@pytest.mark.parametrize(
    ("mode", "trust", "refused"),
    [
        (SharingMode.MIG, TrustLevel.UNTRUSTED, False),
        (SharingMode.EXCLUSIVE, TrustLevel.UNTRUSTED, False),
        (SharingMode.MPS, TrustLevel.UNTRUSTED, True),
        (SharingMode.TIME_SLICING, TrustLevel.STANDARD, False),
        (SharingMode.FRACTION, TrustLevel.STANDARD, True),
        (SharingMode.FRACTION, TrustLevel.TRUSTED, False),
    ],
)
def test_less_isolation_asks_for_more_trust(
    cast: Cast, mode: SharingMode, trust: TrustLevel, *, refused: bool
) -> None:
    cast.offer.sharing_mode = mode
    cast.offer.flavor.tenant = cast.vision
    cast.vision.trust_level = trust
    assert bool(catalogue_offers.refusal_of(cast.offer, cast.vision)) is refused


def test_a_refused_offer_comes_with_those_that_are_allowed(cast: Cast) -> None:
    other = make_offer(cast.offer.flavor, "h100-whole", profile="")
    with pytest.raises(OfferNotAllowed, match="vision has no quota of H100 whole") as refusal:
        standing.allowed_offer(cast.vision, "h100-whole", now=NOW)
    assert refusal.value.extra == {"alternatives": [{"offer": "h100-1g-10gb"}]}
    assert standing.allowed_offer(cast.vision, str(cast.offer.pk), now=NOW) == cast.offer
    Offer.objects.filter(pk=other.pk).update(enabled=False)
    with pytest.raises(Invalid) as unknown:
        standing.allowed_offer(cast.vision, "h100-whole", now=NOW)
    assert unknown.value.problems[0].code == "reference_not_found"
