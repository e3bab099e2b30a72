"""The console's pages of templates: parse, call, present."""

from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actors import actor_of
from apps.accounts.specs import Actor
from apps.errors import FieldProblem, Invalid, NotFound
from apps.tenants import selectors as tenancy
from apps.workloads.template_models import Template
from apps.workloads.templates.rules import source
from apps.workloads.templates.selectors import catalogue
from apps.workloads.templates.services import keeping, shipping
from portal.pages.console.templates import template_pages
from portal.pages.console.templates.template_forms import EntryForm, SourceForm
from portal.pages.parts import confirm
from portal.pages.parts.answers import done, require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.parts.htmx import render_page


@require_form
def templates_page(request: HttpRequest) -> HttpResponse:
    """The catalogue; a POST imports a YAML."""
    actor = _console(request)
    _check_sender(request, actor)
    form = SourceForm(request.POST or None)
    shown = partial(template_pages.templates, actor)
    make = partial(_import, request, actor, form, "")
    return form_page(request, "console/templates/templates.html", shown, form=form, make=make)


@require_form
def template_page(request: HttpRequest, template: str) -> HttpResponse:
    """One template; a POST changes its name and for whom it is."""
    actor = _console(request)
    found = catalogue.template_for(actor, template)
    _check_sender(request, actor)
    choices = (
        tenancy.departments_for(actor).order_by("name"),
        tenancy.tenants_for(actor).order_by("name"),
    )
    form = EntryForm.of(found, catalogue.audiences([found])[found.pk], choices, request.POST or None)
    shown = partial(template_pages.template, actor, found)
    make = partial(_change, actor, found, form)
    return form_page(request, "console/templates/template.html", shown, form=form, make=make)


def _change(actor: Actor, template: Template, form: EntryForm) -> str:
    keeping.update_template(actor=actor, template=template, entry=form.entry(), now=timezone.now())
    return _url(template.slug)


@require_form
def edit_page(request: HttpRequest, template: str) -> HttpResponse:
    """Its newest version as YAML; a POST makes the next one."""
    actor = _console(request)
    found = catalogue.template_for(actor, template)
    keeping.require_keeper(actor)
    form = SourceForm(request.POST or None, initial={"source": catalogue.source_of(found)})
    shown = partial(template_pages.template, actor, found)
    make = partial(_import, request, actor, form, found.slug)
    return form_page(request, "console/templates/edit.html", shown, form=form, make=make)


def _import(request: HttpRequest, actor: Actor, form: SourceForm, slug: str) -> str:
    """What the file says; `slug`: of the template that it must be."""
    found = source.parse(form.cleaned_data["source"])
    if slug not in ("", found.slug):
        words = f"This is {slug}. Import another template on the page of all."
        raise Invalid([FieldProblem("/source/template", "invalid_value", words)])
    made = keeping.import_template(actor=actor, source=found, now=timezone.now())
    messages.success(
        request, f"{made.name} is at version {made.version}. What was made before is left alone."
    )
    return _url(made.slug)


@require_safe
def diff_page(request: HttpRequest, template: str, before: int, after: int) -> HttpResponse:
    """What changed from one version to another."""
    found = catalogue.template_for(_console(request), template)
    if not 1 <= min(before, after) <= max(before, after) <= found.version:
        raise NotFound
    return render_page(request, "console/templates/diff.html", template_pages.diff(found, before, after))


@require_safe
def source_file(request: HttpRequest, template: str) -> HttpResponse:
    """Its newest version as one YAML, to be imported elsewhere."""
    found = catalogue.template_for(_console(request), template)
    answer = HttpResponse(catalogue.source_of(found), content_type="application/yaml; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{found.slug}.yaml"'
    answer["Cache-Control"] = "no-store"
    return answer


@require_form
def retire(request: HttpRequest, template: str) -> HttpResponse:
    """What retiring it means; a POST retires it."""
    actor = _console(request)
    found = catalogue.template_for(actor, template)
    keeping.require_keeper(actor)
    if request.method != "POST":
        return confirm.page(request, template_pages.retiring(actor, found, _url(found.slug)))
    reason = request.POST.get("reason", "")[:500]
    keeping.retire_template(actor=actor, template=found, reason=reason, now=timezone.now())
    return done(request, f"Nothing new is made from {found.name}.", _url(found.slug))


@require_POST
def restore(request: HttpRequest, template: str) -> HttpResponse:
    """Take a retirement back."""
    actor = _console(request)
    found = catalogue.template_for(actor, template)
    keeping.restore_template(actor=actor, template=found, now=timezone.now())
    return done(request, f"{found.name} can be used again.", _url(found.slug))


@require_POST
def add_shipped(request: HttpRequest) -> HttpResponse:
    """Add those that come with the product and are not there."""
    actor = _console(request)
    keeping.require_keeper(actor)
    made = shipping.add_shipped(actor=actor, now=timezone.now())
    words = f"Added: {', '.join(each.name for each in made)}." if made else "All of them are there."
    return done(request, words, reverse("console-templates"))


def _console(request: HttpRequest) -> Actor:
    actor = actor_of(request)
    template_pages.require_console(actor)
    return actor


def _check_sender(request: HttpRequest, actor: Actor) -> None:
    """Only platform engineers may send a form; anybody else is refused before it is checked."""
    if request.method == "POST":
        keeping.require_keeper(actor)


def _url(slug: str) -> str:
    return reverse("console-template", args=[slug])
