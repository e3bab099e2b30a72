"""What people do with offers, prices and quotas. Records intent only; the reconcile reaches the cluster."""

from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from uuid import uuid4

from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.cluster import names, wake
from apps.cluster import selectors as inventory
from apps.cluster.models import Cluster
from apps.errors import AlreadyExists, FieldProblem, Invalid, NotAllowed, OfferNotAllowed
from apps.quotas import booking, catalogue, effect, holding, policies, selectors, standing
from apps.quotas.booking import PriceWish
from apps.quotas.effect import Effect
from apps.quotas.models import Flavor, Offer, Price, Quota
from apps.quotas.specs import MOST_OFFERS_PER_QUEUE, RESOURCE_PREFIX
from apps.ranges import DEVICES
from apps.tenants.models import Tenant
from apps.tenants.specs import TrustLevel
from apps.web.rehearsals import rehearsal


@dataclass(frozen=True)
class Amounts:
    """What a tenant is guaranteed of an offer, may borrow and must lend, in devices; None is no limit."""

    nominal_quota: int
    borrowing_limit: int | None = 0
    lending_limit: int | None = None


@dataclass(frozen=True)
class OfferChange:
    """What to change of an offer; None leaves a field as it is."""

    name: str | None = None
    min_trust_level: TrustLevel | None = None
    enabled: bool | None = None
    description: str | None = None
    cpu_millis: int | None = None
    memory_bytes: int | None = None


@transaction.atomic
def set_quota(*, actor: Actor, tenant: Tenant, offer: Offer, amounts: Amounts, now: datetime) -> Quota:
    """Gives a tenant quota of an offer, or changes it; the same again changes nothing.

    Rule: platform engineers only; the offer is of the tenant's cluster and allowed by its trust level; a
    lending limit never exceeds the guarantee, and a queue covers 62 offers (Kueue). A cut below what runs
    stops nothing.
    """
    require_quota_manager(actor, tenant)
    locked = Tenant.objects.select_for_update().get(pk=tenant.pk)
    before = Quota.objects.filter(tenant=locked, offer=offer).first()
    _check(locked, offer, amounts, is_new=before is None)
    old = {field: getattr(before, field) if before else None for field in asdict(amounts)}
    if before is not None and old == asdict(amounts):
        return before
    generation = before.generation + 1 if before else 1
    values = {**asdict(amounts), "generation": generation}
    values["created_by"] = before.created_by if before else actor.username
    quota, _ = Quota.objects.update_or_create(tenant=locked, offer=offer, defaults=values)
    changes = {field: [old[field], value] for field, value in asdict(amounts).items()}
    _wake_queues(quota)
    audit.record(actor, "quota.set", quota, now=now, changes=changes)
    return quota


@transaction.atomic
def delete_quota(*, actor: Actor, quota: Quota, now: datetime) -> None:
    """Takes a tenant's quota of an offer away: nothing new starts on it, running work stays until it ends.

    Rule: platform engineers only.
    """
    require_quota_manager(actor, quota.tenant)
    Tenant.objects.select_for_update().get(pk=quota.tenant_id)
    _wake_queues(quota)
    Quota.objects.filter(pk=quota.pk).delete()
    audit.record(
        actor, "quota.delete", quota, now=now, changes={"nominal_quota": [quota.nominal_quota, None]}
    )


def preview_quota(
    *, actor: Actor, tenant: Tenant, offer: Offer, amounts: Amounts | None, now: datetime
) -> Effect:
    """What `set_quota` would do (None: `delete_quota`), with its checks and refusals; nothing is kept."""
    with rehearsal():
        before = Quota.objects.filter(tenant=tenant, offer=offer).first()
        if amounts is not None:
            set_quota(actor=actor, tenant=tenant, offer=offer, amounts=amounts, now=now)
        elif before is not None:
            delete_quota(actor=actor, quota=before, now=now)
        told = effect.preview_quota_effect(
            tenant, offer, before=before.nominal_quota if before else 0, now=now
        )
    return effect.seen_by(actor, told)


def set_price(
    *, actor: Actor, offer: Offer, hourly: Decimal, valid_from: datetime | None = None, now: datetime
) -> Price:
    """A new price of one device per hour for everybody, from a moment on (None: now); see `book_price`."""
    wish = PriceWish(hourly, offer, valid_from=valid_from)
    return booking.book_price(actor=actor, wish=wish, now=now)


