"""The console's pages of offers and quotas: parse, call, present. `pages` fills them."""

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.cluster.mirror.selectors.inventory import clusters_for
from apps.errors import NotFound, PreconditionFailed
from apps.quotas.allowances.selectors import sharing
from apps.quotas.allowances.services import quota_changes, weighing
from apps.quotas.catalogue.selectors import offers
from apps.quotas.catalogue.services import adoption, booking, offering
from apps.quotas.catalogue.services.booking import PriceWish
from apps.quotas.models import Offer, Quota
from apps.tenants.models import Department, Tenant
from apps.tenants.selectors import department_for, tenant_for
from apps.web.requests.rehearsals import rehearsal
from portal.pages.console.quotas import catalogue_pages
from portal.pages.console.quotas.catalogue_forms import (
    NewOfferForm,
    OfferForm,
    PriceForm,
    QuotaForm,
    ShareForm,
    WeightForm,
)
from portal.pages.parts.answers import require_form
from portal.pages.parts.form_pages import Shown, form_page, preview_page
from portal.pages.parts.htmx import redirect_after, render_page

OFFERS, QUOTAS = "/console/offers/", "/console/quotas/"
RESOURCE_PRICES, PRICES = "/console/prices/", "console/quotas/prices.html"
SHARE = "console/quotas/share.html"
ROWS = frozenset({"rows"})


@require_form
def offers_page(request: HttpRequest) -> HttpResponse:
    """Every offer; a POST makes one."""
    actor = _keeper(request)
    _check_sender(request, actor)
    form = NewOfferForm(actor, request.POST or None)
    shown = partial(catalogue_pages.offers, actor, now=timezone.now())
    make = partial(_make_offer, actor, form)
    return form_page(request, "console/quotas/offers.html", shown, form=form, make=make, parts=ROWS)


def _make_offer(actor: Actor, form: NewOfferForm) -> str:
    made = offering.create_offer(actor=actor, wish=form.wish(), now=timezone.now())
    return f"{OFFERS}{made.slug}/"


@require_POST
def adopt(request: HttpRequest) -> HttpResponse:
    """Offers, flavors and first prices of what the inventory found."""
    actor, now = _keeper(request), timezone.now()
    _check_sender(request, actor)
    for cluster in clusters_for(actor):
        for words in adoption.adopt(actor=actor, cluster=cluster, now=now).refused:
            messages.warning(request, words)
    return redirect_after(request, OFFERS)


@require_form
def offer_page(request: HttpRequest, offer: str) -> HttpResponse:
    """One offer: words, trust, what comes with it; a POST changes them."""
    actor = _keeper(request)
    found = offers.offer_for(actor, offer)
    _check_sender(request, actor)
    form = OfferForm.of(found, request.POST or None)
    shown = partial(catalogue_pages.offer, actor, found, now=timezone.now())
    make = partial(_change_offer, actor, found, form)
    return form_page(request, "console/quotas/offer.html", shown, form=form, make=make)


def _change_offer(actor: Actor, offer: Offer, form: OfferForm) -> str:
    offering.update_offer(actor=actor, offer=offer, change=form.change(), now=timezone.now())
    return f"{OFFERS}{offer.slug}/"


Effect = Callable[[PriceWish], Shown]
"""Computes what a price would change."""


@require_form
def price_page(request: HttpRequest, offer: str, effect: Effect) -> HttpResponse:
    """An offer's prices; a POST sets one from a moment on, or only tells its `effect`."""
    actor = _keeper(request)
    found = offers.offer_for(actor, offer)
    _check_sender(request, actor)
    form = PriceForm(catalogue_pages.payers(actor, found), request.POST or None, offer=found)
    shown = partial(catalogue_pages.offer, actor, found, now=timezone.now())
    return _book_page(request, shown, form, effect=effect, address=f"{OFFERS}{found.slug}/prices/")


def _book_page(
    request: HttpRequest, shown: Callable[[], Shown], form: PriceForm, *, effect: Effect, address: str
) -> HttpResponse:
    actor = _keeper(request)
    if request.POST.get("preview") == "yes":
        told = partial(_previewed_price, actor, form, effect)
        return preview_page(request, PRICES, shown, form=form, told=told)
    make = partial(_set_price, actor, form, address)
    return form_page(request, PRICES, shown, form=form, make=make)


def _previewed_price(actor: Actor, form: PriceForm, effect: Effect) -> Shown:
    """With the same refusals as the real change; nothing is kept."""
    with rehearsal():
        booking.book_price(actor=actor, wish=form.wish(), now=timezone.now())
    return effect(form.wish())


@require_form
def resource_prices_page(request: HttpRequest, effect: Effect) -> HttpResponse:
    """What a core and a GiB cost; a POST sets a price from a moment on, or only tells its `effect`."""
    actor = _keeper(request)
    _check_sender(request, actor)
    form = PriceForm(catalogue_pages.payers(actor), request.POST or None)
    shown = partial(catalogue_pages.resource_prices, actor, now=timezone.now())
    return _book_page(request, shown, form, effect=effect, address=RESOURCE_PRICES)


def _set_price(actor: Actor, form: PriceForm, address: str) -> str:
    booking.book_price(actor=actor, wish=form.wish(), now=timezone.now())
    return address


