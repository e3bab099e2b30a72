"""Gives, changes and takes quota. Records intent only; the reconcile reaches the cluster."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from apps.accounts.specs import Actor
from apps.audit import services as audit
from apps.errors import FieldProblem, Invalid, NotAllowed, OfferNotAllowed
from apps.quotas import policies
from apps.quotas.allowances.selectors import effect, entitlements
from apps.quotas.allowances.selectors.effect import Effect
from apps.quotas.catalogue.selectors import offers, stock
from apps.quotas.models import Offer, Quota
from apps.quotas.specs import MOST_OFFERS_PER_QUEUE
from apps.quotas.wake.services import queue_hints
from apps.ranges import DEVICES
from apps.tenants.models import Tenant
from apps.web.requests.rehearsals import rehearsal


@dataclass(frozen=True)
class Amounts:
    """What a tenant is guaranteed of an offer, may borrow and must lend, in devices; None is no limit."""

    nominal_quota: int
    borrowing_limit: int | None = 0
    lending_limit: int | None = None


@transaction.atomic
def set_quota(*, actor: Actor, tenant: Tenant, offer: Offer, amounts: Amounts, now: datetime) -> Quota:
    """Gives a tenant quota of an offer, or changes it; the same again changes nothing.

    Rule: platform engineers only; the offer is of the tenant's cluster and, where an amount grows, allowed by
    its trust level; a lending limit never exceeds the guarantee, and a queue covers 62 offers (Kueue). A cut
    below what runs stops nothing.
    """
    require_quota_manager(actor, tenant)
    locked = Tenant.objects.select_for_update().get(pk=tenant.pk)
    before = Quota.objects.filter(tenant=locked, offer=offer).first()
    _check(locked, offer, amounts, before=before, now=now)
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


def grant_everything(*, actor: Actor, tenant: Tenant, now: datetime) -> list[Quota]:
    """Guarantees a tenant all devices of every offer it may use; quota it has already is left as it is.

    Rule: platform engineers only; for a tenant that has a cluster to itself. Nothing is borrowed.
    """
    supplied = stock.supply(tenant.cluster)
    has = set(tenant.quotas.values_list("offer", flat=True))
    return [
        set_quota(
            actor=actor, tenant=tenant, offer=offer, amounts=Amounts(supplied[offer.pk].capacity), now=now
        )
        for offer in offers.offers_of(tenant)
        if offer.pk not in has and offer.deleting_at is None and not offers.refusal_of(offer, tenant)
    ]


def require_quota_manager(actor: Actor, tenant: Tenant) -> None:
    """Rule: platform engineers give, change and take quota; raises NotAllowed."""
    if not policies.can_set_quota(actor, tenant):
        raise NotAllowed("Only a platform engineer gives and takes quota.")


def _check(tenant: Tenant, offer: Offer, amounts: Amounts, *, before: Quota | None, now: datetime) -> None:
    # What a tenant has can always be taken away, whatever became of the offer since.
    grows = _grows(before, amounts)
    problems = [
        FieldProblem(f"/spec/{field}", "out_of_range", f"{field} must be from 0 to {DEVICES.most} devices.")
        for field, value in asdict(amounts).items()
        if value is not None and not DEVICES.holds(value)
    ]
    if amounts.lending_limit is not None and amounts.lending_limit > amounts.nominal_quota:
        words = "A tenant cannot lend more than it is guaranteed."
        problems.append(FieldProblem("/spec/lending_limit", "out_of_range", words))
    problems += entitlements.misfits(tenant, offer, now=now) if grows else []
    if before is None and Quota.objects.filter(tenant=tenant).count() >= MOST_OFFERS_PER_QUEUE:
        words = (
            f"A queue covers at most {MOST_OFFERS_PER_QUEUE} offers; {tenant.slug} has quota of that many."
        )
        problems.append(FieldProblem("/spec/offer", "out_of_range", words))
    if problems:
        raise Invalid(problems)
    if grows and (reason := offers.refusal_of(offer, tenant)):
        raise OfferNotAllowed(reason, hint="Raise the tenant's trust level, or take another offer.")


def _grows(before: Quota | None, amounts: Amounts) -> bool:
    """Whether any amount is more than before; no limit is more than every limit."""
    if before is None:
        return True
    pairs = [(getattr(before, field), value) for field, value in asdict(amounts).items()]
    return any(had is not None and (value is None or value > had) for had, value in pairs)


def _wake_queues(quota: Quota) -> None:
    queue_hints.wake_queues(quota.tenant, quota.offer)
    queue_hints.tell_pages(quota.tenant, str(quota.pk))


def _require(allowed: bool, words: str) -> None:  # noqa: FBT001 - a policy's answer
    if not allowed:
        raise NotAllowed(words)