@transaction.atomic
def update_offer(*, actor: Actor, offer: Offer, change: OfferChange, now: datetime) -> Offer:
    """Changes words, least trust level, whether it is offered, or what comes with a device; running work is
    left alone.

    Rule: platform engineers only; nothing changed is no new generation and no event. The tenants' queues
    follow: CPU and memory what comes with a device, and nothing new starts where it is closed to them.
    """
    _require(policies.can_manage_catalogue(actor), "Only a platform engineer changes offers.")
    locked = Offer.objects.select_for_update().get(pk=offer.pk)
    wanted = {field: value for field, value in asdict(change).items() if value is not None}
    changes = {f: [getattr(locked, f), v] for f, v in wanted.items() if getattr(locked, f) != v}
    if not changes:
        return locked
    sizes = [field for field in ("cpu_millis", "memory_bytes") if field in changes]
    if any(changes[field][1] <= 0 for field in sizes):
        raise Invalid([FieldProblem("/spec/cpu", "out_of_range", "CPU and memory must be more than 0.")])
    for field, (_, value) in changes.items():
        setattr(locked, field, value)
    locked.generation += 1
    locked.save(update_fields=[*changes, "generation", "updated_at"])
    if {*sizes, "enabled", "min_trust_level"} & changes.keys():
        holding.queues_follow(locked.cluster, holding.having(locked))
    audit.record(actor, "offer.update", locked, now=now, changes=changes)
    wake.hint("offer", str(locked.pk))
    return locked


@transaction.atomic
def adopt_inventory(*, actor: Actor, cluster: Cluster, now: datetime) -> list[Offer]:
    """Makes flavors, offers and first prices of what the cluster's ResourceSlices publish; answers the new
    offers.

    Rule: platform engineers only. What is known already is left as it is, so that running it again adds only
    what is new; nothing is ever removed. A slug that another cluster has gets this cluster's slug behind it.
    """
    _require(policies.can_manage_catalogue(actor), "Only a platform engineer adopts inventory.")
    Cluster.objects.select_for_update().get(pk=cluster.pk)
    made = []
    tenants = {tenant.slug: tenant for tenant in Tenant.objects.filter(cluster=cluster, deleted_at=None)}
    for draft in catalogue.plan(inventory.devices(cluster), inventory.nodes(cluster)):
        if draft.tenant and draft.tenant not in tenants:
            # A node marked for an unknown tenant is not offered to anybody.
            continue
        flavor = _adopt_flavor(actor, cluster, draft, tenant=tenants.get(draft.tenant), now=now)
        known = set(flavor.offers.values_list("profile", flat=True))
        made += [_adopt_offer(actor, flavor, each, now) for each in draft.offers if each.profile not in known]
    if made:
        holding.queues_follow(cluster)
    return made


def grant_everything(*, actor: Actor, tenant: Tenant, now: datetime) -> list[Quota]:
    """Guarantees a tenant all devices of every offer it may use; quota it has already is left as it is.

    Rule: platform engineers only; for a tenant that has a cluster to itself. Nothing is borrowed.
    """
    supplied = standing.supply(tenant.cluster)
    has = set(tenant.quotas.values_list("offer", flat=True))
    return [
        set_quota(
            actor=actor, tenant=tenant, offer=offer, amounts=Amounts(supplied[offer.pk].capacity), now=now
        )
        for offer in selectors.offers_of(tenant)
        if offer.pk not in has and not selectors.refusal_of(offer, tenant)
    ]


def require_quota_manager(actor: Actor, tenant: Tenant) -> None:
    """Rule: platform engineers give, change and take quota; raises NotAllowed."""
    _require(policies.can_set_quota(actor, tenant), "Only a platform engineer gives and takes quota.")


