"""The console's pages of sign-in and of one person's sessions: parse, call, present."""

from functools import partial
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from apps.accounts import sessions
from apps.accounts.actors import actor_of
from apps.accounts.policies import can_view
from apps.accounts.second_factor import factors
from apps.accounts.selectors import person_for
from apps.accounts.specs import Actor
from apps.accounts.viewing.selectors import views_of
from apps.tenants.people.selectors import group_rules
from apps.tenants.people.services import group_rules as keeping
from portal.pages.console.people import rule_pages
from portal.pages.console.people.rule_forms import EffectForm, RuleForm
from portal.pages.parts import confirm
from portal.pages.parts.answers import done, require_form
from portal.pages.parts.form_pages import form_page
from portal.pages.parts.htmx import render_page


@require_form
def sign_in_page(request: HttpRequest) -> HttpResponse:
    """Providers, rules and a dry run (`?of=`); a POST makes a rule."""
    actor = actor_of(request)
    rule_pages.require_console(actor)
    if request.method == "POST":
        keeping.require_keeper(actor)
    form, effect = RuleForm(request.POST or None), EffectForm(request.GET if "of" in request.GET else None)
    shown = partial(rule_pages.sign_in, actor, effect)
    make = partial(_make, actor, form)
    return form_page(request, "console/people/sign_in.html", shown, form=form, make=make)


def _make(actor: Actor, form: RuleForm) -> str:
    keeping.make_rule(actor=actor, wish=form.wish(), now=timezone.now())
    return reverse("console-sign-in")


@require_POST
def remove_rule(request: HttpRequest, rule: UUID) -> HttpResponse:
    """Remove one; what it gave is taken back at each person's next sign-in."""
    actor = actor_of(request)
    row = group_rules.rule_for(actor, rule)
    keeping.remove_rule(actor=actor, rule=row, now=timezone.now())
    return done(request, f"The rule for {row.group} is gone.", reverse("console-sign-in"))


@never_cache
@require_safe
def sessions_page(request: HttpRequest, username: str) -> HttpResponse:
    """Where somebody is signed in, and by what."""
    actor, now = actor_of(request), timezone.now()
    person = person_for(actor, username)
    shown = {
        "person": person,
        "rows": sessions.sessions_for(actor, person, now).order_by("-seen_at"),
        "identities": person.identities.order_by("created_at"),
        "can_end": actor.is_platform,
        "factor": factors.standing(person),
        "is_oneself": actor.user_id == person.pk,
        "can_view": can_view(actor, person),
        "views": views_of(actor, person),
    }
    return render_page(request, "console/people/sessions.html", shown)


@never_cache
@require_form
def reset_second_factor(request: HttpRequest, username: str) -> HttpResponse:
    """What it means to take somebody's second factor away; a POST takes it."""
    actor = actor_of(request)
    person = person_for(actor, username)
    if request.method != "POST":
        return confirm.page(request, rule_pages.resetting(actor, person))
    factors.reset(actor=actor, user=person, now=timezone.now())
    words = f"{person.shown_name} has no second factor now and is signed out everywhere."
    return done(request, words, reverse("console-sessions", args=[username]))


@require_POST
def end_sessions(request: HttpRequest, username: str) -> HttpResponse:
    """Sign somebody out everywhere."""
    actor = actor_of(request)
    person = person_for(actor, username)
    count = sessions.end_all(actor=actor, user=person, now=timezone.now())
    words = f"{person.shown_name} is signed out of {count} browser{'' if count == 1 else 's'}."
    return done(request, words, reverse("console-sessions", args=[username]))
