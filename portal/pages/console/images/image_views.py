"""The console's pages of images: parse, call, present."""

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.tenants import selectors as tenancy
from apps.tenants.models import Tenant
from apps.workloads.images.selectors import catalogue
from apps.workloads.images.services import keeping
from apps.workloads.models import Image
from portal.pages.console.images import image_pages
from portal.pages.console.images.image_forms import ImageForm, RuleForm
from portal.pages.parts import confirm
from portal.pages.parts.answers import done, require_form
from portal.pages.parts.form_pages import form_page


@require_form
def images_page(request: HttpRequest) -> HttpResponse:
    """The catalogue; a POST lists an image."""
    actor = _keeper(request)
    form = ImageForm(tenancy.tenants_for(actor).order_by("name"), request.POST or None)
    shown = partial(image_pages.images, actor)
    make = partial(_add, actor, form)
    return form_page(request, "console/images/images.html", shown, form=form, make=make)


def _add(actor: Actor, form: ImageForm) -> str:
    made = keeping.add_image(actor=actor, wish=form.wish(), now=timezone.now())
    return _url(made)


@require_form
def image_page(request: HttpRequest, image: str) -> HttpResponse:
    """One image; a POST changes its entry."""
    actor = _console(request)
    found = catalogue.image_for(actor, image)
    _check_sender(request, actor)
    named = catalogue.tenants_of([found])[found.pk]
    form = ImageForm.of(found, named, tenancy.tenants_for(actor).order_by("name"), request.POST or None)
    shown = partial(image_pages.image, actor, found)
    make = partial(_change, actor, found, form)
    return form_page(request, "console/images/image.html", shown, form=form, make=make)


def _change(actor: Actor, image: Image, form: ImageForm) -> str:
    keeping.update_image(actor=actor, image=image, wish=form.wish(), now=timezone.now())
    return _url(image)


@require_form
def retire(request: HttpRequest, image: str) -> HttpResponse:
    """What retiring it means; a POST retires it."""
    actor = _console(request)
    found = catalogue.image_for(actor, image)
    keeping.require_keeper(actor)
    if request.method != "POST":
        return confirm.page(request, image_pages.retiring(actor, found, _url(found)))
    reason = request.POST.get("reason", "")[:500]
    keeping.retire_image(actor=actor, image=found, reason=reason, now=timezone.now())
    return done(request, f"{found.name} can be chosen no more.", _url(found))


@require_POST
def restore(request: HttpRequest, image: str) -> HttpResponse:
    """Take a retirement back."""
    actor = _console(request)
    found = catalogue.image_for(actor, image)
    keeping.restore_image(actor=actor, image=found, now=timezone.now())
    return done(request, f"{found.name} can be chosen again.", _url(found))


@require_form
def rule_page(request: HttpRequest, tenant: str = "") -> HttpResponse:
    """Which images may be used besides the catalogue, everywhere or by one tenant; a POST sets it."""
    actor = _console(request)
    row = tenancy.tenant_for(actor, tenant) if tenant else None
    _check_sender(request, actor)
    form = RuleForm.of(image_pages.limits(row), request.POST or None, is_own=row is not None)
    shown = partial(image_pages.rule, actor, row)
    make = partial(_set_rule, request, actor, row, form)
    return form_page(request, "console/images/rule.html", shown, form=form, make=make)


def _set_rule(request: HttpRequest, actor: Actor, tenant: Tenant | None, form: RuleForm) -> str:
    keeping.set_limits(actor=actor, tenant=tenant, limits=form.limits(), now=timezone.now())
    messages.success(request, "The rule counts for what is asked for from now on.")
    return reverse("console-image-rules")


def _keeper(request: HttpRequest) -> Actor:
    """The actor, if they see the console, and may send its form."""
    actor = _console(request)
    _check_sender(request, actor)
    return actor


def _console(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    image_pages.require_console(actor)
    return actor


def _check_sender(request: HttpRequest, actor: Actor) -> None:
    """Only platform engineers may send a form; anybody else is refused before it is checked."""
    if request.method == "POST":
        keeping.require_keeper(actor)


def _url(image: Any) -> str:
    return reverse("console-image", args=[image.slug])
