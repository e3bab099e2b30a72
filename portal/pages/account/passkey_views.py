"""Making and removing one's passkeys, and signing in with one alone: parse, call, present."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from apps.accounts.actors import actor_of
from apps.accounts.models import User
from apps.accounts.second_factor import factors, passkeys
from apps.accounts.selectors import oneself
from apps.accounts.sign_in import sign_in_locally, way_on
from apps.accounts.tries import Try, know_device
from apps.errors import DomainError
from apps.web.requests.perimeter import allowed
from portal.pages.account.proving import (
    SECRETS,
    ProvenView,
    after_removal,
    codes_page,
    owns,
    say,
    unproven,
)
from portal.pages.account.second_factor_forms import NewPasskeyForm, PasskeyAnswerForm
from portal.pages.account.session_views import HERE
from portal.pages.account.sign_in_views import onward
from portal.pages.parts.answers import done, with_status
from portal.pages.parts.htmx import redirect_after, render_page


@method_decorator([never_cache, SECRETS], name="dispatch")
class PasskeySignInView(View):
    """A passkey alone, whose device has verified its owner."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The question, for a button that the person presses."""
        if request.user.is_authenticated:
            return redirect_after(request, onward(request, way_on(request)))
        return self._page(request, PasskeyAnswerForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Check the answer; every wrong one gets the same words."""
        if request.user.is_authenticated:
            return redirect_after(request, onward(request, way_on(request)))
        form, now = PasskeyAnswerForm(request.POST), timezone.now()
        if not form.is_valid():
            return self._page(request, form, status=422)
        answer = form.cleaned_data["answer"]
        try:
            user = passkeys.owner(user=None, answer=answer, session=request.session, now=now)
        except DomainError as error:
            return self._page(request, form, status=say(form, error))
        sign_in_locally(request, user, by=("passkey",), now=now)
        response = redirect_after(request, onward(request, way_on(request)))
        Try.of_passkey(request, now).give_back()
        return know_device(request, response, user.username)

    def _page(self, request: HttpRequest, form: PasskeyAnswerForm, *, status: int = 200) -> HttpResponse:
        now = timezone.now()
        if full := Try.of_passkey(request, now).spend():
            full.require()
        asked = passkeys.begin_asking(request.session, None, now=now)
        request.session.set_expiry(passkeys.LIFE)
        shown = {"form": form, "asked": json.dumps(asked), "next": way_on(request), "failed": status != 200}
        page = render_page(request, "account/passkey_sign_in.html", shown)
        return with_status(allowed(page, "publickey-credentials-get"), status)


@method_decorator([never_cache, SECRETS], name="dispatch")
class NewPasskeyView(View):
    """A new passkey."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form."""
        return self._page(request, oneself(actor_of(request)), NewPasskeyForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        """Keep it; recovery codes stand in this answer alone."""
        actor, now, form = actor_of(request), timezone.now(), NewPasskeyForm(request.POST)
        user = oneself(actor)
        if not form.is_valid():
            return self._page(request, user, form, status=422)
        name, answer = form.cleaned_data["name"], form.cleaned_data["answer"]
        if status := unproven(request, user, form, owns(user)):
            return self._page(request, user, form, status=status)
        try:
            made = passkeys.make(
                actor=actor, user=user, name=name, answer=answer, session=request.session, now=now
            )
        except DomainError as error:
            return self._page(request, user, form, status=say(form, error))
        return (
            codes_page(request, user, made, HERE)
            if made
            else done(request, f"The passkey {name} is kept.", HERE)
        )

    def _page(
        self, request: HttpRequest, user: User, form: NewPasskeyForm, *, status: int = 200
    ) -> HttpResponse:
        asked = passkeys.begin_making(request.session, user, now=timezone.now())
        shown = {"form": form, "asked": json.dumps(asked), "failed": status != 200}
        page = render_page(request, "account/new_passkey.html", shown)
        return with_status(allowed(page, "publickey-credentials-create"), status)


class RemovePasskeyView(ProvenView):
    """One passkey goes."""

    def told(self, user: User, **of: Any) -> dict[str, str]:
        """Which, and what follows."""
        row = passkeys.passkey_of(user, of["passkey"])
        factors.require_removable(user)
        return {
            "title": f"Remove the passkey {row.name}?",
            "sentence": f"It opens your account no more; delete it on the device too. {after_removal(user)}",
            "button": "Remove the passkey",
        }

    def act(self, request: HttpRequest, user: User, **of: Any) -> HttpResponse:
        """Remove it."""
        actor, here, now = actor_of(request), request.session.session_key or "", timezone.now()
        passkeys.remove(actor=actor, user=user, which=of["passkey"], here=here, now=now)
        return done(request, "The passkey is removed.", HERE)
