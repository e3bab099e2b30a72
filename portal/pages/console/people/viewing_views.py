"""Seeing the portal as somebody else: the question before it, and its end. Parse, call, present."""

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts import policies
from apps.accounts.actors import actor_of, of_user
from apps.accounts.models import User
from apps.accounts.selectors import person_for
from apps.accounts.specs import LONGEST_REASON, Actor
from apps.accounts.viewing import services
from portal import viewing
from portal.pages.account import landing
from portal.pages.parts.answers import done, require_form, sent
from portal.pages.parts.form_pages import form_page


class ReasonForm(forms.Form):
    """Why one looks."""

    reason = forms.CharField(
        label="Why",
        max_length=LONGEST_REASON,
        help_text="One line. The person reads it, and the audit record keeps it.",
    )


@never_cache
@require_form
def begin_view(request: HttpRequest, username: str) -> HttpResponse:
    """What it means; a POST begins, and leads to the first page that the person sees."""
    actor = actor_of(request)
    person, form = person_for(actor, username), ReasonForm(sent(request))
    policies.require_viewer(actor, person)
    shown = {"person": person, "minutes": settings.CONFIG.view_as_minutes}

    def make() -> str:
        return _begun(request, actor, person, form.cleaned_data["reason"])

    return form_page(request, "console/people/view_as.html", lambda: shown, form=form, make=make)


def _begun(request: HttpRequest, actor: Actor, person: User, reason: str) -> str:
    key = request.session.session_key or ""
    view = services.begin(actor=actor, person=person, session_key=key, reason=reason, now=timezone.now())
    viewing.begin(request, view)
    return landing.url(of_user(person, request))


@require_POST
def end_view(request: HttpRequest) -> HttpResponse:
    """Back to oneself, on the page of the person."""
    actor_of(request)
    view = viewing.leave(request, now=timezone.now())
    if view is None:
        return done(request, "You see the portal as yourself.", reverse("home"))
    words = f"You no longer see the portal as {view.person.shown_name}."
    return done(request, words, reverse("console-sessions", args=[view.person.username]))