def _check(tenant: Tenant, offer: Offer, amounts: Amounts, *, is_new: bool) -> None:
    problems = [
        FieldProblem(f"/spec/{field}", "out_of_range", f"{field} must be from 0 to {DEVICES.most} devices.")
        for field, value in asdict(amounts).items()
        if value is not None and not DEVICES.holds(value)
    ]
    if amounts.lending_limit is not None and amounts.lending_limit > amounts.nominal_quota:
        words = "A tenant cannot lend more than it is guaranteed."
        problems.append(FieldProblem("/spec/lending_limit", "out_of_range", words))
    if offer.cluster_id != tenant.cluster_id:
        words = f"{offer.slug} is not an offer of {tenant.slug}'s cluster."
        problems.append(FieldProblem("/spec/offer", "reference_not_found", words))
    if offer.flavor.tenant_id not in (None, tenant.pk):
        words = f"{offer.slug} is only on nodes that serve another tenant."
        problems.append(FieldProblem("/spec/offer", "reference_not_found", words))
    namesakes = Quota.objects.filter(tenant=tenant, offer__resource_name=offer.resource_name)
    if namesakes.exclude(offer=offer).exists():
        words = f"{tenant.slug} has quota of another offer that its node calls {offer.resource_name} too."
        problems.append(FieldProblem("/spec/offer", "invalid_value", words))
    if is_new and Quota.objects.filter(tenant=tenant).count() >= MOST_OFFERS_PER_QUEUE:
        words = (
            f"A queue covers at most {MOST_OFFERS_PER_QUEUE} offers; {tenant.slug} has quota of that many."
        )
        problems.append(FieldProblem("/spec/offer", "out_of_range", words))
    if problems:
        raise Invalid(problems)
    reason = selectors.refusal_of(offer, tenant)
    if reason:
        raise OfferNotAllowed(reason, hint="Raise the tenant's trust level, or take another offer.")


def _wake_queues(quota: Quota) -> None:
    holding.wake_queues(quota.tenant, quota.offer)
    holding.tell_pages(quota.tenant, str(quota.pk))


def _adopt_flavor(
    actor: Actor, cluster: Cluster, draft: catalogue.FlavorDraft, *, tenant: Tenant | None, now: datetime
) -> Flavor:
    for known in Flavor.objects.filter(cluster=cluster, model=draft.model, deleted_at=None):
        if known.node_labels == draft.node_labels:
            return known
    row_id, slug = uuid4(), _free_slug(Flavor, draft.slug, cluster)
    flavor = Flavor.objects.create(
        id=row_id,
        cluster=cluster,
        slug=slug,
        name=draft.name,
        object_name=names.object_name(slug, row_id),
        tenant=tenant,
        model=draft.model,
        node_labels=draft.node_labels,
        tolerations=list(draft.tolerations),
        created_by=actor.username,
    )
    audit.record(actor, "flavor.create", flavor, now=now, changes={"model": [None, draft.model]})
    wake.hint("flavor", str(row_id))
    return flavor


def _adopt_offer(actor: Actor, flavor: Flavor, draft: catalogue.OfferDraft, now: datetime) -> Offer:
    row_id, slug = uuid4(), _free_slug(Offer, draft.slug, flavor.cluster)
    apart = ("slug", "hourly", "resource_name")
    facts = {field: value for field, value in asdict(draft).items() if field not in apart}
    offer = Offer.objects.create(
        id=row_id,
        cluster=flavor.cluster,
        flavor=flavor,
        slug=slug,
        object_name=names.object_name(slug, row_id),
        resource_name=draft.resource_name or f"{RESOURCE_PREFIX}{slug}",
        created_by=actor.username,
        **facts,
    )
    changes = {"flavor": [None, flavor.slug], "profile": [None, draft.profile]}
    audit.record(actor, "offer.create", offer, now=now, changes=changes)
    if draft.hourly is not None:
        set_price(actor=actor, offer=offer, hourly=draft.hourly, now=now)
    wake.hint("offer", str(row_id))
    return offer


def _free_slug(model: type[Flavor] | type[Offer], slug: str, cluster: Cluster) -> str:
    if not model._default_manager.filter(slug=slug).exists():
        return slug
    longer = names.slugify(f"{slug[:24]}-{cluster.slug[:15]}")
    if not model._default_manager.filter(slug=longer).exists():
        return longer
    raise AlreadyExists(
        f"Neither {slug} nor {longer} is free for a {model._meta.model_name} of {cluster.slug}."
    )


def _require(allowed: bool, words: str) -> None:  # noqa: FBT001 - a policy's answer
    if not allowed:
        raise NotAllowed(words)