@require_safe
def quotas_page(request: HttpRequest) -> HttpResponse:
    """Tenants against offers."""
    shown = catalogue_pages.quotas(actor_of(request), now=timezone.now())
    return render_page(request, "console/quotas/quotas.html", shown, parts=ROWS)


@require_form
def quota_page(request: HttpRequest, tenant: str, offer: str) -> HttpResponse:
    """One tenant's quota of one offer: a POST previews, and keeps it once confirmed."""
    actor = _keeper(request)
    whose, what = tenant_for(actor, tenant), offers.offer_for(actor, offer)
    _check_sender(request, actor)
    shown = catalogue_pages.quota(actor, whose, what)
    form = QuotaForm.of(shown["quota"], request.POST or None)
    if request.method == "POST" and request.POST.get("confirm") != "yes":
        told = partial(_previewed, actor, whose, what, form=form)
        return preview_page(request, "console/quotas/quota.html", lambda: shown, form=form, told=told)
    make = partial(_keep, actor, whose, what, form=form)
    return form_page(request, "console/quotas/quota.html", lambda: shown, form=form, make=make)


def _previewed(actor: Actor, tenant: Tenant, offer: Offer, *, form: QuotaForm) -> Shown:
    """What the typed amounts would do."""
    amounts, now = form.amounts(), timezone.now()
    told = quota_changes.preview_quota(actor=actor, tenant=tenant, offer=offer, amounts=amounts, now=now)
    return {"effect": told}


def _keep(actor: Actor, tenant: Tenant, offer: Offer, *, form: QuotaForm) -> str:
    """Keeps the previewed change, unless somebody has changed the row since."""
    rows = Quota.objects.filter(tenant=tenant, offer=offer).values_list("generation", flat=True)
    if (rows.first() or 0) != form.cleaned_data["generation"]:
        words = "Somebody has changed this quota since you opened it."
        raise PreconditionFailed(words, hint="Look at it again, then decide.")
    quota_changes.set_quota(
        actor=actor, tenant=tenant, offer=offer, amounts=form.amounts(), now=timezone.now()
    )
    return QUOTAS


@require_form
def weight_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """A tenant's weight among those who borrow."""
    actor = _keeper(request)
    whose = tenant_for(actor, tenant)
    _check_sender(request, actor)
    form = WeightForm(request.POST or None, initial={"fair_weight": sharing.weight_of(whose).normalize()})
    shown = partial(catalogue_pages.weight, whose)
    make = partial(_weigh, actor, whose, form)
    return form_page(request, "console/quotas/weight.html", shown, form=form, make=make)


def _weigh(actor: Actor, tenant: Tenant, form: WeightForm) -> str:
    weight = form.cleaned_data["fair_weight"]
    weighing.set_weight(actor=actor, tenant=tenant, fair_weight=weight, now=timezone.now())
    return QUOTAS


@require_form
def share_page(request: HttpRequest, department: str) -> HttpResponse:
    """A department's place, weight and bounds: a POST previews, and keeps it once confirmed."""
    actor = _keeper(request)
    row = department_for(actor, department)
    _check_sender(request, actor)
    form = catalogue_pages.share_form(actor, row, request.POST or None)
    shown = partial(catalogue_pages.share, actor, row)
    if request.method == "POST" and request.POST.get("confirm") != "yes":
        return preview_page(request, SHARE, shown, form=form, told=partial(_weighed, actor, row, form))
    return form_page(request, SHARE, shown, form=form, make=partial(_place, actor, row, form))


def _weighed(actor: Actor, row: Department, form: ShareForm) -> Shown:
    """What the typed place and bounds would do."""
    now, share = timezone.now(), form.share()
    return {"effect": weighing.preview_share(actor=actor, department=row, share=share, now=now)}


def _place(actor: Actor, row: Department, form: ShareForm) -> str:
    """Keeps the previewed change, unless somebody has changed the row since."""
    if row.generation != form.cleaned_data["generation"]:
        words = "Somebody has changed this department since you opened it."
        raise PreconditionFailed(words, hint="Look at it again, then decide.")
    weighing.set_share(actor=actor, department=row, share=form.share(), now=timezone.now())
    return QUOTAS


@require_POST
def take_away(request: HttpRequest, tenant: str, offer: str) -> HttpResponse:
    """What taking a tenant's quota of an offer away does; confirmed, it is taken away."""
    actor, now = _keeper(request), timezone.now()
    whose, what = tenant_for(actor, tenant), offers.offer_for(actor, offer)
    quota = Quota.objects.filter(tenant=whose, offer=what).first()
    if quota is None:
        raise NotFound
    if request.POST.get("confirm") == str(quota.generation):
        quota_changes.delete_quota(actor=actor, quota=quota, now=now)
        return redirect_after(request, QUOTAS)
    told = quota_changes.preview_quota(actor=actor, tenant=whose, offer=what, amounts=None, now=now)
    shown = {**catalogue_pages.quota(actor, whose, what), "form": QuotaForm.of(quota, None), "effect": told}
    return render_page(request, "console/quotas/quota.html", {**shown, "takes": True})


def _keeper(request: HttpRequest) -> Actor:
    """The actor, if they may see the console."""
    actor = actor_of(request)
    catalogue_pages.require_console(actor)
    return actor


def _check_sender(request: HttpRequest, actor: Actor) -> None:
    """Only platform engineers may send a form; anybody else is refused before it is checked."""
    if request.method == "POST":
        offering.require_keeper(actor)
