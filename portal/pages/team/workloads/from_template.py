"""What a new workload from a template shows, and its creation; and a team's defaults for its forms."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.specs import Actor
from apps.errors import DomainError, Invalid, NotFound
from apps.quotas.allowances.rules.fit import VerdictKind
from apps.quotas.allowances.selectors import standing
from apps.quotas.catalogue.selectors.offers import offers_of
from apps.quotas.specs import SharingMode
from apps.tenants.models import Tenant
from apps.tenants.selectors import tenant_for
from apps.web.requests.idempotency import once
from apps.workloads import policies, registry
from apps.workloads.lifecycle.selectors.admission_check import Preview, PriceMoved
from apps.workloads.specs import Kind
from apps.workloads.template_models import Template, TemplateVersion
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.selectors.experience import Experience, experience_of
from apps.workloads.templates.services import keeping, making
from portal.pages.team.workloads.as_typed import LONGEST_NAME
from portal.pages.team.workloads.new_workload import Shown, price_of
from portal.pages.team.workloads.secrets_form import SecretsForm
from portal.pages.team.workloads.template_forms import PREFIX, TemplateForm
from portal.pages.team.workloads.workload_detail import as_yaml, url

FORM = "team/templates/form.html"


@dataclass(frozen=True)
class TemplateCard:
    """A template to choose."""

    template: Template
    came: Experience

    @property
    def icon(self) -> str:
        """That of its kind; a new kind needs none here."""
        return registry.of(self.template.kind).icon


@dataclass(frozen=True)
class Asked:
    """The request so far."""

    tenant: Tenant
    template: Template
    version: TemplateVersion
    form: TemplateForm

    @property
    def address(self) -> str:
        """Where its form is, and is sent to."""
        return reverse("new-from-template", args=[self.tenant.slug, self.template.slug])

    @property
    def wish(self) -> making.Wish:
        """What the services are asked; only of a valid form. The version is the one that was shown."""
        return making.Wish(
            values=self.form.values(), version=self.version.number, name=self.form.shown_name[:LONGEST_NAME]
        )


def cards(actor: Actor, tenant: Tenant) -> list[TemplateCard]:
    """Those that the team may use, by name."""
    found = list(catalogue.usable_by(tenant).order_by("name", "slug"))
    came = experience_of(actor, found)
    return [TemplateCard(each, came[each.slug]) for each in found]


def asked(
    actor: Actor, tenant: str, template: str, data: Mapping[str, Any] | None, *, now: datetime, **options: Any
) -> Asked:
    """The team's form of a template with what was typed; NotFound where the team may not use it."""
    team = tenant_for(actor, tenant)
    found = _usable(actor, team, template)
    version = catalogue.version_of(found, _reviewed_version(data))
    parameters = catalogue.parameters_for(version, team)
    form = TemplateForm(parameters, _choices(version, team, now), data, **options)
    return Asked(team, found, version, form)


def _choices(version: TemplateVersion, team: Tenant, now: datetime) -> list[standing.OfferChoice]:
    """The offers to choose from; of a template for work without a GPU those of cores alone."""
    found = standing.offer_choices(team, now=now)
    return [each for each in found if each.offer.is_cores] if _is_bare(version) else found


def _is_bare(version: TemplateVersion) -> bool:
    """Whether it asks for no device, whatever is filled in."""
    return catalogue.definition_of(version).workload.get("count") == 0


def _reviewed_version(data: Mapping[str, Any] | None) -> int | None:
    """The version that the review showed and sends along; None: the newest."""
    text = str((data or {}).get("version", ""))
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text)):
        raise NotFound
    return int(text)


def fields(actor: Actor, asked: Asked, refusal: DomainError | None = None) -> dict[str, Any]:
    """The form, also after a refusal."""
    return {
        "tenant": asked.tenant,
        "template": asked.template,
        "version": asked.version,
        "kind": Kind(asked.template.kind),
        "form": asked.form,
        "came": experience_of(actor, [asked.template])[asked.template.slug],
        "review": f"{asked.address}review/",
        "action": asked.address,
        "refusal": refusal,
        "failed": bool(refusal or asked.form.errors),
        "may_set": policies.can_set_defaults(actor, asked.tenant),
        "lacks_cores": _is_bare(asked.version) and not asked.form.has_offers,
    }


