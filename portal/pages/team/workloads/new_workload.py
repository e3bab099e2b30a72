"""What the four steps of a new workload show, and its creation. Stores nothing before the last."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors import inventory
from apps.errors import DomainError, Invalid, NotFound
from apps.metering.findings.selectors.finding_selectors import policy_of
from apps.quotas.allowances.rules.fit import VerdictKind
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.selectors.offers import offers_of
from apps.quotas.models import Offer
from apps.quotas.specs import SharingMode
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.web.requests.idempotency import once
from apps.workloads import registry
from apps.workloads.images.selectors import catalogue
from apps.workloads.lifecycle.selectors.admission_check import PriceMoved
from apps.workloads.lifecycle.services import verbs
from apps.workloads.specs import Kind, WorkloadRequest
from apps.workloads.waiting.selectors import waiting
from portal.pages.team.workloads.cores_form import ask_for_cores
from portal.pages.team.workloads.like import Original, original
from portal.pages.team.workloads.secrets_form import SecretsForm
from portal.pages.team.workloads.workload_detail import as_yaml, url
from portal.pages.team.workloads.workload_forms import WorkloadForm

MOST_HOURLY = 10**9
"""No price is this high: a larger number did not come from one of our pages."""


class KindCard(NamedTuple):
    """A kind to choose."""

    kind: Kind
    icon: str
    about: str
    lack: str
    """What its cluster has to have first; empty: nothing."""


@dataclass(frozen=True)
class Asked:
    """The request so far, after the steps taken."""

    tenant: Tenant
    kind: Kind
    offer: Offer
    form: WorkloadForm
    like: Original | None = None
    """The workload that it is like."""
    is_alone: bool = False
    """The one that it was to be like is gone."""

    @property
    def review(self) -> str:
        """Where step 4 is."""
        return reverse("new-review", args=[self.tenant.slug, self.kind, self.offer.slug])

    @property
    def offers_url(self) -> str:
        """Where step 2 is, with what was chosen there."""
        like = {"like": self.like.row.pk} if self.like else {}
        step = reverse("new-offer", args=[self.tenant.slug, self.kind])
        return f"{step}?{urlencode({'back': self.offer.slug, **like})}"

    @property
    def request(self) -> WorkloadRequest:
        """What the services are asked; only of a valid form. The slug is made from the name."""
        if self.form.spec is None:
            raise ValueError("the form is not valid")
        labels = dict(self.form.given_labels)
        return WorkloadRequest(slug="", name=self.form.shown_name, labels=labels, spec=self.form.spec)

    @property
    def taken(self) -> list[str]:
        """The secrets that come along, unless somebody leaves them."""
        return self.like.taken if self.like else []

    @property
    def lost_image(self) -> str:
        """The image of the original, where the form cannot take it over."""
        image = str(self.like.row.spec["image"]) if self.like else ""
        known = self.form.initial.get("listed"), self.form.initial.get("image")
        return image if image and not self.form.is_bound and image not in known else ""


@dataclass(frozen=True)
class Shown:
    """A page to render with its status."""

    template: str
    context: dict[str, Any]
    status: int = 200


def kinds(actor: Actor, tenant: str, *, now: datetime) -> dict[str, Any]:
    """Step 1."""
    team = tenant_for(actor, tenant)
    allowed = [choice for choice in standing.offer_choices(team, now=now) if choice.allowed]
    cards = [_card(kind, team) for kind in registry.in_order()]
    silent = waiting.silent(team.cluster)
    ready = 0 if silent else sum(choice.starts_now for choice in allowed)
    return {
        "tenant": team,
        "silent": silent,
        "held": standing.hold_words(team),
        "kinds": cards,
        "offered": len(allowed),
        "ready": ready,
    }


def _card(kind: Kind, team: Tenant) -> KindCard:
    of = registry.of(kind)
    lack = inventory.lacks(team.cluster, of.needs) if of.needs else None
    return KindCard(kind, of.icon, of.about, lack.message if lack else "")


def offers(actor: Actor, tenant: str, kind: str, *, chosen: str, like: str, now: datetime) -> dict[str, Any]:
    """Step 2: what starts now first, then by price; refused ones stay, with why. The first is chosen."""
    team = tenant_for(actor, tenant)
    choices = standing.offer_choices(team, now=now)
    silent = waiting.silent(team.cluster)
    if silent:
        choices = [replace(choice, starts_now=False) for choice in choices]
    allowed = [choice for choice in choices if choice.allowed]
    return {
        "tenant": team,
        "kind": _kind(kind),
        "offers": choices,
        "silent": silent,
        "held": standing.hold_words(team),
        "allowed": len(allowed),
        "ready": sum(choice.starts_now for choice in allowed),
        "like": original(actor, like, (team.slug, kind)),
        "chosen": chosen or (allowed[0].offer.slug if allowed else ""),
        "live_topics": [f"tenant:{team.slug}"],
    }


def fields_url(actor: Actor, tenant: str, kind: str, offer: str, *, like: str) -> str:
    """Where step 3 is for the offer that was chosen."""
    team = tenant_for(actor, tenant)
    step = reverse("new-fields", args=[team.slug, _kind(kind), _offer(team, offer).slug])
    return f"{step}?{urlencode({'like': like})}" if like else step


def begun(actor: Actor, address: tuple[str, str, str], initial: Mapping[str, Any]) -> Asked:
    """Step 3 with what the address brings, over the values of the workload that it is to be like."""
    like = original(actor, initial.get("like", ""), address[:2])
    found = _asked(actor, address, None, initial={**(like.values if like else {}), **initial})
    return replace(found, like=like)


def asked(actor: Actor, address: tuple[str, str, str], data: Mapping[str, Any]) -> Asked:
    """Tenant, kind and offer of an address (or a form), and the form with what was typed."""
    found = _asked(actor, address, data)
    try:
        return replace(found, like=original(actor, data.get("like", ""), address[:2]))
    except NotFound:
        return replace(found, is_alone=True)


def _asked(
    actor: Actor, address: tuple[str, str, str], data: Mapping[str, Any] | None, **options: Any
) -> Asked:
    tenant, kind, offer = address
    team, which = tenant_for(actor, tenant), _kind(kind)
    found = _offer(team, offer)
    form = WorkloadForm(data, kind=which, offer=found.slug, **options)
    form.offer_images(catalogue.choices(team, which), catalogue.limits_of(team))
    form.tell_defaults(cpu_millis=found.cpu_millis, memory_bytes=found.memory_bytes)
    if found.is_cores:
        ask_for_cores(form, found)
    form.tell_zone(policy_of(team).time_zone)
    return Asked(team, which, found, form)


def fields(asked: Asked, refusal: DomainError | None = None) -> dict[str, Any]:
    """Step 3, also after a refusal."""
    return {
        "tenant": asked.tenant,
        "kind": asked.kind,
        "offer": asked.offer,
        "isolation": SharingMode(asked.offer.sharing_mode).isolation,
        "form": asked.form,
        "review": asked.review,
        "like": asked.like,
        "is_alone": asked.is_alone,
        "lost_image": asked.lost_image,
        "offers_url": asked.offers_url,
        "refusal": refusal,
        "failed": bool(refusal or asked.form.errors),
    }


def review(actor: Actor, asked: Asked, *, now: datetime) -> Shown:
    """Step 4: the same checks and refusals as creating."""
    if not asked.form.is_valid():
        return Shown("team/workloads/new/fields.html", fields(asked), 422)
    try:
        preview = verbs.preview_workload(actor=actor, tenant=asked.tenant, request=asked.request, now=now)
    except DomainError as refusal:
        return _refused(asked, refusal)
    kept = {
        name: value for name, value in asked.form.cleaned_data.items() if value or _has_default(asked, name)
    }
    typed = {**kept, **({"like": asked.like.row.pk} if asked.like else {})}
    back = reverse("new-fields", args=[asked.tenant.slug, asked.kind, asked.offer.slug])
    return Shown(
        "team/workloads/new/review.html",
        fields(asked)
        | {
            "preview": preview,
            "spec": preview.spec,
            "starts_now": preview.verdict.kind is VerdictKind.NOW,
            "source": as_yaml(preview.manifests),
            "key": uuid4(),
            "secrets_form": SecretsForm(taken=asked.taken),
            "back": f"{back}?{urlencode(typed)}",
        },
    )


def create(request: HttpRequest, actor: Actor, asked: Asked, *, now: datetime) -> str | Shown:
    """The new workload's address, or the step to go back to with the problems. A repeated form makes only
    one.
    """
    if not asked.form.is_valid():
        return Shown("team/workloads/new/fields.html", fields(asked), 422)
    secrets = SecretsForm(request.POST, taken=asked.taken)
    if asked.is_alone or not secrets.is_valid():
        shown = review(actor, asked, now=now)
        return Shown(shown.template, shown.context | {"secrets_form": secrets, "failed": True}, 422)

    def make() -> str:
        seen = price_of(request.POST.get("seen_hourly", ""))
        like = str(asked.like.row.pk) if asked.like and secrets.cleaned_data.get("take") else ""
        wanted = replace(asked.request, secrets=secrets.wishes, like=like)
        return url(
            verbs.submit_workload(actor=actor, tenant=asked.tenant, request=wanted, now=now, seen_hourly=seen)
        )

    try:
        return once(request, make)
    except PriceMoved as moved:
        shown = review(actor, asked, now=now)
        return Shown(shown.template, shown.context | {"moved": moved.extra, "failed": True}, moved.status)
    except DomainError as refusal:
        return _refused(asked, refusal)


def _has_default(asked: Asked, name: str) -> bool:
    """Whether an empty field says something: left out, it would be filled in again."""
    return bool(asked.form.fields[name].initial or asked.like)


def price_of(typed: str) -> Decimal | None:
    """The price per hour that the review showed; None where it showed none, or is no price of ours."""
    try:
        seen = Decimal(typed)
        is_price = 0 <= seen < MOST_HOURLY
    except InvalidOperation:
        return None
    return seen if is_price else None


def _refused(asked: Asked, refusal: DomainError) -> Shown:
    """A refusal of the fields goes beside them; any other above them."""
    if isinstance(refusal, NotFound):
        raise refusal
    if isinstance(refusal, Invalid):
        asked.form.take(refusal)
        return Shown("team/workloads/new/fields.html", fields(asked), 422)
    return Shown("team/workloads/new/fields.html", fields(asked, refusal), refusal.status)


def _kind(kind: str) -> Kind:
    if kind not in set(Kind):
        raise NotFound
    return Kind(kind)


def _offer(tenant: Tenant, slug: str) -> Offer:
    found = offers_of(tenant).filter(slug=slug).first()
    if found is None:
        raise NotFound
    return found
