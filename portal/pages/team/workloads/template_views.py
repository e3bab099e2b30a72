"""The pages of a new workload from a template: parse, call, present."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from apps.accounts.actors import actor_of
from apps.errors import Invalid
from apps.workloads.templates.services import keeping
from portal.pages.parts.answers import done, require_form, sent, with_status
from portal.pages.parts.htmx import redirect_after, render_page
from portal.pages.team.workloads import from_template

QUOTE = frozenset({"quote"})


@require_form
def new_from_template(request: HttpRequest, tenant: str, template: str) -> HttpResponse:
    """Its few fields, with what Back from the review brings; a POST creates."""
    actor, now = actor_of(request), timezone.now()
    if request.method != "POST":
        initial = request.GET.dict()
        asked = from_template.asked(actor, tenant, template, None, now=now, initial=initial)
        return render_page(request, from_template.FORM, from_template.fields(actor, asked))
    asked = from_template.asked(actor, tenant, template, request.POST, now=now)
    made = from_template.create(request, actor, asked, now=now)
    if isinstance(made, str):
        return redirect_after(request, made)
    return with_status(render_page(request, made.template, made.context), made.status)


@require_safe
def review_template(request: HttpRequest, tenant: str, template: str) -> HttpResponse:
    """What it would be, cost, and when it would start; stores nothing. The form sends its fields in the
    address, so that Back and reload show it again.
    """
    actor, now = actor_of(request), timezone.now()
    asked = from_template.asked(actor, tenant, template, request.GET, now=now)
    shown = from_template.review(actor, asked, now=now)
    if "part" in request.GET:
        return render_page(request, from_template.FORM, shown.context, parts=QUOTE)
    return with_status(render_page(request, shown.template, shown.context), shown.status)


@require_form
def defaults_page(request: HttpRequest, tenant: str, template: str) -> HttpResponse:
    """What the team's form of a template starts with; a POST sets it."""
    actor, now = actor_of(request), timezone.now()
    asked = from_template.defaults_form(actor, tenant, template, sent(request), now=now)
    keeping.require_lead(actor, asked.tenant)
    shown = partial(render_page, request, "team/templates/defaults.html")
    if request.method != "POST":
        return shown(from_template.fields(actor, asked))
    try:
        if asked.form.is_valid():
            back = from_template.set_defaults(actor, asked, now=now)
            return done(request, "The form starts with these from now on.", back)
    except Invalid as refusal:
        asked.form.take(refusal)
    return with_status(shown(from_template.fields(actor, asked)), 422)