def review(actor: Actor, asked: Asked, *, now: datetime) -> Shown:
    """What it would be: the same checks and refusals as creating."""
    if not asked.form.is_valid():
        return Shown(FORM, fields(actor, asked), 422)
    try:
        preview = making.preview_from_template(
            actor=actor, tenant=asked.tenant, template=asked.template, wish=asked.wish, now=now
        )
    except DomainError as refusal:
        return _refused(actor, asked, refusal)
    return Shown("team/workloads/new/review.html", fields(actor, asked) | _reviewed(asked, preview))


def _reviewed(asked: Asked, preview: Preview) -> dict[str, Any]:
    offer = offers_of(asked.tenant).get(slug=preview.spec.offer)
    # A flag that was taken away is said too: where nothing is said, the form starts with its default.
    typed = {name: value or "" for name, value in asked.form.cleaned_data.items() if value or value is False}
    return {
        "offer": offer,
        "isolation": SharingMode(offer.sharing_mode).isolation,
        "preview": preview,
        "spec": preview.spec,
        "starts_now": preview.verdict.kind is VerdictKind.NOW,
        "source": as_yaml(preview.manifests),
        "key": uuid4(),
        "secrets_form": SecretsForm(),
        "back": f"{asked.address}?{urlencode(typed)}",
    }


def create(request: HttpRequest, actor: Actor, asked: Asked, *, now: datetime) -> str | Shown:
    """The new workload's address, or the page to go back to with the problems. A repeated form makes one."""
    if not asked.form.is_valid():
        return Shown(FORM, fields(actor, asked), 422)
    secrets = SecretsForm(request.POST)
    if not secrets.is_valid():
        shown = review(actor, asked, now=now)
        return Shown(shown.template, shown.context | {"secrets_form": secrets, "failed": True}, 422)
    wish = replace(asked.wish, secrets=secrets.wishes)
    seen = price_of(request.POST.get("seen_hourly", ""))
    try:
        return once(request, lambda: url(_submit(actor, asked, wish, seen, now=now)))
    except PriceMoved as moved:
        shown = review(actor, asked, now=now)
        return Shown(shown.template, shown.context | {"moved": moved.extra, "failed": True}, moved.status)
    except DomainError as refusal:
        return _refused(actor, asked, refusal)


def _submit(actor: Actor, asked: Asked, wish: making.Wish, seen: Decimal | None, *, now: datetime) -> Any:
    return making.submit_from_template(
        actor=actor, tenant=asked.tenant, template=asked.template, wish=wish, now=now, seen_hourly=seen
    )


def _refused(actor: Actor, asked: Asked, refusal: DomainError) -> Shown:
    """A refusal of the fields goes beside them; any other above them."""
    if isinstance(refusal, NotFound):
        raise refusal
    if isinstance(refusal, Invalid):
        asked.form.take(refusal)
        return Shown(FORM, fields(actor, asked), 422)
    return Shown(FORM, fields(actor, asked, refusal), refusal.status)


def defaults_form(
    actor: Actor, tenant: str, template: str, data: Mapping[str, Any] | None, *, now: datetime
) -> Asked:
    """The form of a team's defaults, with those that it has."""
    team = tenant_for(actor, tenant)
    found = _usable(actor, team, template)
    version = catalogue.version_of(found)
    own = {f"{PREFIX}{name}": value for name, value in catalogue.defaults_of(found, team).items()}
    parameters = catalogue.definition_of(version).parameters
    choices = _choices(version, team, now)
    return Asked(team, found, version, TemplateForm(parameters, choices, data, is_partial=True, initial=own))


def set_defaults(actor: Actor, asked: Asked, *, now: datetime) -> str:
    """Keep what was typed; where its form is."""
    keeping.set_defaults(
        actor=actor, template=asked.template, tenant=asked.tenant, values=asked.form.values(), now=now
    )
    return asked.address


def _usable(actor: Actor, team: Tenant, slug: str) -> Template:
    """What the team may not use is not there; nor is what was retired."""
    found = catalogue.template_for(actor, slug)
    if not catalogue.usable_by(team).filter(pk=found.pk).exists():
        raise NotFound
    return found
